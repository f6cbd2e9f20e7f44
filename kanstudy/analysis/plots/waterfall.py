"""The waterfall: from 1 to the parallel efficiency, factor by factor."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kanstudy.analysis.attribution.chain import factor_name, pop_text
from kanstudy.analysis.plots.style import LETTERS_AN_INCH, PALETTE, SMALL, STYLE, WIDTH, NotebookFigure, message

_LOSS, _GAIN, _TOTAL = PALETTE[3], PALETTE[2], PALETTE[7]
_DARK, _BAR = "0.25", 0.62
_FIXED: dict[str, Any] = {"facecolor": "none", "edgecolor": _DARK, "linewidth": 0, "hatch": "//////"}
_UNTOLD = 0.4
"""Opacity of a bar whose factor may be 1."""
_STRIP = 0.25
"""Share of a panel's height, at its top, for the numbers."""
_PANEL = WIDTH / 2
_LETTERS = {1: 66, 2: 54}
"""Letters of a title that one line holds, by panels beside each other."""


def waterfall(attribution: pd.DataFrame) -> Figure:
    """The factors of each series and world size, a panel each; takes the frame of `attribution.decomposition`.

    A bar spans the running product before and after its factor: downwards a loss, upwards a factor above 1, pale where
    its interval includes 1 or is missing. Its number and interval stand above it, the interval also as a line at its
    end. Hatched in the bar of the batch is what the part of a step that does not shrink would alone make of it. Heights
    depend on the order of the chain, the factors do not.
    """
    rows = several_ranks(attribution)
    points = [part for _, part in rows.groupby(["series", "world_size"], sort=False)] if len(rows) else []
    if not points:
        return message("No point with two ranks or more is measured, so there is nothing to attribute")
    columns = min(2, len(points))
    lines = -(-len(points) // columns)
    with matplotlib.rc_context(STYLE):
        width = WIDTH if columns > 1 else 1.25 * _PANEL
        figure = NotebookFigure(figsize=(width, 2.9 * lines + 0.8), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for axis in axes.flat[len(points) :]:
            axis.set_visible(False)
        highest = max(waterfall_panel(axis, part) for axis, part in zip(axes.flat, points, strict=False))
        axes[0, 0].set_ylim(0, highest)  # all share it
        axes[0, 0].set_yticks([tick for tick in axes[0, 0].get_yticks() if tick < (1 - _STRIP) * highest + 0.01])
        for axis, part in zip(axes.flat, points, strict=False):
            title = f"{part['series'].iloc[0]}, {part['world_size'].iloc[0]}\N{NO-BREAK SPACE}ranks"
            title = textwrap.fill(title, _LETTERS[columns]).replace("\N{NO-BREAK SPACE}", " ")
            axis.set_title(title, fontsize=SMALL)
        for line in axes:
            line[0].set_ylabel("parallel efficiency,\nrunning product")
        split = bool((rows.get("fixed", pd.Series(dtype=float)) < 1).any())
        pop = textwrap.fill(pop_text(rows["factor"]), int(0.95 * LETTERS_AN_INCH * width))
        figure.supxlabel(pop, fontsize=SMALL, color="0.35")
        figure.legend(handles=_legend(split), loc="outside upper center", ncols=4 if columns > 1 else 2)
    return figure


def several_ranks(attribution: pd.DataFrame) -> pd.DataFrame:
    """The factors and efficiencies of complete chains over several ranks; one rank has nothing to lose to others."""
    if not len(attribution):
        return attribution
    return attribution[(attribution["factor"] != "none") & (attribution["world_size"] > 1)]


def waterfall_panel(axis: Axes, rows: pd.DataFrame, intervals: bool = True) -> float:
    """The factors of one point as bars from 1 to its efficiency, the last row; the y that leaves room for all."""
    running, highest = 1.0, 1.0
    for place, (_, row) in enumerate(rows.iterrows()):
        whole = row["factor"] == "efficiency"
        start, value = (0.0, row["value"]) if whole else (running, row["value"])
        after = value if whole else running * value
        low, high = (row[name] * (1 if whole else running) for name in ("value_low", "value_high"))
        told = whole or row["value_high"] < 1 or row["value_low"] > 1
        colour = _TOTAL if whole else _GAIN if value > 1 else _LOSS
        axis.bar(place, after - start, bottom=start, width=_BAR, color=colour, alpha=1 if told else _UNTOLD, zorder=2)
        if row.get("fixed", np.nan) < 1:
            axis.bar(place, running * (row["fixed"] - 1), bottom=running, width=_BAR, zorder=3, **_FIXED)
        if not whole:
            axis.plot([place - _BAR / 2, place + 1 + _BAR / 2], [after, after], color=_DARK, linewidth=0.6, zorder=3)
        if intervals and np.isfinite(low) and np.isfinite(high):
            axis.errorbar(place, after, [[after - low], [high - after]], color=_DARK, elinewidth=0.9, capsize=1.8)
            highest = max(highest, high)
        _number(axis, place, row, intervals)
        running, highest = after, max(highest, start, after)
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    labels = [factor_name(factor) for factor in rows["factor"]]
    axis.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_xlim(-0.55, len(labels) - 0.45)
    axis.grid(axis="x", visible=False)
    highest /= 1 - (_STRIP if intervals else _STRIP / 2)
    axis.set_ylim(0, highest)
    return highest


def _number(axis: Axes, place: int, row: pd.Series, intervals: bool) -> None:
    """A factor with its interval, in one line with its neighbours' above all bars."""
    at: dict[str, Any] = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top", "zorder": 5}
    axis.text(place, 0.99, f"{row['value']:.3f}", fontsize=SMALL, weight="bold", **at)
    if intervals and np.isfinite(row["value_low"]):
        text = f"[{row['value_low']:.3f},\n{row['value_high']:.3f}]"
        axis.text(place, 0.93, text, fontsize=SMALL, color="0.3", **at)


def _legend(split: bool) -> list[Patch]:
    """What the bars mean; the hatched part only where one is drawn."""
    handles = [Patch(facecolor=_LOSS, label="loss"), Patch(facecolor=_GAIN, label="factor above 1")]
    handles.append(Patch(facecolor=_LOSS, alpha=_UNTOLD, label="pale: may be 1, or no interval"))
    return [*handles, Patch(**_FIXED, label="does not shrink with the batch")] if split else handles
