"""What the operator benchmark says: a row a candidate and shape, its table, and the caption of table and figure.

Times are compared round by round, so that the machine's drift falls out: a ratio is the median over rounds of the two
blocks' ratio within the round.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.tables.layouts import Column
from kanstudy.analysis.tables.save import save_table
from kanstudy.analysis.tables.view import view
from kanstudy.bench_record import FLOOR, BenchRecord, Cell, Part, shape_of
from kanstudy.sizes import widths_text

NAME = "operator_speed"
"""Of the figure's and the table's files."""
BASIS = "reference"
"""Which candidate speed-ups are told over."""
OURS = "fused"
"""Which candidate others are told as a multiple of."""

COLUMNS = {
    "layers": Column("layers"),
    "batch_size": Column("batch"),
    "label": Column("operator"),
    "version": Column("version"),
    "step_time_s": Column("step (ms)", 1e3, 2),
    "floor_ratio": Column("x floor", digits=2),
    "fused_ratio": Column("x fused", digits=2),
    "speedup": Column("speed-up over reference", digits=2),
    "peak_bytes": Column("peak memory of a step (MiB)", 1 / 2**20, 1),
    "memory_ratio": Column("x fused's memory", digits=1),
    "first_step_warm_s": Column("first step, warm (s)", digits=1),
    "first_step_cold_s": Column("first step, cold (s)", digits=1),
    "loss": Column("loss after the same steps", digits=4),
    "n_rounds": Column("rounds"),
    "reason": Column("note"),
}
_ESTIMATED = ("step_time_s", "floor_ratio", "fused_ratio", "speedup")


def error_column(grid_size: int) -> str:
    """The column of the basis' error at a grid; with `_text` behind it, the column to show."""
    return f"basis_error_{grid_size}"


def columns(record: BenchRecord) -> dict[str, Column]:
    """The columns to show, with the basis' errors at the record's grids before the rounds."""
    shown = dict(COLUMNS)
    last = {name: shown.pop(name) for name in ("n_rounds", "reason")}
    for grid_size in _grids(record):
        shown[f"{error_column(grid_size)}_text"] = Column(f"basis error, grid {grid_size}")
    return shown | last


def estimates(record: BenchRecord) -> pd.DataFrame:
    """One row a shape and candidate, in the record's order.

    layers, batch_size, candidate, label, version, n_params; step_time_s (median), floor_ratio, fused_ratio (its step
    over the floor's and over the fused operator's), speedup (the reference's step over its own), each with `_low` and
    `_high`; peak_bytes, memory_ratio (over the fused operator's), first_step_warm_s, first_step_cold_s, loss;
    basis_error_G, the basis' largest error at grid G; n_rounds, method, timing_status, memory_status, reason. What is
    not there is NaN, and reason says why.
    """
    accuracy = {item.candidate: item for item in record.accuracy}
    rows = []
    for text in record.shapes:
        shape = shape_of(text)
        step_times = {name: _step_times(record.cell(text, name)) for name in record.candidates}
        fused_peak = _peak(record, text, OURS)
        for name, label in record.candidates.items():
            cell, own = record.cell(text, name), step_times[name]
            seed = intervals.seed_of(f"{text} {name}")
            found = {
                "step_time_s": intervals.median(own, seed),
                "floor_ratio": _ratio(own, step_times.get(FLOOR), seed),
                "fused_ratio": _ratio(own, step_times.get(OURS), seed),
                "speedup": _ratio(step_times.get(BASIS), own, seed),
            }
            errors = accuracy[name].max_errors or [np.nan] * len(accuracy[name].grids)
            by_grid = {error_column(grid): error for grid, error in zip(accuracy[name].grids, errors, strict=True)}
            peak = _peak(record, text, name)
            rows.append(
                {
                    "layers": widths_text(shape.layer_widths),
                    "batch_size": shape.batch_size,
                    "candidate": name,
                    "label": label,
                    "version": record.versions.get(name) or "",
                    "n_params": np.nan if cell.n_params is None else cell.n_params,
                }
                | _with_intervals(found)
                | {
                    "peak_bytes": peak,
                    "memory_ratio": peak / fused_peak,
                    "first_step_warm_s": _number(cell.first_step_warm_s),
                    "first_step_cold_s": _number(cell.first_step_cold_s),
                    "loss": _number(cell.losses[-1]) if cell.losses else np.nan,
                }
                | by_grid
                | {f"{column}_text": f"{error:.1e}" if error == error else "" for column, error in by_grid.items()}
                | {
                    "n_rounds": len(own),
                    "method": found["floor_ratio"].method,
                    "timing_status": cell.timing.status,
                    "memory_status": cell.memory.status,
                    "reason": _reason(cell, accuracy[name]),
                }
            )
    return pd.DataFrame(rows)


