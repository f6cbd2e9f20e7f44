"""Which sizes of a training would, on an assumed machine, come out as the published study did.

The study states neither model nor batch (`kanstudy.analysis.published`), so no number of ours can be held against its
own. What can be asked is which settings a machine model with stated constants would give those numbers for: a region
of them, and what the efficiency is then lost to (how it depends on each constant: `published_sensitivity`). A
prediction from assumptions; it reproduces nothing, and refutes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import factor_name
from kanstudy.analysis.machine_model.expected import Expected, expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.prediction.isoefficiency import with_hidden_width
from kanstudy.analysis.published import EFFICIENCY, OVERHEAD, WORLD_SIZE
from kanstudy.analysis.tables.layouts import SCALE, Column
from kanstudy.spec import PointSpec

TOLERANCE = 0.025
"""How far from the published efficiency a predicted one may lie: as far as a measured one is known that has the
study's usual interval, ±2.5 %. The published one has none."""
DIGIT = 0.001
"""The last digit in which the published overhead is given: what changes by less neither rises nor falls."""
ORDERS = {
    "packed": ((2, "packed"), (4, "packed"), (8, "packed")),
    "spread": ((2, "spread"), (4, "spread"), (8, "spread")),
    "packed, then spread": ((2, "packed"), (2, "spread"), (4, "packed"), (4, "spread"), (8, "packed")),
}
"""World sizes and placements over which overheads are compared, in this order. The study does not state its own."""
_WAY = ["scaling", "order"]
_SIZES = (("hidden_width", "widths", ""), ("global_batch_size", "global batches", ""))
SETTING = ["hidden_width", "global_batch_size", "bucket_cap_mb", "scaling", "order"]

REGION = {
    "hidden_width": Column("width"),
    "global_batch_size": SCALE["global_batch_size"],
    "bucket_cap_mb": SCALE["bucket_cap_mb"],
    "scaling": Column("overheads compared by scaling"),
    "order": Column("and order of allocations"),
    "efficiency": Column(f"parallel efficiency, {WORLD_SIZE} ranks", digits=3),
    "overheads": Column("overhead (%)"),
    "largest_loss": Column("largest loss"),
    "largest_share": Column("its share of ln E (%)", 100, 0),
    "source": Column("source"),
}


@dataclass(frozen=True)
class Settings:
    """The settings to go through: every hidden width with every global batch and bucket cap, and every way to compare
    overheads: `scalings`, `strong` with the global batch kept, `weak` with the rows that a rank has of it at
    `WORLD_SIZE` ranks; and `orders`, names of `ORDERS`."""

    hidden_widths: Sequence[int]
    global_batch_sizes: Sequence[int]
    bucket_caps_mb: Sequence[float] = (25.0,)
    scalings: Sequence[str] = ("strong", "weak")
    orders: Sequence[str] = tuple(ORDERS)

    def points(self, template: PointSpec) -> Iterator[tuple[dict[str, int | float], PointSpec]]:
        """Each size, by name, and the point of strong scaling at `WORLD_SIZE` ranks that has it."""
        lists = (self.hidden_widths, self.global_batch_sizes, self.bucket_caps_mb)
        for size in itertools.product(*lists):
            width, batch, cap = size
            point = template.with_batch(
                batch,
                scaling="strong",
                world_size=WORLD_SIZE,
                placement="packed",
                layer_widths=with_hidden_width(template.layer_widths, width),
                bucket_cap_mb=cap,
            )
            yield dict(zip(SETTING, size, strict=False)), point

    def ways(self) -> Iterator[tuple[str, str]]:
        """Each way to compare overheads: a scaling and an order."""
        return itertools.product(self.scalings, self.orders)


def region(machine: MachineModel, template: PointSpec, settings: Settings) -> pd.DataFrame:
    """One row a setting: those of `SETTING`; the efficiency of strong scaling at `WORLD_SIZE` ranks, its factors,
    the largest_loss of them and its share of ln E; `overheads` (text), the lowest and the highest of them.

    `efficiency_agrees`, `overhead_agrees` (inside the published range everywhere), `not_monotonic` (rises and falls
    over the order), and `consistent`, all three; all False where a rank's memory does not hold its step, or not the
    baseline's.
    """
    rows = []
    for size, point in settings.points(template):
        whole = expected(point, machine)
        at, is_held = overheads(machine, point), fits(machine, point)
        for scaling, order in settings.ways():
            row = size | {"scaling": scaling, "order": order} | _described(whole)
            rows.append(row | compared(at, whole.efficiency, is_held, scaling, order))
    return pd.DataFrame(rows)


