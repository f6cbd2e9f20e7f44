"""The figures of scaling: speed-up, efficiency, throughput over the world size; the study on one page's width."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import curves, efficiency_axis, has, legend, panels, plain_log_axis, world_axis
from kanstudy.analysis.plots.style import STYLE, WIDTH, NotebookFigure, message, series_looks
from kanstudy.analysis.plots.waterfall import several_ranks, waterfall_panel
from kanstudy.analysis.series import source_suffix


def strong_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Speed-up (log2 axes) and parallel efficiency over the world size, a line a series."""
    if not has(estimates, "speedup"):
        return message("No strong-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        look_of = series_looks(estimates["series"], estimates["model"])
        sizes = world_axis(left, estimates)
        world_axis(right, estimates)
        curves(left, estimates, per_round, "speedup", look_of)
        left.plot(sizes, sizes, "--", color="0.4", linewidth=0.9, label="ideal", zorder=1)
        left.set_yscale("log", base=2)
        plain_log_axis(left.yaxis, (1.0,))
        left.set_ylabel("speed-up over one rank")
        curves(right, estimates, per_round, "efficiency", look_of, apart=True)
        efficiency_axis(right)
        right.set_ylabel("parallel efficiency")
        legend(figure, left)
    return figure


def weak_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Parallel efficiency and throughput over the world size, a line a series."""
    if not has(estimates, "efficiency"):
        return message("No weak-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        look_of = series_looks(estimates["series"], estimates["model"])
        sizes = world_axis(left, estimates)
        world_axis(right, estimates)
        curves(left, estimates, per_round, "efficiency", look_of, apart=True)
        efficiency_axis(left)
        left.set_ylabel("parallel efficiency")
        curves(right, estimates, per_round, "throughput", look_of)
        for series, rows in estimates.groupby("series", sort=False):
            first = rows.sort_values("world_size").iloc[0]
            ideal = first["throughput"] * sizes / first["world_size"]
            right.plot(sizes, ideal, "--", color=look_of[str(series)].colour, linewidth=0.8, alpha=0.7)
        right.set_yscale("log", base=2)
        plain_log_axis(right.yaxis, (1.0, 2.0, 5.0))
        right.set_ylabel("samples per second, all ranks")
        left.plot([], [], "--", color="0.4", linewidth=0.9, label="ideal")
        legend(figure, left)
    return figure


def overview(strong: pd.DataFrame, weak: pd.DataFrame, attribution: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """The study on one page's width: strong and weak efficiency, and where the first series' efficiency goes."""
    if not has(strong, "efficiency"):
        return message("No strong-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 3.0), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 2.1))
        every = pd.concat([strong, weak])
        look_of = series_looks(every["series"], every["model"])
        for axis, frame, title in ((left, strong, "strong scaling"), (middle, weak, "weak scaling")):
            axis.set_title(title)
            if has(frame, "efficiency"):
                world_axis(axis, frame)
                curves(axis, frame, per_round, "efficiency", look_of, apart=True)
                efficiency_axis(axis)
                axis.set_ylabel("parallel efficiency")
            else:
                axis.set_axis_off()
                axis.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axis.transAxes)
        first = strong[strong["series"] == strong["series"].iloc[0]].sort_values("world_size")
        rows = several_ranks(attribution)
        rows = rows[rows["point_id"] == first["point_id"].iloc[-1]] if len(rows) else rows
        if len(rows) > 1:
            waterfall_panel(right, rows, intervals=False)
            source = source_suffix(first).iloc[-1]
            right.set_title(f"where it goes, strong scaling, {rows['world_size'].iloc[0]} ranks{source}")
            right.set_ylabel("running product")
        else:
            right.set_axis_off()
            right.text(0.5, 0.5, "one rank:\nnothing to attribute", ha="center", va="center")
        legend(figure, left, middle, where="outside lower left", columns=2)
    return figure
