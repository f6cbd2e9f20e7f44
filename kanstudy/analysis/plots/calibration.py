"""The figure of a calibration: the step of one rank alone over its rows, measured and fitted, and what deviates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.plots.axes import legend, panels, plain_log_axis
from kanstudy.analysis.plots.style import STYLE, looks, message
from kanstudy.sizes import widths_text
from kanstudy.spec import PointSpec


def curve(calibration: Calibration, points: Sequence[PointSpec]) -> Figure:
    """Left, for each of the models the time of a step over its rows (log axes): markers are what was measured (or
    simulated), lines the fit to all of them together, flat where launches bound it. Right, measured less fitted, in
    percent of the fitted. `points` of one rank alone say what the models are."""
    table = calibration.table
    measured = set(zip(table["layer_widths"], table["grid_size"], strict=True))
    alone = {key: point for point in points if (key := (widths_text(point.layer_widths), point.grid_size)) in measured}
    if not alone:
        return message("No point of one rank alone is in the calibration")
    look_of = looks(_label(*key) for key in alone)
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2, 2.9)
        for (widths, grid), point in alone.items():
            look = look_of[_label(widths, grid)]
            rows = table[(table["layer_widths"] == widths) & table["grid_size"].isin([grid])].sort_values("rows")
            batches = np.geomspace(rows["rows"].min(), rows["rows"].max(), 60)
            calibrated = replace(point, operator=calibration.domain.operator)  # an `auto` is the one that it chose
            fitted = [1e3 * sum(calibration.machine.phases_s(calibrated, batch)) for batch in batches]
            left.plot(batches, fitted, color=look.colour, linewidth=1)
            left.plot(
                rows["rows"], 1e3 * rows["measured_s"], look.marker, color=look.colour, label=_label(widths, grid)
            )
            deviation = 100 * (rows["measured_s"] / rows["fitted_s"] - 1)
            right.plot(rows["rows"], deviation, look.marker, color=look.colour)
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            plain_log_axis(axis.xaxis, (1.0,))
            axis.xaxis.set_major_formatter("{x:.0f}")  # rows in powers of two are no round thousands
            axis.set_xlabel("rows of one rank a step")
        left.set_yscale("log")
        plain_log_axis(left.yaxis, (1.0, 3.0))
        left.set_ylabel(f"step time (ms), {calibration.source}")
        left.set_title("markers: " + calibration.source + ", lines: fitted")
        right.axhline(0, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
        right.set_ylabel("deviation from the fit (%)")
        right.set_title("what the fit leaves")
        legend(figure, left)
    return figure


def _label(widths: str, grid: int | None) -> str:
    return widths if grid is None else f"{widths}, grid {grid}"
