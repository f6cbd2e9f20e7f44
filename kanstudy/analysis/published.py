"""The published study's numbers, and ours beside them, each marked comparable or not, and why.

"Scalability Analysis of Distributed Kolmogorov-Arnold Network Training on High-Performance Computing Systems",
arXiv 2609.07740v1, 7 September 2026: only what its abstract states. Layer widths, grid size, spline order, batch
sizes, optimizer, repeats, and how the overhead was measured are not stated there, so no comparison is of like with
like in all respects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.rows import value_text
from kanstudy.analysis.series import WORK_KEYS, names

REFERENCE = "arXiv 2609.07740v1, abstract"
UNSTATED = "model and batch sizes are not stated there"


@dataclass(frozen=True)
class Published:
    """One published quantity: its text, and its numbers `low` to `high` where it has any; `where` it stands."""

    quantity: str
    text: str
    low: float | None = None
    high: float | None = None
    where: str = REFERENCE


WORLD_SIZE = 8
DEVICE = "A100"
SPEEDUP = Published("speed-up at 8 GPUs", "5.97x", 5.97, 5.97)
EFFICIENCY = Published("parallel efficiency at 8 GPUs", "74.7 %", 0.747, 0.747)
WEAK = Published("weak scaling", "an initial single-to-multi-GPU throughput drop, then strong stability")
OVERHEAD = Published("communication overhead", "non-monotonic, 1.3 % to 6.1 %", 0.013, 0.061)
MEMORY = Published("parameter-to-memory ratio", "improves with model size")
TIME = Published("training time over model size", "scales unfavourably")
OPERATORS = Published("operators and ranks", "operator-level and data-parallel optimisations are complementary")
_ALL_BUT_SIZE = [name for name in WORK_KEYS if name not in ("layer_widths", "grid_size")]
_ALL_BUT_SIZE += ["global_batch_size", "world_size"]
COLUMNS = ["quantity", "published", "where", "ours", "series", "source", "comparable", "why", "point_ids"]


def compare(
    strong: pd.DataFrame,
    weak: pd.DataFrame,
    overhead: pd.DataFrame,
    sizes: pd.DataFrame,
    operators: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The published quantities beside the estimates of `kanstudy.analysis.estimates` and, for the operators, of
    `complementarity`, a row a series of our KANs: theirs are KANs, too.

    Columns: quantity, published, where, ours, series, source, comparable ("in part" at best), why, point_ids. A
    quantity that we did not measure is a row too.
    """
    strong, weak, overhead, sizes = (
        frame[frame["model"] == "kan"] if len(frame) else frame for frame in (strong, weak, overhead, sizes)
    )
    rows = [*_scaling(strong), *_weak(weak), *_overhead(overhead), *_sizes(sizes)]
    rows += _operators(pd.DataFrame() if operators is None else operators)
    return pd.DataFrame(rows, columns=COLUMNS)


def beside_caption(strong: pd.DataFrame) -> str:
    """For under the figure of efficiencies beside the published one: where each source's come from."""
    profiles = {str(source): ", ".join(dict.fromkeys(rows["profile"])) for source, rows in strong.groupby("source")}
    sentences = [f"{source.capitalize()}: profile {names}" for source, names in profiles.items()]
    if "simulated" in profiles:
        sentences.append("The simulation rests on assumed constants of that machine, none of them measured on it")
    sentences.append(f"Published: {EFFICIENCY.text} on {WORLD_SIZE} {DEVICE}, {REFERENCE}; {UNSTATED}")
    sentences.append("Theirs may be another model and batch: where numbers agree, nothing is reproduced")
    return ". ".join(sentences) + "."


def setting_text(row: pd.Series) -> str:
    """A communication setting in words."""
    hook = "" if row["comm_hook"] == "none" else f", hook {row['comm_hook']}"
    return f"bucket cap {row['bucket_cap_mb']:g} MiB, buffers {'' if row['sync_buffers'] else 'not '}synchronised{hook}"


def _scaling(strong: pd.DataFrame) -> Iterator[dict]:
    for theirs, name in ((SPEEDUP, "speedup"), (EFFICIENCY, "efficiency")):
        rows = _largest(strong, name)
        if rows.empty:
            yield _absent(theirs)
        for _, row in rows.iterrows():
            ours = f"{value_text(row, name)} at {row['world_size']} ranks"
            if name == "efficiency" and np.isfinite(row["efficiency_ddp1"]):
                ours += f"; {value_text(row, 'efficiency_ddp1')} with DDP on one rank as baseline"
            yield _row(theirs, row, name, ours, [row["point_id"]], "which baseline it has is not stated there")


