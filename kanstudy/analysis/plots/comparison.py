"""The figures of two results side by side: their curves and waterfalls in one figure, and how far apart they are.

The study's own figures draw both sides, each series under its side's letter, so that no line joins two sides.
"""

from __future__ import annotations

import textwrap

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.comparison.changes import NOT_TOLD, RATIO, TABLES
from kanstudy.analysis.comparison.sides import Side
from kanstudy.analysis.estimates import per_round
from kanstudy.analysis.plots import communication, scaling, waterfall
from kanstudy.analysis.plots.axes import plain_log_axis
from kanstudy.analysis.plots.style import PALETTE, STYLE, WIDTH, NotebookFigure, message

_LINE, _BETWEEN, _AROUND = 0.12, 0.09, 0.9  # inches
_LABEL = {True: 64, False: 46}
"""Letters of a row's label that one line holds, beside one panel or several."""


def both(name: str, a: Side, b: Side) -> Figure | None:
    """The study's figure of one table with both sides in it; None for a table whose figure has no room for two."""
    frames = []
    for side in (a, b):
        frame = TABLES[name].of(side)
        if len(frame):
            is_one = name == "allreduce" and frame["series"].nunique() == 1
            series = side.letter + (", " + frame["source"] if is_one else ": " + frame["series"])
            frames.append(frame.assign(series=series, point_id=side.letter + frame["point_id"]))
    if not frames:
        return None
    frame = pd.concat(frames, ignore_index=True)
    if name.startswith("attribution"):
        return waterfall.waterfall(frame)
    if name == "allreduce":
        return communication.allreduce(frame)
    if name not in ("strong_scaling", "weak_scaling"):
        return None
    rounds = pd.concat([_rounds(side) for side in (a, b)], ignore_index=True)
    return (scaling.strong_scaling if name == "strong_scaling" else scaling.weak_scaling)(frame, rounds)


def _rounds(side: Side) -> pd.DataFrame:
    frame = per_round(side.records)
    return frame.assign(point_id=side.letter + frame["point_id"].astype(str))


def changes(frame: pd.DataFrame) -> Figure:
    """Every change of one table with its interval, a panel a quantity, filled where it leaves out none. A row is a
    point or, within it, a factor, a message or a pair of operators."""
    frame = frame[np.isfinite(frame["change"].astype(float))]
    if not len(frame):
        return message("No number of this table can be compared")
    places = [tuple(row) for row in frame[["series", "world_size", "of"]].to_numpy()]
    labels = {place: number for number, place in enumerate(dict.fromkeys(places))}
    quantities = list(dict.fromkeys(frame["quantity"]))
    with matplotlib.rc_context(STYLE):
        texts = [textwrap.fill(_label(*place), _LABEL[len(quantities) == 1]) for place in labels]
        texts = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts]
        row = _LINE * max(text.count("\n") + 1 for text in texts) + _BETWEEN
        figure = NotebookFigure(figsize=(WIDTH, _AROUND + row * max(2, len(texts))), layout="constrained")
        axes = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for axis, quantity in zip(axes, quantities, strict=True):
            rows = frame[frame["quantity"] == quantity]
            by = rows["by"].iloc[0]
            if by == RATIO:
                axis.set_xscale("log")
            axis.axvline(1 if by == RATIO else 0, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
            for _, row in rows.iterrows():
                place = labels[row["series"], row["world_size"], row["of"]]
                axis.plot([row["change_low"], row["change_high"]], [place, place], color=PALETTE[0], alpha=0.6)
                told = row["told"] != NOT_TOLD and np.isfinite(row["change_low"])
                face = PALETTE[0] if told else "white"
                axis.plot([row["change"]], [place], "o", color=PALETTE[0], markerfacecolor=face, markersize=4)
            if by == RATIO:
                plain_log_axis(axis.xaxis, (1.0, 2.0, 5.0))
            axis.set_xlabel(f"{quantity.partition(' (')[0] if by == RATIO else quantity},\n{by}")
        axes[0].set_yticks(range(len(texts)), texts)
        axes[0].set_ylim(len(texts) - 0.5, -0.5)
        axes[0].plot([], [], "o", color=PALETTE[0], label="differs by more than its interval")
        axes[0].plot([], [], "o", color=PALETTE[0], markerfacecolor="white", label="not told apart, or no interval")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _label(series: str, world_size: int, of: str) -> str:
    parts = [*series.split(", "), f"{world_size} rank{'s' * (world_size > 1)}", *filter(None, [of])]
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)  # broken between parts alone
