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

from kanstudy.analysis.plots.style import SMALL, STYLE, WIDTH, Look, NotebookFigure, looks, message

_COLUMNS = 3
_LETTERS = 38


def rounds_in_order(rounds: pd.DataFrame) -> Figure:
    """Each round's time over its arm's median of the launch, a panel a point; takes the frame of `steadiness.rounds`.

    Launches follow each other. Markers are rounds, open ones outliers, crosses disturbed rounds.
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
                _arm(axis, own, look_of[str(arm)])
            axis.set_xlim(-0.5, part.groupby("arm").size().max() - 0.5)
            axis.set_title(_title(part["title"].iloc[0]), fontsize=SMALL)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.supxlabel("round, launch after launch", fontsize=8)
        figure.supylabel("time over its arm's median (%)", fontsize=8)
        handles = [
            Line2D([], [], color=look.colour, marker=look.marker, markersize=3, label=arm)
            for arm, look in look_of.items()
        ]
        kinds: dict[str, dict[str, Any]] = {
            "outlier (open)": {"marker": "o", "markerfacecolor": "none"},
            "disturbed": {"marker": "x"},
        }
        for label, style in kinds.items():
            handles.append(Line2D([], [], color="0.3", linestyle="", label=label, **style))
        figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _title(text: str) -> str:
    """In lines that a panel holds, the number of ranks in one of them."""
    ranks = text.replace(" rank", "\N{NO-BREAK SPACE}rank")
    return textwrap.fill(ranks, _LETTERS).replace("\N{NO-BREAK SPACE}", " ")


def _arm(axis: Axes, rows: pd.DataFrame, look: Look) -> None:
    rows = rows.sort_values(["launch", "round"])
    x, y = np.arange(len(rows)), 100 * np.expm1(rows["deviation"].to_numpy(float))
    outlier, disturbed = rows["outlier"].to_numpy(bool), rows["disturbed"].to_numpy(bool)
    axis.plot(x, y, color=look.colour, linewidth=0.5, alpha=0.5, zorder=2)
    marks: list[tuple[np.ndarray, dict[str, Any]]] = [
        (~outlier & ~disturbed, {"marker": look.marker, "markersize": 2.5}),
        (outlier & ~disturbed, {"marker": look.marker, "markersize": 5, "markerfacecolor": "none"}),
        (disturbed, {"marker": "x", "markersize": 4}),
    ]
    for chosen, style in marks:
        axis.plot(x[chosen], y[chosen], linestyle="", color=look.colour, zorder=3, **style)
