"""Which sizes of a training would, on an assumed machine, come out as the published study did.

The study states neither model nor batch (`kanstudy.analysis.published`), so no number of ours can be held against its
own. What can be asked is which settings a machine model with stated constants would give those numbers for: a region
of them, how it depends on each constant, and what the efficiency is then lost to. A prediction from assumptions; it
reproduces nothing, and refutes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import factor_name
from kanstudy.analysis.machine_model.expected import Expected, expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.prediction.isoefficiency import with_hidden_width
from kanstudy.analysis.published import EFFICIENCY, OVERHEAD, WORLD_SIZE
from kanstudy.analysis.tables.layouts import Column
from kanstudy.spec import PointSpec

TOLERANCE = 0.025
"""How far from the published efficiency a predicted one may lie: as far as a measured one is known that has the
study's usual interval, ±2.5 %. The published one has none."""
DIGIT = 0.001
"""The last digit in which the published overhead is given: what changes less does not rise or fall."""
_CONSTANTS = (
    "flops_per_s",
    "activation_bytes_per_s",
    "launch_s",
    "optimizer_s",
    "optimizer_s_per_parameter",
    "contention",
    "ddp_s",
    "ddp_s_per_byte",
    "overlap_slowdown",
)
SETTING = ["hidden_width", "global_batch_size", "bucket_cap_mb", "placement", "overhead_scaling"]

REGION = {
    "hidden_width": Column("width"),
    "global_batch_size": Column("global batch"),
    "bucket_cap_mb": Column("bucket cap (MiB)"),
    "placement": Column("placement"),
    "overhead_scaling": Column("overhead over ranks, scaling"),
    "efficiency": Column(f"parallel efficiency, {WORLD_SIZE} ranks", digits=3),
    "overheads": Column("overhead (%) by ranks"),
    "largest_loss": Column("largest loss"),
    "largest_share": Column("its share of ln E (%)", 100, 0),
    "source": Column("source"),
}
SENSITIVITY = {
    "constant": Column("assumed constant"),
    "assumed": Column("assumed"),
    "times": Column("times"),
    "consistent": Column("settings consistent"),
    "settings": Column("of"),
    "source": Column("source"),
}


@dataclass(frozen=True)
class Settings:
    """The settings to go through: every hidden width with every global batch, bucket cap, placement, and way to compare
    overheads over world sizes. That the study does not state: `strong` keeps the global batch, `weak` the rows that a
    rank has of it at `WORLD_SIZE` ranks. `world_sizes` are those whose overheads are compared."""

    hidden_widths: Sequence[int]
    global_batch_sizes: Sequence[int]
    bucket_caps_mb: Sequence[float] = (25.0,)
    placements: Sequence[str] = ("packed",)
    overhead_scalings: Sequence[str] = ("strong", "weak")
    world_sizes: Sequence[int] = (2, 4, 8)


def region(machine: MachineModel, template: PointSpec, settings: Settings) -> pd.DataFrame:
    """One row a setting: those of `SETTING`; the efficiency of strong scaling at `WORLD_SIZE` ranks, its factors,
    the largest_loss of them and its share of ln E; `overheads` (text, by ranks), the lowest and the highest.

    `efficiency_agrees`, `overhead_agrees` (inside the published range at every world size), `not_monotonic` (rises and
    falls over world sizes), and `consistent`, all three; all False where a rank's memory does not hold
    its step, or not the baseline's.
    """
    rows = []
    lists = (settings.hidden_widths, settings.global_batch_sizes, settings.bucket_caps_mb, settings.placements)
    for width, batch, cap, placement in itertools.product(*lists):
        changes = {"layer_widths": with_hidden_width(template.layer_widths, width), "bucket_cap_mb": cap}
        changes |= {"placement": placement, "scaling": "strong", "n_samples": max(template.n_samples, batch)}
        point = replace(template, world_size=WORLD_SIZE, global_batch_size=batch, **changes)  # type: ignore[arg-type]  # as the fields are
        whole = expected(point, machine)
        fits = machine.fits(point, "ddp") and machine.fits(point, "serial_global")
        for scaling in settings.overhead_scalings:
            shares = {p: expected(_at(point, p, scaling), machine).overhead for p in settings.world_sizes}
            setting = (width, batch, cap, placement, scaling)
            rows.append(dict(zip(SETTING, setting, strict=True)) | _described(whole) | _compared(whole, shares, fits))
    return pd.DataFrame(rows)


def not_monotonic(values: np.ndarray) -> bool:
    """Whether values both rise and fall, by `DIGIT` or more each."""
    highest, lowest = np.maximum.accumulate(values), np.minimum.accumulate(values)
    return bool((values - lowest >= DIGIT).any() and (highest - values >= DIGIT).any())


