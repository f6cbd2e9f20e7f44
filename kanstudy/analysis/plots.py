"""The figures. Each takes tidy frames of `kanstudy.analysis.estimates` and gives a matplotlib figure.

Estimates come aggregated; nothing is averaged here. Every round is a faint dot, or a cross where it was disturbed, the
estimate a marker with its interval, the ideal a dashed line. The same series has the same colour and marker in every
panel of a figure. What was not measured is a figure that says so, not an empty axis.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.plots_axes import (
    COLUMN,
    STYLE,
    WIDTH,
    NotebookFigure,
    curves,
    dots,
    efficiency_axis,
    estimate,
    has,
    legend,
    looks,
    message,
    panels,
    plain_log_axis,
    world_axis,
)
from kanstudy.analysis.plots_waterfall import several_ranks, waterfall_panel
from kanstudy.analysis.series import WORK_KEYS, told_apart
from kanstudy.files import write_atomically

_WITHOUT_TIME = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
"""Metadata with which the same figure gives the same bytes."""


def save_figure(figure: Figure, figures_dir: Path | str, name: str, caption: str) -> list[Path]:
    """Write `name.pdf` (vector), `name.png` (200 dpi) and `name.txt`, the caption; their paths. The same figure gives
    the same bytes."""
    paths = []
    for kind, metadata in _WITHOUT_TIME.items():
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(buffer, format=kind, metadata=metadata, bbox_inches="tight")
        paths.append(Path(figures_dir) / f"{name}.{kind}")
        write_atomically(paths[-1], buffer.getvalue())
    paths.append(Path(figures_dir) / f"{name}.txt")
    write_atomically(paths[-1], f"{caption}\n")
    return paths


def strong_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Speed-up (log2 axes) and parallel efficiency over the world size, a line a series."""
    if not has(estimates, "speedup"):
        return message("No strong-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        look_of = looks(estimates["series"])
        curves(left, estimates, per_round, "speedup", look_of)
        sizes = world_axis(left, estimates)
        left.plot(sizes, sizes, "--", color="0.4", linewidth=0.9, label="ideal", zorder=1)
        left.set_yscale("log", base=2)
        plain_log_axis(left.yaxis, (1.0,))
        left.set_ylabel("speed-up over one rank")
        curves(right, estimates, per_round, "efficiency", look_of)
        world_axis(right, estimates)
        efficiency_axis(right)
        right.set_ylabel("parallel efficiency")
        legend(figure, left)
    return figure


def weak_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Parallel efficiency and throughput over the world size, a line a series."""
    if not has(estimates, "efficiency"):
        return message("No weak-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        look_of = looks(estimates["series"])
        curves(left, estimates, per_round, "efficiency", look_of)
        world_axis(left, estimates)
        efficiency_axis(left)
        left.set_ylabel("parallel efficiency")
        curves(right, estimates, per_round, "throughput", look_of)
        sizes = world_axis(right, estimates)
        for series, rows in estimates.groupby("series", sort=False):
            first = rows.sort_values("world_size").iloc[0]
            ideal = first["throughput"] * sizes / first["world_size"]
            right.plot(sizes, ideal, "--", color=look_of[str(series)].colour, linewidth=0.8, alpha=0.7)
        right.set_yscale("log", base=2)
        plain_log_axis(right.yaxis, (1.0, 2.0, 5.0))
        right.set_ylabel("samples per second, all ranks")
        left.plot([], [], "--", color="0.4", linewidth=0.9, label="ideal")
        legend(figure, left)
    return figure


def overhead(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Communication overhead, 1 - T(no communication)/T(DDP), of each setting of DDP, a panel a world size."""
    if not has(estimates, "overhead"):
        return message("Communication needs two ranks: nothing is measured here")
    work = [name for name in WORK_KEYS if name not in ("bucket_cap_mb", "comm_hook", "sync_buffers")]
    names = estimates["model"].str.upper() + " " + estimates["dataset"]
    estimates = estimates.assign(work=told_apart(names, estimates[[*work, "global_batch_size"]]))
    sizes, look_of = sorted(estimates["world_size"].unique()), looks(estimates["work"])
    with matplotlib.rc_context(STYLE):
        width = min(WIDTH, COLUMN * len(sizes) * (1 if len(look_of) == 1 else 2))
        figure = NotebookFigure(figsize=(width, 2.8), layout="constrained")
        axes = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
        for axis, size in zip(axes, sizes, strict=True):
            rows = estimates[estimates["world_size"] == size].reset_index(drop=True)
            labels = [_setting(row) for _, row in rows.iterrows()]
            for place, (_, row) in enumerate(rows.iterrows()):
                look = look_of[row["work"]]
                if "overhead" in per_round:
                    found = per_round[per_round["point_id"] == row["point_id"]]
                    dots(axis, np.full(len(found), float(place)), found, "overhead", look, scale=100)
                estimate(axis, float(place), row, "overhead", look, scale=100)
            axis.set_xticks(range(len(labels)), labels)
            axis.set_xlim(-0.6, len(labels) - 0.4)
            axis.axhline(0, color="0.4", linewidth=0.8)
            axis.set_title(f"{size} ranks")
            axis.grid(axis="x", visible=False)
            axis.set_xlabel("bucket cap (MiB)")
        axes[0].set_ylabel("communication overhead\n(% of a step)")
        for label, look in look_of.items():
            axes[0].plot([], [], color=look.colour, marker=look.marker, linestyle="none", label=label)
        legend(figure, axes[0])
    return figure


def allreduce(estimates: pd.DataFrame) -> Figure:
    """Time and bus bandwidth of the blocking all-reduce over the message size, a line a point that measured it."""
    if not has(estimates, "time_s"):
        return message("No all-reduce is measured: it needs two ranks")
    names = estimates["world_size"].map("{} ranks".format)
    estimates = estimates.assign(line=told_apart(names, estimates[["world_size", "series"]]))
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2)
        for label, look in looks(estimates["line"]).items():
            rows = estimates[estimates["line"] == label].sort_values("message_bytes")
            for axis, column, scale in ((left, "time_s", 1e3), (right, "busbw_bytes_per_s", 1e-9)):
                values = rows[column] * scale
                axis.plot(rows["message_bytes"], values, marker=look.marker, color=look.colour, label=label)
        ticks = sorted(estimates["message_bytes"].unique())
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(ticks, [_bytes(tick) for tick in ticks], rotation=45, ha="right")
            axis.minorticks_off()
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
            axis.set_xlabel("message")
        left.set_ylabel("median time (ms)")
        right.set_ylabel("bus bandwidth (GB/s)")
        legend(figure, left)
    return figure


