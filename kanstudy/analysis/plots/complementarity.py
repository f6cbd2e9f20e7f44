"""The figure of operators and ranks: what each gives, what both give together, and why that is not the product."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import dots, estimate, has, legend, plain_log_axis, title_source
from kanstudy.analysis.plots.style import MARKERS, PALETTE, SMALL, STYLE, WIDTH, Look, NotebookFigure, message

_SLOWER, _FASTER = Look(PALETTE[7], MARKERS[0], 0), Look(PALETTE[0], MARKERS[1], 0)
_PARTS = {
    "interaction": ("interaction", Look("0.15", MARKERS[3], 0), -1),
    "computation": ("of it in computation", Look(PALETTE[2], MARKERS[2], 0), 0),
    "communication": ("of it in communication", Look(PALETTE[1], MARKERS[4], 0), 1),
}
"""Label, look and place beside the world size of what the middle panel shows."""
_STEP = 0.25
"""From one thing to the next beside it, in doublings of the world size."""
_PAIR = ["point_id", "faster_point_id"]


def complementarity(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """A row of three panels for each pair of operators and each kind of work, over the world size.

    Left, on log axes, the speed-up over the slower operator on one rank, with the product of both gains dashed: where
    the two are independent, the solid line lies on it. Middle, the interaction and its two parts. Right, the
    communication overhead under each operator, with its milliseconds.
    """
    if not has(estimates, "interaction"):
        return message("No two operators are measured on two ranks or more")
    shown = estimates[np.isfinite(estimates["interaction"].astype(float))]
    groups = list(shown.groupby(["series", "operator", "faster_operator"], sort=False))
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.5 * len(groups) + 0.3), layout="constrained")
        lines = figure.subplots(len(groups), 3, squeeze=False, width_ratios=(1.25, 1, 1))
        for (left, middle, right), ((series, slower, faster), rows) in zip(lines, groups, strict=True):
            rows = rows.sort_values("world_size")
            _speedups(left, rows)
            _interaction(middle, rows, per_round)
            _overhead(right, rows)
            left.set_title(f"{faster} in place of {slower}" + (f"\n{series}" if shown["series"].nunique() > 1 else ""))
        names = shown[["operator", "faster_operator"]].drop_duplicates().to_numpy().tolist()
        (slower, faster) = names[0] if len(names) == 1 else ("the slower operator", "the faster operator")
        for label, look in ((slower, _SLOWER), (faster, _FASTER)):
            lines[0][0].plot([], [], color=look.colour, marker=look.marker, label=label)
        lines[0][0].plot([], [], "--", color=_FASTER.colour, linewidth=0.9, label=f"{faster}, if independent")
        for label, look, _ in _PARTS.values():
            lines[0][1].plot([], [], color=look.colour, marker=look.marker, linestyle="none", label=label)
        title_source(figure, shown)
        legend(figure, lines[0][0], lines[0][1], columns=3)
    return figure


def _speedups(axis: Axes, rows: pd.DataFrame) -> None:
    first = rows.iloc[0]
    sizes = np.array([1, *rows["world_size"]], dtype=float)
    own, together = ([start, *rows[name]] for start, name in ((1.0, "ranks_speedup"), (_alone(first), "together")))
    axis.plot(sizes, own, color=_SLOWER.colour, zorder=3)
    axis.plot(sizes, [_alone(first), *rows["product"]], "--", color=_FASTER.colour, linewidth=0.9, zorder=2)
    axis.plot(sizes, together, color=_FASTER.colour, zorder=3)
    axis.plot([1], [1], marker=_SLOWER.marker, color=_SLOWER.colour, zorder=4)
    estimate(axis, 1, first, "operator_speedup", _FASTER)
    for _, row in rows.iterrows():
        estimate(axis, row["world_size"], row, "ranks_speedup", _SLOWER)
        estimate(axis, row["world_size"], row, "together", _FASTER)
        axis.plot(
            [row["world_size"]], [row["product"]], marker="_", color=_FASTER.colour, markersize=11, markeredgewidth=1.4
        )
    axis.set_yscale("log", base=2)
    plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
    _world_axis(axis, sizes)
    axis.set_ylabel(f"speed-up over {first['operator']}\non one rank")


def _alone(row: pd.Series) -> float:
    return float(row["operator_speedup"])


def _interaction(axis: Axes, rows: pd.DataFrame, per_round: pd.DataFrame) -> None:
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    for name, (_, look, place) in _PARTS.items():
        for _, row in rows.iterrows():
            x = float(row["world_size"]) * 2 ** (_STEP * place)
            estimate(axis, x, row, name, look)
            if name in per_round:
                found = per_round[(per_round[_PAIR] == row[_PAIR]).all(axis=1)]
                dots(axis, np.full(len(found), x), found, name, look)
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 0.9), max(high, 1.1))
    _world_axis(axis, rows["world_size"].to_numpy(float))
    axis.set_ylabel("together / product")
    axis.set_title("interaction")


def _overhead(axis: Axes, rows: pd.DataFrame) -> None:
    axis.axhline(0, color="0.4", linewidth=0.8, zorder=1)
    for name, look, place in (("overhead", _SLOWER, -0.5), ("overhead_faster", _FASTER, 0.5)):
        exposed = name.replace("overhead", "exposed_ms")
        for _, row in rows.iterrows():
            x = float(row["world_size"]) * 2 ** (1.4 * _STEP * place)
            estimate(axis, x, row, name, look, scale=100)
            top = np.nanmax([row[name], row[f"{name}_high"]])
            axis.annotate(
                f"{row[exposed]:.2g} ms", (x, 100 * top), (0, 4), textcoords="offset points", ha="center",
                fontsize=SMALL, color="0.15", rotation=90,
            )  # fmt: skip
    low, high = axis.get_ylim()
    axis.set_ylim(min(0.0, low), high + 0.3 * (high - min(0.0, low)))
    _world_axis(axis, rows["world_size"].to_numpy(float))
    axis.set_ylabel("% of a step")
    axis.set_title("communication overhead")


def _world_axis(axis: Axes, sizes: np.ndarray) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    axis.minorticks_off()
    axis.set_xlim(sizes.min() / 2**0.5, sizes.max() * 2**0.5)
    axis.set_xlabel("world size (ranks)")
