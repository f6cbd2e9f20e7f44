"""The figure of the controls: each KAN and the MLPs with about as many parameters, side by side."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.controls import PARAMETERS, STEP_TIME
from kanstudy.analysis.plots.axes import dots, estimate, has, legend, title_source
from kanstudy.analysis.plots.style import MARKERS, PALETTE, STYLE, WIDTH, Look, NotebookFigure, message

_KAN = ("KAN", Look(PALETTE[0], MARKERS[0], 0), -0.28)
_CONTROLS = {
    PARAMETERS: ("MLP, the KAN's parameters and rows", Look(PALETTE[1], MARKERS[1], 0), 0.0),
    STEP_TIME: ("MLP, the KAN's parameters, about its step time", Look(PALETTE[2], MARKERS[2], 0), 0.28),
}
"""Label, look and place beside the KAN's of each kind of control."""
_PANELS = {
    "exposed_ms": ("exposed communication (ms)", 1.0),
    "overhead": ("communication overhead\n(% of a step)", 100.0),
    "efficiency": ("parallel efficiency", 1.0),
}


def controls(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Exposed milliseconds, overhead and, where measured, efficiency of every KAN and its controls, with intervals and
    every round of a pair as a dot; takes the frames of `kanstudy.analysis.controls`."""
    if not has(estimates, "exposed_ms"):
        return message("No KAN is measured beside a control on two ranks or more")
    estimates = estimates[np.isfinite(estimates["exposed_ms"].astype(float))]
    shown = {name: panel for name, panel in _PANELS.items() if has(estimates, name)}
    points = list(estimates.groupby("point_id", sort=False))
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.9), layout="constrained")
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for axis, (name, (label, scale)) in zip(axes, shown.items(), strict=True):
            measured = [rows for _, rows in points if np.isfinite(float(rows[name].iloc[0]))]
            for place, rows in enumerate(measured):
                _point(axis, place, rows, per_round, name, scale)
            axis.set_xticks(range(len(measured)), _names(measured))
            axis.set_xlim(-0.6, len(measured) - 0.4)
            axis.axhline(1.0 if name == "efficiency" else 0.0, color="0.4", linewidth=0.8, zorder=1)
            axis.set_ylim(min(0.0, axis.get_ylim()[0]), None)
            axis.grid(axis="x", visible=False)
            axis.set_ylabel(label)
        kinds = [kind for name, kind in _CONTROLS.items() if name in set(estimates["control"])]
        for text, look, _ in (_KAN, *kinds):
            axes[0].plot([], [], color=look.colour, marker=look.marker, linestyle="none", label=text)
        title_source(figure, estimates)
        legend(figure, axes[0])
    return figure


def _point(axis: Axes, place: int, rows: pd.DataFrame, per_round: pd.DataFrame, name: str, scale: float) -> None:
    """A KAN and its controls about one place of the axis."""
    _, look, beside = _KAN
    _mark(axis, place + beside, rows.iloc[0], per_round, name, look, scale)
    for _, row in rows.iterrows():
        _, look, beside = _CONTROLS[row["control"]]
        _mark(axis, place + beside, row, per_round, f"{name}_control", look, scale)


def _mark(axis: Axes, x: float, row: pd.Series, per_round: pd.DataFrame, name: str, look: Look, scale: float) -> None:
    estimate(axis, x, row, name, look, scale)
    if name in per_round:
        pair = ["point_id", "control_point_id"]
        found = per_round[(per_round[pair] == row[pair]).all(axis=1)]
        dots(axis, np.full(len(found), x - 0.06), found, name, look, scale)  # close to their estimate


def _names(points: list[pd.DataFrame]) -> list[str]:
    """Experiment and ranks of each point, numbered where that does not tell them apart."""
    firsts = [rows.iloc[0] for rows in points]
    names = ["\n".join([*row["experiment"].split("_"), f"{row['world_size']} ranks"]) for row in firsts]
    return [f"{name}, {place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]