_SIZE_PANELS = (
    ("step_time_s", 1e3, "step time (ms)"),
    ("peak_memory_bytes", 1 / 2**20, "peak memory a rank (MiB)"),
    ("params_per_byte", 2**20, "parameters per MiB"),
)


def model_size(estimates: pd.DataFrame) -> Figure:
    """Step time, peak memory and parameters per byte over the number of parameters, a line for all widths of the same
    work and grid size."""
    if not has(estimates, "step_time_s"):
        return message("No model size is measured")
    work = [name for name in WORK_KEYS if name != "layer_widths"]
    names = estimates["model"].str.upper() + estimates["grid_size"].map(
        lambda g: "" if pd.isna(g) else f", grid {g:.0f}"
    )
    estimates = estimates.assign(line=told_apart(names, estimates[[*work, "global_batch_size", "world_size"]]))
    with matplotlib.rc_context(STYLE):
        figure, axes = panels(3, height=2.4)
        for label, look in looks(estimates["line"]).items():
            rows = estimates[estimates["line"] == label].sort_values("n_params")
            for axis, (column, scale, _) in zip(axes, _SIZE_PANELS, strict=True):
                axis.plot(rows["n_params"], rows[column] * scale, color=look.colour, zorder=2)
                axis.plot([], [], color=look.colour, marker=look.marker, label=label)
                for _, row in rows.iterrows():
                    estimate(axis, row["n_params"], row, column, look, scale=scale)
        for axis, (_, _, title) in zip(axes, _SIZE_PANELS, strict=True):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("parameters")
            axis.set_title(title)
            axis.grid(visible=True, which="major")
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
            plain_log_axis(axis.xaxis, (1.0, 3.0))
        legend(figure, axes[0])
    return figure


def overview(strong: pd.DataFrame, weak: pd.DataFrame, attribution: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """The study on one page's width: strong and weak efficiency, and where the first series' efficiency goes."""
    if not has(strong, "efficiency"):
        return message("No strong-scaling point is measured")
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.7), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 2.1))
        look_of = looks([*strong["series"], *(weak["series"] if len(weak) else [])])
        for axis, frame, title in ((left, strong, "strong scaling"), (middle, weak, "weak scaling")):
            axis.set_title(title)
            if has(frame, "efficiency"):
                curves(axis, frame, per_round, "efficiency", look_of)
                world_axis(axis, frame)
                efficiency_axis(axis)
            axis.set_ylabel("parallel efficiency")
        first = strong[strong["series"] == strong["series"].iloc[0]].sort_values("world_size")
        rows = several_ranks(attribution)
        rows = rows[rows["point_id"] == first["point_id"].iloc[-1]] if len(rows) else rows
        if len(rows) > 1:
            waterfall_panel(right, rows, intervals=False)
            right.set_title(f"where it goes, strong scaling, {rows['world_size'].iloc[0]} ranks")
            right.set_ylabel("running product")
        else:
            right.set_axis_off()
            right.text(0.5, 0.5, "one rank:\nnothing to attribute", ha="center", va="center")
        legend(figure, left, middle, where="outside lower left", columns=2)
    return figure


def _setting(row: pd.Series) -> str:
    text = f"{row['bucket_cap_mb']:g}"
    if row["sync_buffers"]:
        text += "\nbuffers\nsynchronised"
    return text if row["comm_hook"] == "none" else f"{text}\nhook {row['comm_hook']}"


def _bytes(size: float) -> str:
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size:g} B"