def not_monotonic(values: np.ndarray) -> bool:
    """Whether values both rise and fall, by `DIGIT` or more each."""
    highest, lowest = np.maximum.accumulate(values), np.minimum.accumulate(values)
    return bool((values - lowest >= DIGIT).any() and (highest - values >= DIGIT).any())


def sentence(found: pd.DataFrame, machine: MachineModel) -> str:
    """What the region says, in words, or that there is none and which of the three conditions is met how often."""
    head = (
        f"Predicted from {machine.name}, {machine.network.name} ({machine.network.basis}). Of {len(found)} settings, "
        f"widths {_range(found['hidden_width'])} and global batches {_range(found['global_batch_size'])}, "
    )
    found = found.assign(both_agree=found["efficiency_agrees"] & found["overhead_agrees"])
    region_of = found[found["consistent"]]
    if region_of.empty:
        counts = ", ".join(
            f"{what} in {int(found[name].sum())}"
            for name, what in (
                ("efficiency_agrees", "the efficiency agrees"),
                ("overhead_agrees", "the overhead lies in the range"),
                ("both_agree", "both"),
                ("not_monotonic", "the overhead is not monotonic"),
            )
        )
        return f"{head}none is consistent with the published numbers ({counts})."
    losses = region_of["largest_loss"].value_counts()
    share = region_of.loc[region_of["largest_loss"] == losses.index[0], "largest_share"].median()
    ways = ", ".join(f"{scaling} scaling {order} {len(rows)}" for (scaling, order), rows in region_of.groupby(_WAY))
    sizes = ", ".join(
        f"{what} {_range(region_of[name])}{unit}"
        for name, what, unit in (*_SIZES, ("bucket_cap_mb", "bucket caps", " MiB"))
    )
    return (
        f"{head}{len(region_of)} lie in a region consistent with {EFFICIENCY.text} at {WORLD_SIZE} GPUs and an "
        f"overhead that is {OVERHEAD.text} (overheads compared by {ways}): {sizes}{_edge(region_of, found)}. There the "
        f"largest loss is {losses.index[0]} in {losses.iloc[0]} of them, {100 * share:.0f} % of ln E in the median. "
        "A prediction from assumptions, not a reproduction."
    )


def fits(machine: MachineModel, point: PointSpec) -> bool:
    """Whether a rank's memory holds its step of the point, and the baseline's."""
    return machine.fits(point, "ddp") and machine.fits(point, "serial_global")


def agrees(efficiency: float) -> bool:
    """Whether an efficiency lies within `TOLERANCE` of the published one."""
    return EFFICIENCY.low - TOLERANCE <= efficiency <= EFFICIENCY.high + TOLERANCE  # type: ignore[operator]  # has both


def overheads(machine: MachineModel, point: PointSpec) -> Callable[[int, str, str], float]:
    """The overhead of a size by world size, placement and scaling, each evaluated once."""

    @cache
    def overhead(world_size: int, placement: str, scaling: str) -> float:
        return expected(replace(point, scaling=scaling).at(world_size, placement), machine).overhead

    return overhead


def compared(
    overhead: Callable[[int, str, str], float], efficiency: float, is_held: bool, scaling: str, order: str
) -> dict[str, object]:
    """Whether a setting's numbers agree with the published ones, as `region` tells it: its `overheads`, its efficiency,
    and whether memory holds it."""
    values = np.array([overhead(*where, scaling) for where in ORDERS[order]])
    holds = {
        "efficiency_agrees": is_held and agrees(efficiency),
        "overhead_agrees": is_held and bool((values >= OVERHEAD.low).all() and (values <= OVERHEAD.high).all()),
        "not_monotonic": is_held and not_monotonic(values),
    }
    text = ", ".join(f"{100 * value:.1f} at {p} {laid}" for value, (p, laid) in zip(values, ORDERS[order], strict=True))
    row = {"overheads": text, "overhead_lowest": values.min(), "overhead_highest": values.max(), "fits": is_held}
    return row | holds | {"consistent": all(holds.values()), "source": "predicted"}


def _described(whole: Expected) -> dict:
    name = min(whole.factors, key=lambda factor: whole.factors[factor])
    lost = whole.efficiency < 1
    share = np.log(whole.factors[name]) / np.log(whole.efficiency) if lost else np.nan
    return {"efficiency": whole.efficiency, **whole.factors, "largest_loss": factor_name(name), "largest_share": share}


def _edge(region_of: pd.DataFrame, found: pd.DataFrame) -> str:
    """Whether the region ends where the sizes that were asked for do, so that it may go on beyond."""
    ends = [
        what
        for name, what, _ in _SIZES
        if {region_of[name].min(), region_of[name].max()} & {found[name].min(), found[name].max()}
    ]
    return f", at the edge of the {' and '.join(ends)} asked for" if ends else ""


def _range(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
