"""The figure of strategies: a step's time, a rank's memory and what it sends in a step. All of it is predicted."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kanstudy.analysis.plots.axes import plain_log_axis, world_axis
from kanstudy.analysis.plots.style import STYLE, WIDTH, Look, NotebookFigure, looks, message
from kanstudy.analysis.strategies.compare import fastest

_PANELS = (
    ("step_time_s", 1e3, "step time (ms, predicted)"),
    ("memory_bytes", 1 / 2**30, "memory a rank (GiB, predicted)"),
    ("sent_bytes", 1 / 2**20, "sent a rank (MiB, predicted)"),
)
_HYBRID = "data x "
_TICKS = 8
"""World sizes that a panel has room to name."""


def strategies(comparison: pd.DataFrame) -> Figure:
    """A line a strategy over the world size, hybrids dashed and hollow in the colour of their split, the fastest of
    them at each size; a cross where a strategy does not fit, as high as it was before where it does not exist there.
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
            sizes = world_axis(axis, found)
            told = [f"{size:.0f}" * (place % -(-len(sizes) // _TICKS) == 0) for place, size in enumerate(sizes)]
            axis.set_xticks(sizes, told)
            axis.set_yscale("log")
            axis.set_title(title)
        limit = found["memory_limit_bytes"].iloc[0] * _PANELS[1][1]
        if np.isfinite(limit):
            axes[1].axhline(limit, linestyle=":", color="0.3", linewidth=1, zorder=1)
        for axis in axes:
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
        handles = _legend(look_of, found, bool(np.isfinite(limit)))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _line(axis: Axes, rows: pd.DataFrame, look: Look, hybrid: bool) -> None:
    """Where it fits; dotted to the crosses where it does not. Markers shrink, as strategies may be alike."""
    style: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white", "linewidth": 1.0} if hybrid else {}
    style |= {"color": look.colour, "marker": look.marker, "markersize": max(3.5, 7 - 1.5 * look.place)}
    axis.plot(rows["world_size"], rows["shown"].where(rows["fits"]), zorder=3, **style)
    level = rows["shown"].ffill()  # of one that does not exist there
    stops = ~rows["fits"] & (rows["shown"].notna() | rows["fits"].shift(fill_value=False))
    if stops.any():
        there = stops | rows["shown"].notna()
        axis.plot(rows["world_size"][there], level[there], ":", color=look.colour, linewidth=0.9, zorder=2)
        cross: dict[str, Any] = {"markersize": 6, "markeredgewidth": 1.6, "color": look.colour, "zorder": 4}
        axis.plot(rows["world_size"][stops], level[stops], "x", **cross)


def _legend(look_of: dict[str, Look], found: pd.DataFrame, limited: bool) -> list[Line2D]:
    fits = found["fits"].groupby(found["strategy"].str.removeprefix(_HYBRID)).any()
    names = {name: name if fits[name] else f"{name}: fits nowhere" for name in look_of}
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, label=names[name]) for name, look in look_of.items()
    ]
    hybrid: dict[str, Any] = {"linestyle": "--", "marker": "o", "markerfacecolor": "white"}
    handles.append(Line2D([], [], color="0.3", label="hybrid: data x split", **hybrid))
    stops = "does not fit: memory, or too few to share"
    handles.append(Line2D([], [], color="0.3", linestyle="none", marker="x", label=stops))
    if limited:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="memory of a rank"))
    return handles
