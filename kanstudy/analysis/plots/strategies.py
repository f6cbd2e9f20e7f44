"""The figure of strategies: a step's time, a rank's memory and what it sends in a step. All of it is predicted."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kanstudy.analysis.plots.axes import STYLE, WIDTH, Look, NotebookFigure, looks, message, plain_log_axis, world_axis
from kanstudy.analysis.strategies.compare import fastest

_PANELS = (
    ("step_time_s", 1e3, "step time (ms, predicted)"),
    ("memory_bytes", 1 / 2**30, "memory a rank (GiB, predicted)"),
    ("sent_bytes", 1 / 2**20, "sent a rank (MiB, predicted)"),
)
_HYBRID = "data x "


def strategies(comparison: pd.DataFrame) -> Figure:
    """A line a strategy over the world size, hybrids dashed and hollow in the colour of their split, the fastest of
    them at each size; a cross where a strategy stops fitting, as high as it was before where it does not exist there.
    Takes the frame of `strategies.compare`."""
    if not len(comparison) or not comparison["fits"].any():
        return message("No strategy fits at any of these world sizes")
    found = fastest(comparison)
    look_of = looks(found["strategy"].str.removeprefix(_HYBRID))
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = figure.subplots(1, len(_PANELS))
        for axis, (column, scale, title) in zip(axes, _PANELS, strict=True):
            for strategy, rows in found.groupby("strategy", sort=False):
                values = rows.sort_values("world_size")
                values = values.assign(shown=scale * values[column].where(values[column] > 0))  # one rank sends nothing
                name = str(strategy).removeprefix(_HYBRID)
                _line(axis, values, look_of[name], hybrid=name != strategy)
            world_axis(axis, found)
            axis.set_yscale("log")
            axis.set_title(title)
        limit = found["memory_limit_bytes"].iloc[0] * _PANELS[1][1]
        if np.isfinite(limit):
            axes[1].axhline(limit, linestyle=":", color="0.3", linewidth=1, zorder=1)
        for axis in axes:
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
        figure.legend(handles=_legend(look_of, bool(np.isfinite(limit))), loc="outside lower center", ncols=3)
    return figure


def _line(axis: Axes, rows: pd.DataFrame, look: Look, hybrid: bool) -> None:
    """Up to the first size at which it does not fit, and a cross there; markers shrink, as strategies may be alike."""
    stops = rows.index[~rows["fits"]]
    fitting = rows if stops.empty else rows.loc[: stops[0]].iloc[:-1]
    style: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white", "linewidth": 1.0} if hybrid else {}
    style |= {"color": look.colour, "marker": look.marker, "markersize": max(3.5, 7 - 1.5 * look.place)}
    axis.plot(fitting["world_size"], fitting["shown"], zorder=3, **style)
    if stops.empty:
        return
    size, height = rows.loc[stops[0], ["world_size", "shown"]]
    if not np.isfinite(height) and len(fitting):
        height = fitting["shown"].iloc[-1]
    axis.plot([*fitting["world_size"][-1:], size], [*fitting["shown"][-1:], height], ":", color=look.colour)
    axis.plot([size], [height], "x", color=look.colour, markersize=6, markeredgewidth=1.6, zorder=4)


def _legend(look_of: dict[str, Look], limited: bool) -> list[Line2D]:
    handles = [Line2D([], [], color=look.colour, marker=look.marker, label=name) for name, look in look_of.items()]
    hybrid: dict[str, Any] = {"linestyle": "--", "marker": "o", "markerfacecolor": "white"}
    handles.append(Line2D([], [], color="0.3", label="hybrid: data x split", **hybrid))
    stops = "does not fit: memory, or too few to share"
    handles.append(Line2D([], [], color="0.3", linestyle="none", marker="x", label=stops))
    if limited:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="memory of a rank"))
    return handles
