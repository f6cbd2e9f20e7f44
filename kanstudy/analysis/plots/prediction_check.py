"""The figure of the check of predictions: predicted against measured exposed time, and bands against new launches."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.held_out.rivals import OWN, WRONG
from kanstudy.analysis.held_out.scoring import Scores
from kanstudy.analysis.plots.axes import legend, plain_log_axis
from kanstudy.analysis.plots.style import PALETTE, STYLE, WIDTH, NotebookFigure, message

NAME = "prediction_check"
NOTHING = "No predictions are checked here: kanstudy bench prediction writes predictions down, then measures them"
_LOOKS = {"measured": ("o", PALETTE[0]), "emulated": ("s", PALETTE[1]), "simulated": ("^", PALETTE[2])}
"""Marker and colour of where the other side of the comparison comes from."""
_BAND = "0.85"
_DRAWN = ("predicted_low", "predicted_high", "measured", "measured_low", "measured_high")


def predicted_versus_measured(scores: Scores | None) -> Figure:
    """Left, exposed communication in ms, identity dashed, with the band and the interval over launches; hollow: the
    same machine with a wrong latency. Right, for each setting, the step's measured time over the predicted one, with
    the band for a new launch behind it."""
    if scores is None:
        return message(NOTHING)
    own = scores.settings[scores.settings["predictor"] == OWN]
    steps = own[own["quantity"] == "step_time_s"].sort_values("source", ascending=False, kind="stable")
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 1.7 + 0.16 * max(8, len(steps))), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _exposed(left, scores.settings[scores.settings["quantity"] == "exposed_s"])
        _bands(right, steps)
        right.plot([], [], color=_BAND, linewidth=6, label="predicted for a new launch")
        legend(figure, left, right)
    return figure


def caption(scores: Scores | None) -> str:
    """What the figure rests on, for under it."""
    if scores is None:
        return NOTHING + "."
    own = scores.settings[scores.settings["predictor"] == OWN]
    exposed = own[own["quantity"] == "exposed_s"]
    unseen = int(((exposed["measured"] <= 0) | (exposed["predicted"] <= 0)).sum())
    hidden = f" {unseen} settings with an exposed time of 0 or less have no place on the log axes." if unseen else ""
    counts = ", ".join(f"{n} {source}" for source, n in exposed["source"].value_counts(sort=False).items())
    launches = sorted(own["launches"].unique())
    return (
        f"Predictions (predicted) against what was measured afterwards ({counts} settings, "
        f"{' to '.join(str(n) for n in dict.fromkeys([launches[0], launches[-1]]))} launches each). Left: exposed "
        "communication; bars are the prediction's band (horizontal) and the 95 % interval over launches (vertical); "
        f"hollow: the same machine with a latency ten times too large.{hidden} Right: measured over predicted step "
        "time, the prediction's band for a new launch in grey. Emulated settings are real ranks over an emulated link. "
        f"Predictions frozen before as SHA-256 {scores.sha256[:12]}."
    )


def _exposed(axis: Axes, rows: pd.DataFrame) -> None:
    rows = rows[(rows["measured"] > 0) & (rows["predicted"] > 0)]
    axis.set_xscale("log")
    axis.set_yscale("log")
    for source, group in rows.groupby("source", sort=False):
        marker, colour = _LOOKS[str(source)]
        own, wrong = (group[group["predictor"] == name] for name in (OWN, WRONG))
        for row in own.to_dict("records"):
            x, y = 1e3 * row["predicted"], 1e3 * row["measured"]
            if row["predicted_low"] > 0:
                axis.plot([1e3 * row["predicted_low"], 1e3 * row["predicted_high"]], [y, y], color=colour, alpha=0.4)
            if row["measured_low"] > 0:
                axis.plot([x, x], [1e3 * row["measured_low"], 1e3 * row["measured_high"]], color=colour, alpha=0.4)
        axis.plot(1e3 * own["predicted"], 1e3 * own["measured"], marker, color=colour, label=str(source), zorder=4)
        axis.plot(
            1e3 * wrong["predicted"], 1e3 * wrong["measured"], marker, color=colour, fillstyle="none", alpha=0.6,
            label=f"{source}, wrong latency", zorder=3,
        )  # fmt: skip
    ends = (min(axis.get_xlim()[0], axis.get_ylim()[0]), max(axis.get_xlim()[1], axis.get_ylim()[1]))
    axis.plot(ends, ends, "--", color="0.4", linewidth=0.9, zorder=1)
    axis.set(xlim=ends, ylim=ends)
    for one in (axis.xaxis, axis.yaxis):
        plain_log_axis(one, (1.0, 3.0))
    axis.set_xlabel("predicted exposed communication (ms)")
    axis.set_ylabel("measured (ms)")


def _bands(axis: Axes, rows: pd.DataFrame) -> None:
    widest = max(0.05, *(abs(rows[name] / rows["predicted"] - 1).max() for name in _DRAWN))
    axis.set_xlim(1 - 1.1 * widest, 1 + 1.1 * widest)
    for place, row in enumerate(rows.to_dict("records")):
        marker, colour = _LOOKS[row["source"]]
        scale = 1 / row["predicted"]
        axis.barh(
            place, scale * (row["predicted_high"] - row["predicted_low"]), left=scale * row["predicted_low"],
            height=0.7, color=_BAND, zorder=2,
        )  # fmt: skip
        if np.isfinite(row["measured_low"]):
            ends = [scale * row["measured_low"], scale * row["measured_high"]]
            axis.plot(ends, [place, place], color=colour, linewidth=2.2, alpha=0.6, zorder=3)
        axis.plot(scale * row["measured"], place, marker, color=colour, zorder=4)
    axis.axvline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    axis.set_yticks(range(len(rows)), [row["label"] for row in rows.to_dict("records")])
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()
    axis.set_xlabel("step time,\nmeasured / predicted")
