"""The rounds in their order: what drifts, jumps or stands out, before anything is summed up."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kanstudy.analysis.plots.axes import STYLE, WIDTH, NotebookFigure, looks, message

_COLUMNS = 3
_LETTERS = 44


def rounds_in_order(rounds: pd.DataFrame) -> Figure:
    """Each round's time over its arm's median of the launch, a panel a point; takes the frame of `steadiness.rounds`.

    Launches follow each other. Dots are rounds, open ones outliers, crosses disturbed rounds.
    """
    points = [part for _, part in rounds.groupby("point_id", sort=False)] if len(rounds) else []
    if not points:
        return message("No round is measured")
    columns = min(_COLUMNS, len(points))
    lines = -(-len(points) // columns)
    look_of = looks(rounds["arm"])
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 1.6 * lines + 0.7), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False)
        for axis in axes.flat[len(points) :]:
            axis.set_visible(False)
        for axis, part in zip(axes.flat, points, strict=False):
            for arm, own in part.groupby("arm", sort=False):
                _arm(axis, own, look_of[str(arm)].colour)
            axis.set_xlim(-1, part.groupby("arm").size().max())
            axis.set_title(textwrap.fill(part["title"].iloc[0], _LETTERS), fontsize=6)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.supxlabel("round, launch after launch", fontsize=7)
        figure.supylabel("time over its arm's median (%)", fontsize=7)
        handles = [
            Line2D([], [], color=look.colour, marker="o", markersize=3, label=arm) for arm, look in look_of.items()
        ]
        handles.append(Line2D([], [], color="0.3", marker="o", markerfacecolor="none", linestyle="", label="outlier"))
        handles.append(Line2D([], [], color="0.3", marker="x", linestyle="", label="disturbed"))
        figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=6)
    return figure


def _arm(axis: Axes, rows: pd.DataFrame, colour: Any) -> None:
    rows = rows.sort_values(["launch", "round"])
    x, y = np.arange(len(rows)), 100 * np.expm1(rows["deviation"].to_numpy(float))
    outlier, disturbed = rows["outlier"].to_numpy(bool), rows["disturbed"].to_numpy(bool)
    axis.plot(x, y, color=colour, linewidth=0.5, alpha=0.5, zorder=2)
    marks: list[tuple[np.ndarray, dict[str, Any]]] = [
        (~outlier & ~disturbed, {"marker": "o", "markersize": 2}),
        (outlier & ~disturbed, {"marker": "o", "markersize": 4, "markerfacecolor": "none"}),
        (disturbed, {"marker": "x", "markersize": 4}),
    ]
    for chosen, style in marks:
        axis.plot(x[chosen], y[chosen], linestyle="", color=colour, zorder=3, **style)
