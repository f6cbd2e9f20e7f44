"""The figure of the operator benchmark: how far each operator is from the floor, and what memory its step takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import legend, plain_log_axis
from kanstudy.analysis.plots.style import SMALL, STYLE, WIDTH, Look, NotebookFigure, looks, message

_ROW = 0.27
"""Inches a candidate."""


def operator_speed(estimates: pd.DataFrame) -> Figure:
    """Left the step's time over the floor's, right the peak memory of a step; a row a candidate, a colour and marker a
    shape, log axes. Takes `operator_speed.estimates`."""
    measured = estimates[np.isfinite(estimates["floor_ratio"]) | np.isfinite(estimates["peak_bytes"])]
    if measured.empty:
        return message("No operator is measured")
    labels = list(dict.fromkeys(estimates["label"]))
    places = {label: place for place, label in enumerate(_by_speed(measured, labels))}
    shapes = [_shape(row) for _, row in estimates.iterrows()]
    look_of = looks(shapes)
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 1.1 + _ROW * len(places)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
        _panel(left, estimates, places, look_of, "floor_ratio", lambda value: value)
        _say_why(left, estimates, places)
        left.axvline(1, color="0.4", linewidth=0.9, linestyle="--", zorder=1)
        left.set_xlabel("time of a training step ÷ the floor's")
        left.set_yticks(range(len(places)), list(places))
        left.set_ylim(len(places) - 0.4, -0.6)
        _panel(right, estimates, places, look_of, "peak_bytes", lambda value: value / 2**20)
        right.set_xlabel("peak memory of a step (MiB)")
        for label, look in look_of.items():
            left.plot([], [], look.marker, color=look.colour, label=label)
        legend(figure, left, columns=4)
    return figure


def _by_speed(measured: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """The fastest first, by the geometric mean over shapes; those that have no time last, in their order."""
    speed = {label: float(np.log(measured.loc[measured["label"] == label, "floor_ratio"]).mean()) for label in labels}
    return sorted(labels, key=lambda label: (not np.isfinite(speed[label]), speed[label]))


def _shape(row: pd.Series) -> str:
    return f"{row['layers']}, batch {row['batch_size']:,}"


def _say_why(axis: Axes, estimates: pd.DataFrame, places: dict[str, int]) -> None:
    """In the row of a candidate without any time, what became of it."""
    for label, rows in estimates.groupby("label", sort=False):
        if not np.isfinite(rows["floor_ratio"]).any():
            text = ", ".join(dict.fromkeys("no floor" if s == "ok" else s for s in rows["timing_status"]))
            at = axis.get_yaxis_transform()  # x in shares of the axis, y as the data's
            axis.text(
                0.08, places[str(label)], text, transform=at, va="center", fontsize=SMALL, style="italic", color="0.4"
            )


def _panel(
    axis: Axes,
    estimates: pd.DataFrame,
    places: dict[str, int],
    look_of: dict[str, Look],
    column: str,
    scaled: Callable[[float], float],
) -> None:
    axis.set_xscale("log")
    spread = np.linspace(-0.3, 0.3, len(look_of)) if len(look_of) > 1 else np.zeros(1)
    for place in range(0, len(places), 2):
        axis.axhspan(place - 0.5, place + 0.5, color="0.5", alpha=0.07, linewidth=0, zorder=0)
    for _, row in estimates.iterrows():
        look, value = look_of[_shape(row)], scaled(row[column])
        if not (np.isfinite(value) and value > 0):
            continue
        y = places[row["label"]] + spread[look.place]
        low, high = (scaled(row.get(f"{column}_{end}", np.nan)) for end in ("low", "high"))
        if np.isfinite(low) and np.isfinite(high):
            axis.plot([low, high], [y, y], color=look.colour, linewidth=2.2, alpha=0.6, zorder=3)
        axis.plot([value], [y], look.marker, color=look.colour, markersize=4, markeredgewidth=0, zorder=4)
    plain_log_axis(axis.xaxis, (1.0, 2.0, 5.0))
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
