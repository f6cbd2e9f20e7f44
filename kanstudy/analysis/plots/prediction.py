"""The figure of a prediction: step time and efficiency over the world size with their bands, the ranges of scenarios
beyond what was calibrated dotted."""

from __future__ import annotations

from typing import Literal

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kanstudy.analysis.plots.axes import efficiency_axis, panels, plain_log_axis, world_axis
from kanstudy.analysis.plots.style import STYLE, Look, message, series_looks
from kanstudy.analysis.prediction.predict import SCENARIO

_WITHIN: Literal["-"] = "-"
_BEYOND: Literal[":"] = ":"


def scaling(predictions: pd.DataFrame) -> Figure:
    """Step time and parallel efficiency of each `series` with bands. Lines are predicted, none of it is measured."""
    if predictions.empty:
        return message("Nothing is predicted")
    look_of = series_looks(predictions["series"], predictions["model"])
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2, 3.0)
        for series, rows in predictions.groupby("series", sort=False):
            rows = rows.sort_values("world_size")
            _band(left, rows, "step_time_s", look_of[str(series)], 1e3)
            _band(right, rows, "parallel_efficiency", look_of[str(series)])
        for axis in (left, right):
            world_axis(axis, predictions)
        left.set_yscale("log")
        plain_log_axis(left.yaxis, (1.0, 2.0, 5.0))
        left.set_ylabel("predicted step time (ms)")
        efficiency_axis(right)
        right.set_ylabel("predicted parallel efficiency")
        handles: list[Line2D] = [
            Line2D([], [], color=look.colour, marker=look.marker, label=series) for series, look in look_of.items()
        ]
        for kind, level in predictions[["interval", "level"]].drop_duplicates().itertuples(index=False):
            style = _BEYOND if kind == SCENARIO else _WITHIN
            label = kind if kind == SCENARIO else f"{100 * level:.0f} % {kind}"
            handles.append(Line2D([], [], color="0.4", linestyle=style, label=label))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _band(axis: Axes, rows: pd.DataFrame, name: str, look: Look, scale: float = 1.0) -> None:
    """A line with its band, marked at what was predicted; dotted from the last size that is no scenario on."""
    x, y = rows["world_size"].to_numpy(float), scale * rows[name].to_numpy(float)
    low, high = (scale * rows[f"{name}_{end}"].to_numpy(float) for end in ("low", "high"))
    axis.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0)
    known = int((rows["interval"] != SCENARIO).sum())
    axis.plot(x[:known], y[:known], _WITHIN, color=look.colour)
    axis.plot(x[max(0, known - 1) :], y[max(0, known - 1) :], _BEYOND, color=look.colour)
    axis.plot(x, y, look.marker, color=look.colour, markerfacecolor="white")
    axis.vlines(x, low, high, color=look.colour, linewidth=1.6, alpha=0.6)
