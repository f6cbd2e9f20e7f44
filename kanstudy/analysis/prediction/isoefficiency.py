"""How large the work must be for the ranks to be worth it: maps of the parallel efficiency over width, grid and batch,
and the iso-efficiency function.

Iso-efficiency (Grama, Gupta & Kumar 1993): from E = 1/(1 + T_o/W), with the work W of one rank and T_o all that p ranks
do beyond it, E stays as p grows only if W grows with T_o(W, p). Work grows here with the batch, the width and the grid;
the faster an operator is, the less work the same batch is.

All of it evaluates a machine model without noise: predictions, which no table or figure mixes with measurements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from kanstudy.analysis.attribution.chain import FACTORS, factor_name
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import flops_per_sample
from kanstudy.analysis.tables.layouts import SCALE, Column
from kanstudy.spec import PointSpec

SMALLEST_LOSS = 0.99
"""A factor above this costs less than one percent: no loss to speak of."""
NO_LOSS = "none"
WORK = ["grid_size", "hidden_width", "global_batch_size"]

ISO = {
    "operator_speed": Column("operator (times as fast)"),
    "world_size": SCALE["world_size"],
    "local_batch_size": Column("local batch", 1, 0),
    "global_batch_size": Column("global batch", 1, 0),
    "work_flop": Column("work of a step (GFLOP)", 1e-9, 2),
    "efficiency": Column("parallel efficiency", digits=3),
    "source": Column("source"),
    "reason": Column("note"),
}


def with_operator(machine: MachineModel, speed: float) -> MachineModel:
    """The machine with an operator that does the work of each row `speed` times as fast. Launches, optimizer and
    communication stay what they are."""
    rates = {name: speed * getattr(machine, name) for name in ("flops_per_s", "activation_bytes_per_s")}
    return replace(machine, **rates)


def with_hidden_width(layer_widths: Sequence[int], width: int) -> tuple[int, ...]:
    """The widths, input to output, with all hidden ones equal; `ValueError` where there is no hidden layer."""
    if len(layer_widths) < 3:
        raise ValueError(
            f"layer_widths = {tuple(layer_widths)!r}: must have a hidden layer, whose width can be changed"
        )
    return (layer_widths[0], *[width] * (len(layer_widths) - 2), layer_widths[-1])


def efficiency_map(
    machine: MachineModel,
    template: PointSpec,
    hidden_widths: Sequence[int],
    grid_sizes: Sequence[int],
    global_batch_sizes: Sequence[int],
    operator_speeds: Sequence[float] = (1.0,),
) -> pd.DataFrame:
    """One row an operator speed, grid, hidden width and global batch, at the template's world size and all else of it.

    Columns: operator_speed, those of `WORK`, world_size; step_time_s, throughput (rows/s of all ranks), efficiency and
    one a factor; `largest_loss`, the smallest factor, "none" where that is above `SMALLEST_LOSS`; memory_bytes of a
    rank in a DDP step, fits; source. Where a rank's memory does not hold the step, `fits` is False and nothing else is
    told. Raises `ValueError` where the template has no hidden layer.
    """
    rows = []
    for speed, grid, width, batch in itertools.product(operator_speeds, grid_sizes, hidden_widths, global_batch_sizes):
        work = {"grid_size": grid, "hidden_width": width, "global_batch_size": batch}
        widths = with_hidden_width(template.layer_widths, width)
        point = template.with_batch(batch, grid_size=grid, layer_widths=widths)
        rows.append({"operator_speed": speed} | work | _at(with_operator(machine, speed), point))
    names = ["operator_speed", *WORK, "world_size", "step_time_s", "throughput", "efficiency", *FACTORS]
    return pd.DataFrame(rows, columns=[*names, "largest_loss", "memory_bytes", "fits", "source"])


def isoefficiency(
    machine: MachineModel,
    template: PointSpec,
    efficiency: float,
    world_sizes: Sequence[int],
    most_rows: int = 2**20,
    operator_speeds: Sequence[float] = (1.0,),
) -> pd.DataFrame:
    """The least local batch from which on the efficiency is kept, for each operator speed and world size: one row each.

    Columns: those of `ISO`; work_flop of a step of all ranks. Blank with a reason where `most_rows` rows a rank do not
    reach it, or not in a rank's memory. Raises `ValueError` unless the efficiency lies between 0 and 1.
    """
    if not 0 < efficiency < 1:
        raise ValueError(f"efficiency = {efficiency!r}: must lie between 0 and 1")
    rows = []
    for speed, p in itertools.product(operator_speeds, world_sizes):
        operator = with_operator(machine, speed)
        local, reason = _least_local_batch(operator, template, efficiency, p, most_rows)
        row: dict = {"operator_speed": speed, "world_size": p, "reason": reason, "source": "predicted"}
        if local is not None:
            point = template.with_batch(p * local, world_size=p)
            row |= {"local_batch_size": local, "global_batch_size": p * local}
            row |= {"work_flop": float(flops_per_sample(point) * p * local)}
            row |= {"efficiency": expected(point, operator).efficiency}
        rows.append(row)
    return pd.DataFrame(rows, columns=list(ISO)).astype({"local_batch_size": float, "global_batch_size": float})


def beside(found: pd.DataFrame) -> pd.DataFrame:
    """The fastest operator of a map beside the slowest, a row a cell that both fit: efficiency and throughput of both
    (`_faster`), `scales_worse` and `finishes_sooner`."""
    slow, fast = found["operator_speed"].min(), found["operator_speed"].max()
    both = [found[(found["operator_speed"] == speed) & found["fits"].astype(bool)] for speed in (slow, fast)]
    pairs = both[0].merge(both[1], on=[*WORK, "world_size"], suffixes=("", "_faster"))
    pairs["scales_worse"] = pairs["efficiency_faster"] < pairs["efficiency"]
    pairs["finishes_sooner"] = pairs["throughput_faster"] > pairs["throughput"]
    return pairs


def sentence(found: pd.DataFrame, machine: MachineModel) -> str:
    """Whether a faster operator scales worse while it finishes sooner, in words; what the map shows, no more."""
    pairs = beside(found)
    if found["operator_speed"].nunique() < 2 or pairs.empty:
        return "Operators cannot be compared: the map has one operator speed only, or nothing that fits."
    ratio = found["operator_speed"].max() / found["operator_speed"].min()
    both = pairs[pairs["scales_worse"] & pairs["finishes_sooner"]]
    gain = pairs["throughput_faster"] / pairs["throughput"]
    text = (
        f"{machine.name}, {pairs['world_size'].iloc[0]} ranks (predicted): an operator {ratio:g} times as fast "
        f"scales worse and yet finishes sooner in {len(both)} of {len(pairs)} cells of the map. Throughput is "
        f"{gain.median():.2f} times as high in the median cell ({gain.min():.2f} to {gain.max():.2f})."
    )
    lost = pairs["efficiency"] - pairs["efficiency_faster"]
    if lost.max() <= 0:
        return text
    most = pairs.iloc[int(lost.to_numpy().argmax())]
    return (
        f"{text} Most efficiency is lost at {cell_text(most)}: {most['efficiency']:.2f} becomes "
        f"{most['efficiency_faster']:.2f}, {most['throughput']:.3g} rows/s become {most['throughput_faster']:.3g}."
    )


def cell_text(cell: pd.Series) -> str:
    """A cell of the map in words."""
    return f"width {cell['hidden_width']}, grid {cell['grid_size']}, global batch {cell['global_batch_size']}"


def _least_local_batch(
    machine: MachineModel, template: PointSpec, efficiency: float, p: int, most_rows: int
) -> tuple[int | None, str]:
    """The least local batch that keeps the efficiency, as do all larger powers of two that fit, or why none does."""
    points = {
        rows: template.with_batch(p * rows, world_size=p)
        for rows in (2**k for k in range(int(math.log2(most_rows)) + 1))
    }
    fitting = [rows for rows, point in points.items() if machine.fits(point, "ddp")]
    kept = [rows for rows in fitting if expected(points[rows], machine).efficiency >= efficiency]
    most = fitting[-1] if fitting else 0
    if most not in kept:
        why = "the largest that fits" if most < max(points) else "the largest asked for"
        return None, f"not reached with {most} rows a rank, {why}"
    missed = [rows for rows in fitting if rows not in kept]
    low, high = (missed[-1], 2 * missed[-1]) if missed else (0, 1)
    while high - low > 1:
        middle = (low + high) // 2
        point = template.with_batch(p * middle, world_size=p)
        low, high = (low, middle) if expected(point, machine).efficiency >= efficiency else (middle, high)
    return high, ""


def _at(machine: MachineModel, point: PointSpec) -> dict:
    row: dict = {"world_size": point.world_size, "source": "predicted", "fits": machine.fits(point, "ddp")}
    row["memory_bytes"] = machine.peak_memory_bytes(point, "ddp")
    if not row["fits"]:
        return row
    found = expected(point, machine)
    name = min(found.factors, key=lambda factor: found.factors[factor])
    row |= {"step_time_s": found.step_time_s, "throughput": point.global_batch_size / found.step_time_s}
    row |= {"efficiency": found.efficiency} | found.factors
    return row | {"largest_loss": factor_name(name) if found.factors[name] < SMALLEST_LOSS else NO_LOSS}
