"""Figures of results that this project did not measure: speed-up and efficiency of tables, bandwidth of nccl-tests."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis.external.efficiency import Analysis
from kanstudy.analysis.external.nccl_log import HALVES, NcclLog
from kanstudy.analysis.plots.axes import bytes_text, curves, efficiency_axis, legend, panels, plain_log_axis, world_axis
from kanstudy.analysis.plots.style import STYLE, WIDTH, NotebookFigure, looks, message

_MOST = 8
"""Lines in a panel, and lines of panels, that a reader can tell apart."""


def scaling(analysis: Analysis) -> Figure:
    """Speed-up (log2 axes) and parallel efficiency over the world size, a line a series.

    More series than markers are split by one of their keys, a line of panels a value, so that the legend stays short;
    where no key does that, all are drawn grey and without names. Series without a baseline are not drawn.
    """
    keys = {name: f"key {place}" for place, name in enumerate(analysis.keys)}  # apart from the names below
    frame, repeats = (found.rename(columns=keys) for found in (analysis.efficiency, analysis.repeats))
    frame = frame[np.isfinite(frame["parallel_efficiency"].astype(float))]
    if frame.empty:
        return message("No series has a baseline, so there is no efficiency to show")
    groups, names = _groups(frame, list(keys.values()))
    frame = frame.assign(series=names, group=groups, point_id=range(len(frame)))
    dots = repeats.merge(frame[[*keys.values(), "world_size", "point_id"]])
    dots["disturbed"] = False
    lines = list(dict.fromkeys(groups))
    bases = set(frame["baseline_world_size"])
    over = "" if bases == {1} else f", {min(bases)} ranks = 1" if len(bases) == 1 else ", first of a line = 1"
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.7 if len(lines) == 1 else 1.9 * len(lines)), layout="constrained")
        axes = figure.subplots(len(lines), 2, squeeze=False, sharex=True)
        look_of = looks(names)
        too_many = len(look_of) > _MOST
        for (left, right), line in zip(axes, lines, strict=True):
            part = frame[frame["group"] == line]
            _world(left, frame)
            _world(right, frame)
            for axis, column in ((left, "speedup"), (right, "parallel_efficiency")):
                if too_many:
                    for _, series in part.groupby("series"):
                        axis.plot(series["world_size"], series[column], ".-", color="0.4", alpha=0.5, linewidth=0.6)
                else:
                    curves(axis, part, dots, column, look_of)
            for start in sorted(part["baseline_world_size"].unique()):
                sizes = np.array([start, frame["world_size"].max()], dtype=float)
                left.plot(sizes, sizes / start, "--", color="0.4", linewidth=0.9, label="ideal", zorder=1)
            left.set_yscale("log", base=2)
            plain_log_axis(left.yaxis, (1.0,))
            left.set_ylabel(("scaled speed-up" if analysis.scaling == "weak" else "speed-up") + over)
            efficiency_axis(right)
            right.set_ylabel("relative efficiency" + over if over else "parallel efficiency")
            for axis in (left, right):
                axis.set_title(line, loc="left")
                axis.set_xlabel("world size (ranks)" if line == lines[-1] else "")
        if too_many:
            figure.suptitle(f"{len(look_of)} series, too many to name: see the table", fontsize=8)
        elif max(names.str.len()) > 0:
            legend(figure, *axes[:, 0], columns=2 if max(names.str.len()) > 40 else 3)
    return figure


def caption(analysis: Analysis, source: str) -> str:
    """What the figure shows, and what it leaves out."""
    without = analysis.efficiency["parallel_efficiency"].isna()
    bases = sorted(analysis.efficiency["baseline_world_size"].dropna().unique())
    base = " or ".join(f"{size} rank{'s' if size > 1 else ''}" for size in bases) or "none"
    kept = [name for name in analysis.keys if analysis.efficiency[name].nunique(dropna=False) == 1]
    fixed = "".join(f", {name} {analysis.efficiency[name].iloc[0]}" for name in kept if len(analysis.efficiency))
    return (
        f"{f'{analysis.scaling} scaling'.strip().capitalize()} of {source}, not measured by kanstudy{fixed}. Baseline: "
        f"{base}. Points {len(analysis.efficiency) - without.sum()}, of {analysis.used} used rows of "
        f"{analysis.planned}; not shown for want of a baseline: {without.sum()} points."
    )


def bandwidth(rows: pd.DataFrame) -> Figure:
    """Time and bus bandwidth over the message size of an nccl-tests run, out-of-place and in-place."""
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        for (in_place, part), look in zip(rows.groupby("in_place"), looks(HALVES).values(), strict=False):
            part = part.sort_values("message_bytes")
            for axis, column, scale in ((left, "time_s", 1e6), (right, "busbw_bytes_per_s", 1e-9)):
                axis.plot(
                    part["message_bytes"],
                    part[column] * scale,
                    marker=look.marker,
                    markersize=3.5,
                    markerfacecolor="none" if in_place else look.colour,
                    color=look.colour,
                    label=HALVES[bool(in_place)],
                )
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            ticks = [2.0**power for power in range(0, 60, 5) if _within(2.0**power, rows["message_bytes"])]
            axis.set_xticks(ticks, [bytes_text(tick) for tick in ticks])
            axis.minorticks_off()
            axis.set_xlabel("message")
        left.set_yscale("log")
        plain_log_axis(left.yaxis, (1.0, 2.0, 5.0))
        left.set_ylabel("time (µs)")
        right.set_ylim(bottom=0)
        right.set_ylabel("bus bandwidth (GB/s)")
        legend(figure, left)
    return figure


def bandwidth_caption(log: NcclLog, source: str) -> str:
    """What the figure shows."""
    return (
        f"All-reduce of {log.ranks} ranks, from nccl-tests ({source}), not measured by kanstudy. Bus bandwidth: message"
        f" size/time × 2(n-1)/n with n = {log.ranks}; average {log.average_busbw / 1e9:.2f} GB/s."
    )


def _groups(frame: pd.DataFrame, keys: list[str]) -> tuple[pd.Series, pd.Series]:
    """For each point the panels it is in ("" if all are in one) and the name of its line there."""
    text = frame[keys].astype(object).where(frame[keys].notna(), "none").astype(str)
    varying = [name for name in keys if text[name].nunique() > 1]
    nothing = pd.Series("", index=frame.index)

    def joined(names: list[str]) -> pd.Series:
        return text[names].agg(", ".join, axis=1) if names else nothing

    alone = joined(varying)
    if alone.nunique() <= _MOST:
        return nothing, alone
    splits = [(text[name], joined([other for other in varying if other != name])) for name in varying]
    readable = [(group, rest) for group, rest in splits if group.nunique() <= _MOST and rest.nunique() <= _MOST]
    return min(readable, key=lambda split: split[0].nunique(), default=(nothing, alone))


def _world(axis: Axes, frame: pd.DataFrame) -> None:
    """The world sizes of the whole figure; of many only powers of two have a tick."""
    sizes = world_axis(axis, frame)
    if len(sizes) > 8:
        shown = [size for size in sizes if np.log2(size).is_integer()] or [sizes[0], sizes[-1]]
        shown = shown[:: -(-len(shown) // 10)]
        axis.set_xticks(shown, [f"{size:.0f}" for size in shown])


def _within(value: float, values: pd.Series) -> bool:
    return bool(values.min() <= value <= values.max())