def caption(record: BenchRecord) -> str:
    """What the figure and the table rest on, for under them."""
    steps = {len(cell.losses) for cell in record.cells if cell.losses}
    grid = f"{record.dtype}, spline order {record.spline_order}, grid {record.grid_size}"
    sentences = [
        f"Source: {record.source}; profile: {record.profile or 'none'}; hardware: "
        f"{record.provenance.get('cpu_model') or 'unknown'}, {record.threads} thread(s); {grid}",
        "A training step: zero_grad, forward, mean squared error, backward, Adam",
        "Floor: the layers' matrix products alone (forward, the weight's gradient and, but for the first layer, the "
        "expanded input's) on a stored expansion, and Adam",
        f"Medians of {record.rounds_planned} rounds of one block each of at least about {1e3 * record.block_s:g} ms, "
        f"all candidates interleaved in shuffled order in one process a shape; ratios within a round; intervals "
        f"{intervals.scope(1)}",
        "Memory: resident at the highest point of a step above what was resident before the first step: gradients, "
        "moments, activations, temporaries and kept scratch; parameters, data and code are not in it",
        "Basis error: the largest difference from SciPy's basis in float64",
    ]
    if steps:
        sentences.append(f"Loss after {max(steps)} steps from the same weights on the same batch")
    if record.status != "ok":
        sentences.append("The measurement is not complete")
    return ". ".join(sentences) + "."


def table(record: BenchRecord) -> str:
    """The table for a terminal, as Markdown."""
    return view(estimates(record), columns(record)).to_markdown()


def save(record: BenchRecord, figures_dir: Path | str) -> None:
    """Write the table as CSV, Markdown and LaTeX; `OSError` where that fails."""
    save_table(estimates(record), columns(record), figures_dir, NAME, caption(record))


def _grids(record: BenchRecord) -> list[int]:
    return record.accuracy[0].grids if record.accuracy else []


def _step_times(cell: Cell) -> np.ndarray:
    """Seconds a step in each round (rounds,); empty where it was not timed."""
    timing = cell.timing
    if timing.status != "ok" or not timing.steps_per_block:
        return np.array([])
    return np.array(timing.block_times_s, dtype=float) / timing.steps_per_block


def _ratio(above: np.ndarray | None, below: np.ndarray | None, seed: int) -> Estimate:
    if above is None or below is None or not len(above) or len(above) != len(below):
        return MISSING
    return intervals.median(above / below, seed)


def _with_intervals(found: dict[str, Estimate]) -> dict[str, float]:
    row: dict[str, float] = {}
    for name in _ESTIMATED:
        row |= {name: found[name].value, f"{name}_low": found[name].low, f"{name}_high": found[name].high}
    return row


def _peak(record: BenchRecord, shape: str, name: str) -> float:
    return _number(record.cell(shape, name).memory.peak_bytes) if name in record.candidates else np.nan


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _reason(cell: Cell, accuracy: Part) -> str:
    """Every part that is not ok, or whose value is not there; the same reason once."""
    parts = {"timing": cell.timing, "memory": cell.memory, "accuracy": accuracy}
    reasons: dict[str, list[str]] = {}
    for name, part in parts.items():
        text = ": ".join(filter(None, [part.status if part.status != "ok" else "", part.reason]))
        if text:
            reasons.setdefault(text.replace(";", ","), []).append(name)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in reasons.items())
