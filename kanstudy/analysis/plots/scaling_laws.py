"""Figures of fits: measured points with their intervals, and the laws through them.

A line is whole only between the smallest and the largest point that it was fitted to. Beyond that it is dashed, inside
the band in which a new point would lie. A refused fit is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import estimate, legend, message_axis, plain_log_axis, world_axis
from kanstudy.analysis.plots.communication import allreduce_labels
from kanstudy.analysis.plots.style import COLUMN, STYLE, WIDTH, Look, NotebookFigure, looks, message
from kanstudy.analysis.scaling_laws.fits import SeriesFit
from kanstudy.analysis.scaling_laws.least_squares import Fit

EXTRAPOLATED_TO = 4
"""Times the largest world size that a law is drawn to: two doublings, beyond which its band says little."""
_POINTS = Look("0.15", "o", 0)


def scaling_fits(fits: Sequence[SeriesFit], estimates: pd.DataFrame) -> Figure:
    """Speed-up over the world size (log2 axes) with the laws fitted to it, a panel a series that has one."""
    drawn = [item for item in fits if not item.fit.refused]
    if not drawn:
        return message(_why_none(fits))
    keys = [key for place, item in enumerate(drawn) if (key := item.key) not in [other.key for other in drawn[:place]]]
    look_of = looks(item.fit.model.name for item in fits)
    with matplotlib.rc_context(STYLE):
        columns = min(2, len(keys))
        rows = -(-len(keys) // columns)
        figure = NotebookFigure(figsize=(COLUMN if columns == 1 else WIDTH, 2.7 * rows + 0.3), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, key in zip(axes, keys, strict=False):
            points = _rows_of(estimates, key)
            laws = [item.fit for item in drawn if item.key == key]
            farthest = EXTRAPOLATED_TO * max(law.x.max() for law in laws)
            sizes = world_axis(axis, pd.DataFrame({"world_size": [*points["world_size"], farthest / 2, farthest]}))
            axis.plot(sizes, sizes, ":", color="0.4", linewidth=0.9, label="ideal", zorder=1)
            for law in laws:
                _law(axis, law, look_of[law.model.name], farthest)
            for _, row in points.iterrows():
                estimate(axis, row["world_size"], row, "speedup", _POINTS)
            axis.set_yscale("log", base=2)
            plain_log_axis(axis.yaxis, (1.0,))
            axis.set_ylabel("speed-up over one rank")
            axis.set_title(str(key.get("series", "")))
        for axis in axes[len(keys) :]:
            axis.set_axis_off()
        axes[0].plot([], [], marker=_POINTS.marker, color=_POINTS.colour, linestyle="none", label=_source(estimates))
        axes[0].plot([], [], "--", color="0.4", label="beyond the last point")
        legend(figure, *axes[: len(keys)])
    return figure


def allreduce_fits(fits: Sequence[SeriesFit], estimates: pd.DataFrame) -> Figure:
    """Time of the blocking all-reduce over the message size with the α-β model of each world size."""
    drawn = [item for item in fits if not item.fit.refused]
    if not drawn:
        return message(_why_none(fits))
    labels = allreduce_labels(estimates)
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 2.9), layout="constrained")
        axis = figure.subplots()
        for item, look in zip(drawn, looks(str(place) for place in range(len(drawn))).values(), strict=True):
            line, _, _ = item.fit.predicted(x := _between(item.fit.x))
            axis.plot(x, 1e3 * line, color=look.colour, zorder=3)
            own = _rows_of(estimates, item.key)
            for _, row in own.iterrows():
                estimate(axis, row["message_bytes"], row, "time_s", look, scale=1e3)
            label = labels[own.index[0]]
            axis.plot([], [], color=look.colour, marker=look.marker, linestyle="none", label=label)
        axis.plot([], [], color="0.4", label="fitted: α + n/B")
        message_axis(axis, estimates["message_bytes"])
        axis.set_yscale("log")
        plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
        axis.set_ylabel("time (ms)")
        legend(figure, axis, columns=2)
    return figure


def _law(axis: Axes, law: Fit, look: Look, farthest: float) -> None:
    inside, beyond = _between(law.x), np.geomspace(law.x.max(), farthest)
    axis.plot(inside, law.predicted(inside)[0], color=look.colour, zorder=3, label=law.model.name)
    value, low, high = law.predicted(beyond)
    axis.plot(beyond, value, "--", color=look.colour, zorder=3)
    axis.fill_between(beyond, low, high, color=look.colour, alpha=0.15, linewidth=0, zorder=1)


def _between(x: np.ndarray) -> np.ndarray:
    return np.geomspace(x.min(), x.max(), 200)


def _rows_of(estimates: pd.DataFrame, key: dict[str, object]) -> pd.DataFrame:
    """The points of a fit's series, those of other surroundings and of too many ranks among them."""
    rows = pd.Series(True, estimates.index)
    for name in key:
        if name != "surroundings":
            rows &= estimates[name].isin([key[name]])
    return estimates[rows]


def _source(estimates: pd.DataFrame) -> str:
    return ", ".join(sorted(set(estimates["source"]))) if "source" in estimates else "measured"


def _why_none(fits: Sequence[SeriesFit]) -> str:
    reasons = dict.fromkeys(f"{item.fit.model.name}: {item.fit.reason}" for item in fits)
    return "No law is fitted. " + "; ".join(reasons) if reasons else "Nothing is measured that could be fitted"