def sensitivity(
    machine: MachineModel, template: PointSpec, settings: Settings, times: Sequence[float] = (0.5, 2.0)
) -> pd.DataFrame:
    """How many settings are consistent if one constant of the machine is so many `times` what is assumed: first a row
    with none changed, then one for each constant that the machine has and each of `times`."""
    changes = [("none", 1.0), *itertools.product(constants(machine), times)]
    rows = []
    for constant, time in changes:
        found = region(_changed(machine, constant, time), template, settings)
        row = {"constant": constant, "assumed": constants(machine).get(constant, np.nan), "times": time}
        rows.append(row | {"consistent": int(found["consistent"].sum()), "settings": len(found), "source": "predicted"})
    return pd.DataFrame(rows, columns=list(SENSITIVITY))


def constants(machine: MachineModel) -> dict[str, float]:
    """The constants that a machine model has, by name and in SI units: those that are neither absent nor infinite."""
    found = {name: getattr(machine, name) for name in _CONSTANTS}
    for tier, name in itertools.product(("inside", "between"), ("latency_s", "bytes_per_s")):
        found[f"{tier} {name}"] = getattr(getattr(machine.network, tier), name)
    return {name: value for name, value in found.items() if 0 < value < np.inf}


def sentence(found: pd.DataFrame, machine: MachineModel) -> str:
    """What the region says, in words, or that there is none and which of the three conditions is met how often."""
    head = f"Predicted from {machine.name}, {machine.network.name} ({machine.network.basis}), {len(found)} settings: "
    region_of = found[found["consistent"]]
    if region_of.empty:
        counts = ", ".join(
            f"{what} in {int(found[name].sum())}"
            for name, what in (
                ("efficiency_agrees", "the efficiency agrees"),
                ("overhead_agrees", "the overhead lies in the range"),
                ("not_monotonic", "it is not monotonic"),
            )
        )
        return f"{head}none is consistent with the published numbers ({counts})."
    losses = region_of["largest_loss"].value_counts()
    share = region_of.loc[region_of["largest_loss"] == losses.index[0], "largest_share"].median()
    ways = ", ".join(f"{way} {count}" for way, count in region_of["overhead_scaling"].value_counts().items())
    return (
        f"{head}{len(region_of)} are in a region consistent with {EFFICIENCY.text} at {WORLD_SIZE} GPUs and overhead "
        f"that is {OVERHEAD.text} (overheads compared by {ways}): widths {_range(region_of['hidden_width'])}, global "
        f"batches {_range(region_of['global_batch_size'])}, bucket caps {_range(region_of['bucket_cap_mb'])} MiB. "
        f"There the largest loss is {losses.index[0]} in {losses.iloc[0]} of them, {100 * share:.0f} % of ln E in the "
        "median. A prediction from assumptions, not a reproduction."
    )


def _compared(whole: Expected, overheads: dict[int, float], fits: bool) -> dict:
    """Whether a setting's numbers agree with the published ones."""
    values = np.array(list(overheads.values()))
    low, high = EFFICIENCY.low - TOLERANCE, EFFICIENCY.high + TOLERANCE  # type: ignore[operator]  # both have numbers
    agrees = {
        "efficiency_agrees": fits and low <= whole.efficiency <= high,
        "overhead_agrees": fits and bool((values >= OVERHEAD.low).all() and (values <= OVERHEAD.high).all()),
        "not_monotonic": fits and not_monotonic(values),
    }
    text = ", ".join(f"{100 * value:.1f} at {p}" for p, value in overheads.items())
    row = {"overheads": text, "overhead_lowest": values.min(), "overhead_highest": values.max(), "fits": fits}
    return row | agrees | {"consistent": all(agrees.values()), "source": "predicted"}


def _described(whole: Expected) -> dict:
    name = min(whole.factors, key=lambda factor: whole.factors[factor])
    lost = whole.efficiency < 1
    share = np.log(whole.factors[name]) / np.log(whole.efficiency) if lost else np.nan
    return {"efficiency": whole.efficiency, **whole.factors, "largest_loss": factor_name(name), "largest_share": share}


def _at(point: PointSpec, world_size: int, scaling: str) -> PointSpec:
    batch = point.global_batch_size if scaling == "strong" else point.local_batch_size * world_size
    return replace(point, world_size=world_size, global_batch_size=batch, scaling=scaling)


def _changed(machine: MachineModel, constant: str, times: float) -> MachineModel:
    tier, _, name = constant.rpartition(" ")
    if constant == "none":
        return machine
    if not tier:
        return replace(machine, **{name: times * getattr(machine, name)})
    link = getattr(machine.network, tier)
    link = replace(link, **{name: times * getattr(link, name)})
    return replace(machine, network=replace(machine.network, **{tier: link}))


def _range(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
