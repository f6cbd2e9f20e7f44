"""The figures of communication: the overhead of each setting of DDP, and the blocking all-reduce."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import dots, estimate, has, legend, message_axis, panels, plain_log_axis
from kanstudy.analysis.plots.style import COLUMN, STYLE, WIDTH, NotebookFigure, line_of, looks, message, series_looks
from kanstudy.analysis.series import WORK_KEYS, names, source_suffix, told_apart


def overhead(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Communication overhead, 1 - T(no communication)/T(DDP), of each setting of DDP, a panel a world size."""
    if not has(estimates, "overhead"):
        return message("Communication needs two ranks: nothing is measured here")
    work = [key for key in WORK_KEYS if key not in ("bucket_cap_mb", "comm_hook", "sync_buffers")]
    estimates = estimates.assign(work=told_apart(names(estimates), estimates[[*work, "global_batch_size"]]))
    sizes = sorted(estimates["world_size"].unique())
    look_of = series_looks(estimates["work"], estimates["model"])
    with matplotlib.rc_context(STYLE):
        columns = min(2, len(sizes))
        lines = -(-len(sizes) // columns)
        width = COLUMN if len(sizes) == len(look_of) == 1 else WIDTH
        figure = NotebookFigure(figsize=(width, 2.3 * lines + 0.5), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for axis in axes.flat[len(sizes) :]:
            axis.set_visible(False)
        for axis, size in zip(axes.flat, sizes, strict=False):
            rows = estimates[estimates["world_size"] == size].reset_index(drop=True)
            rows = rows.assign(setting=[_setting(row) for _, row in rows.iterrows()])
            labels = list(dict.fromkeys(rows["setting"]))
            for _, row in rows.iterrows():
                look = look_of[row["work"]]
                beside = list(rows.loc[rows["setting"] == row["setting"], "work"])
                place = labels.index(row["setting"]) + 0.5 * (beside.index(row["work"]) + 0.5) / len(beside) - 0.25
                if "overhead" in per_round:
                    found = per_round[per_round["point_id"] == row["point_id"]]
                    dots(axis, np.full(len(found), place), found, "overhead", look, scale=100)
                estimate(axis, place, row, "overhead", look, scale=100)
            axis.set_xticks(range(len(labels)), labels)
            axis.set_xlim(-0.6, len(labels) - 0.4)
            axis.axhline(0, color="0.4", linewidth=0.8)
            axis.set_title(f"{size} ranks")
            axis.grid(axis="x", visible=False)
            axis.set_xlabel("bucket cap (MiB)")
        for line in axes:
            line[0].set_ylabel("communication overhead\n(% of a step)")
        for label, look in look_of.items():
            axes[0, 0].plot([], [], color=look.colour, marker=look.marker, linestyle="none", label=label)
        legend(figure, axes[0, 0])
    return figure


def allreduce(estimates: pd.DataFrame) -> Figure:
    """Time and bus bandwidth of the blocking all-reduce over the message size, a line a point that measured it."""
    if not has(estimates, "time_s"):
        return message("No all-reduce is measured: it needs two ranks")
    estimates = estimates.assign(line=allreduce_labels(estimates))
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        for label, look in looks(estimates["line"]).items():
            rows = estimates[estimates["line"] == label].sort_values("message_bytes")
            for axis, column, scale in ((left, "time_s", 1e3), (right, "busbw_bytes_per_s", 1e-9)):
                axis.plot(rows["message_bytes"], rows[column] * scale, line_of(rows), color=look.colour, zorder=3)
                axis.plot([], [], line_of(rows), color=look.colour, marker=look.marker, label=label)
                for _, row in rows.iterrows():
                    estimate(axis, row["message_bytes"], row, column, look, scale)
        for axis in (left, right):
            message_axis(axis, estimates["message_bytes"])
            axis.set_yscale("log")
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
        left.set_ylabel("median time (ms)")
        right.set_ylabel("bus bandwidth (GB/s)")
        legend(figure, left)
    return figure


def allreduce_labels(estimates: pd.DataFrame) -> pd.Series:
    """What the all-reduces of each row are called: by their ranks and how these reach each other, by the series only
    where that does not tell them apart."""
    sizes = estimates["world_size"].map("{} ranks".format) + source_suffix(estimates)
    return told_apart(sizes, estimates[["world_size", "device_name", "placement", "link", "series"]])


def _setting(row: pd.Series) -> str:
    text = f"{row['bucket_cap_mb']:g}"
    if row["sync_buffers"]:
        text += "\nbuffers\nsynchronised"
    return text if row["comm_hook"] == "none" else f"{text}\nhook {row['comm_hook']}"