def _weak(weak: pd.DataFrame) -> Iterator[dict]:
    rows = _largest(weak, "efficiency")
    if rows.empty:
        yield _absent(WEAK)
    for series, last in rows.groupby("series"):
        curve = weak[(weak["series"] == series) & (weak["world_size"] > 1)].dropna(subset="efficiency")
        curve = curve.sort_values("world_size")
        ours = "efficiency " + ", ".join(
            f"{value_text(row, 'efficiency')} at {row['world_size']}" for _, row in curve.iterrows()
        )
        reason = "" if len(curve) > 1 else "stability needs more than one size above one rank"
        yield _row(WEAK, last.iloc[0], "efficiency", ours + " ranks", list(curve["point_id"]), reason)


def _overhead(overhead: pd.DataFrame) -> Iterator[dict]:
    measured = overhead.dropna(subset="overhead") if len(overhead) else overhead
    if measured.empty:
        yield _absent(OVERHEAD)
    for _, row in measured.iterrows():
        ours = f"{value_text(row, 'overhead', 100, 1)} % at {row['world_size']} ranks, {setting_text(row)}"
        reason = "whether theirs is exposed or total, and at how many GPUs, is not stated there"
        yield _row(OVERHEAD, row, "overhead", ours, [row["point_id"]], reason)


def _sizes(sizes: pd.DataFrame) -> Iterator[dict]:
    for theirs, name in ((MEMORY, "params_per_byte"), (TIME, "step_time_s")):
        measured = sizes.dropna(subset=[name, "n_params"]) if len(sizes) else sizes
        groups = (
            [rows for _, rows in measured.groupby(_ALL_BUT_SIZE, sort=False, dropna=False)] if len(measured) else []
        )
        sweeps = [rows.sort_values("n_params") for rows in groups if rows["n_params"].nunique() > 1]
        if not sweeps:
            yield _absent(theirs)
        for rows in sweeps:
            first, last = rows.iloc[0], rows.iloc[-1]
            grown = f"{last['n_params'] / first['n_params']:.1f} times the parameters"
            change = f"{last[name] / first[name]:.2f} times"
            ours = f"{names(rows).iloc[0]}: {grown}, {change} the " + (
                "parameters per byte" if theirs is MEMORY else "time of a step"
            )
            yield _row(theirs, last, name, ours, [first["point_id"], last["point_id"]], "a direction, not a number")


def _operators(pairs: pd.DataFrame) -> Iterator[dict]:
    measured = pairs.dropna(subset="interaction") if len(pairs) else pairs
    if measured.empty:
        yield _absent(OPERATORS)
        return
    for _, rows in measured.groupby(["series", "operator", "faster_operator"], sort=False):
        row = rows.sort_values("world_size").iloc[-1]
        ours = (
            f"{row['verdict']}: {row['faster_operator']} in place of {row['operator']} and {row['world_size']} ranks, "
            f"interaction {value_text(row, 'interaction', digits=3)}"
        )
        points = [row["point_id"], row["faster_point_id"]]
        yield _row(
            OPERATORS, row, "interaction", ours, points, "which operators, and how it was told, is not stated there"
        )


def _largest(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Each series' row at its largest measured world size above one."""
    if not len(frame):
        return frame
    measured = frame[frame["world_size"] > 1].dropna(subset=name).sort_values("world_size")
    return measured.groupby("series", sort=False).tail(1)


def _row(theirs: Published, row: pd.Series, name: str, ours: str, point_ids: list[str], reason: str) -> dict:
    """Comparable in part where machine and scale agree; else not, because."""
    differs = []
    if row["source"] != "measured":
        differs.append(f"ours is {row['source']}")
    if DEVICE not in str(row["device_name"]):
        differs.append(f"ours ran on {row['device_name']}, theirs on {DEVICE}")
    if row["world_size"] != WORLD_SIZE:
        differs.append(f"ours has {row['world_size']} rank(s), theirs up to {WORLD_SIZE}")
    if not row["trusted"]:
        differs.append("too many of our rounds were disturbed")
    why = "; ".join(filter(None, [*differs, UNSTATED, reason]))
    if not differs and theirs.low is not None and theirs.high is not None:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        if np.isfinite(low):
            agrees = low <= theirs.high and high >= theirs.low
            why = f"{'' if agrees else 'not '}in a region consistent with theirs; {why}"
    return {
        "quantity": theirs.quantity,
        "published": theirs.text,
        "where": theirs.where,
        "ours": ours,
        "series": row["series"],
        "source": row["source"],
        "comparable": "no" if differs else "in part",
        "why": ("not comparable, because " if differs else "comparable in part: ") + why,
        "point_ids": " ".join(point_ids),
    }


def _absent(theirs: Published) -> dict:
    values = {"quantity": theirs.quantity, "published": theirs.text, "where": theirs.where, "ours": "not measured"}
    values |= {"series": "", "source": "", "comparable": "no", "why": "nothing of ours to compare", "point_ids": ""}
    return values
