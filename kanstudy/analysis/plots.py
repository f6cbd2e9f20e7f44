"""The figures. Each takes tidy frames of `kanstudy.analysis.estimates` and gives a matplotlib figure.

Estimates come aggregated; nothing is averaged here. Every round is a faint dot, the estimate a marker with its
interval, the ideal a dashed line. The same series has the same colour and marker in every panel of a figure, the
same factor the same colour everywhere. What was not measured is a figure that says so, not an empty axis.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

WIDTH, COLUMN = 7.0, 3.4  # inches: a page's text and one of its columns
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PALETTE: list[Any] = list(seaborn.color_palette("colorblind"))
FACTOR_LABELS = {
    "batch": "batch",
    "heterogeneity": "hetero-\ngeneity",
    "contention": "conten-\ntion",
    "ddp": "DDP",
    "synchronisation": "synchro-\nnisation",
    "data_movement": "data\nmovement",
}
_LOSS, _GAIN, _TOTAL = PALETTE[3], PALETTE[2], PALETTE[7]
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3}

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "savefig.dpi": 200,
}


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself and sharply, whatever its plotting backend."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture at 200 dpi and the size, in CSS pixels, to show it at."""
        buffer = io.BytesIO()
        with matplotlib.rc_context(_STYLE):
            self.savefig(buffer, format="png", metadata={"Software": None})
        width, height = self.get_size_inches()
        return buffer.getvalue(), {"width": round(100 * width), "height": round(100 * height)}


def save_figure(figure: Figure, figures_dir: Path | str, name: str) -> list[Path]:
    """Write `name.pdf` (vector) and `name.png` (200 dpi); their paths. The same figure gives the same bytes."""
    folder = Path(figures_dir)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.pdf", folder / f"{name}.png"]
    with matplotlib.rc_context(_STYLE):
        figure.savefig(paths[0], metadata={"CreationDate": None}, bbox_inches="tight")
        figure.savefig(paths[1], metadata={"Software": None}, bbox_inches="tight")
    return paths


def strong_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Speed-up (log2 axes) and parallel efficiency over the world size, a line a series."""
    if not _has(estimates, "speedup"):
        return _message("No strong-scaling point is measured")
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _panels(2)
        _curves(left, estimates, per_round, "speedup")
        sizes = _world_axis(left, estimates)
        left.plot(sizes, sizes, "--", color="0.4", linewidth=0.9, label="ideal", zorder=1)
        left.set_yscale("log", base=2)
        _plain_log_axis(left.yaxis, (1.0,))
        left.set_ylabel("speed-up over one rank")
        _curves(right, estimates, per_round, "efficiency")
        _world_axis(right, estimates)
        _efficiency_axis(right)
        right.set_ylabel("parallel efficiency")
        _legend(figure, left)
    return figure


def weak_scaling(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Parallel efficiency and throughput over the world size, a line a series."""
    if not _has(estimates, "efficiency"):
        return _message("No weak-scaling point is measured")
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _panels(2)
        _curves(left, estimates, per_round, "efficiency")
        _world_axis(left, estimates)
        _efficiency_axis(left)
        left.set_ylabel("parallel efficiency")
        _curves(right, estimates, per_round, "throughput")
        sizes = _world_axis(right, estimates)
        for index, (_, rows) in enumerate(estimates.groupby("series", sort=False)):
            first = rows.sort_values("world_size").iloc[0]
            ideal = first["throughput"] * sizes / first["world_size"]
            right.plot(sizes, ideal, "--", color=_colour(index), linewidth=0.8, alpha=0.7)
        right.set_yscale("log", base=2)
        _plain_log_axis(right.yaxis, (1.0, 2.0, 5.0))
        right.set_ylabel("samples per second, all ranks")
        left.plot([], [], "--", color="0.4", linewidth=0.9, label="ideal")
        _legend(figure, left)
    return figure


def waterfall(attribution: pd.DataFrame) -> Figure:
    """From 1 to the parallel efficiency, factor by factor, a panel a series and world size.

    A bar spans the running product before and after its factor: downwards a loss, upwards a factor above 1. The
    number is the factor with its interval. Heights depend on the order of the chain, the factors do not.
    """
    rows = _factors(attribution)
    panels = rows[["series", "world_size"]].drop_duplicates().to_numpy().tolist() if len(rows) else []
    if not panels:
        return _message("No point with two ranks or more is measured, so there is nothing to attribute")
    with matplotlib.rc_context(_STYLE):
        columns = min(2, len(panels))
        lines = -(-len(panels) // columns)
        figure = NotebookFigure(
            figsize=(WIDTH if columns > 1 else 0.62 * WIDTH, 2.5 * lines + 0.1), layout="constrained"
        )
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, (series, world_size) in zip(axes.flat, panels, strict=False):
            part = rows[(rows["series"] == series) & (rows["world_size"] == world_size)]
            _waterfall_panel(axis, part)
            axis.set_title(f"{series}, {world_size} ranks", fontsize=7)
        for line in axes:
            line[0].set_ylabel("parallel efficiency, running product")
    return figure


def overhead(estimates: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """Communication overhead, 1 - T(no communication)/T(DDP), of each setting of DDP, a panel a world size."""
    if not _has(estimates, "overhead"):
        return _message("Communication needs two ranks: nothing is measured here")
    sizes = sorted(estimates["world_size"].unique())
    with matplotlib.rc_context(_STYLE):
        figure = NotebookFigure(figsize=(min(WIDTH, COLUMN * len(sizes)), 2.6), layout="constrained")
        axes = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
        for axis, size in zip(axes, sizes, strict=True):
            rows = estimates[estimates["world_size"] == size].reset_index(drop=True)
            labels = [_setting(row) for _, row in rows.iterrows()]
            for place, row in rows.iterrows():
                dots = per_round[per_round["point_id"] == row["point_id"]]["overhead"] if len(per_round) else []
                _dots(axis, np.full(len(dots), float(place)), 100 * np.asarray(dots, float), _colour(0))
                _marker(axis, float(place), row, "overhead", _colour(0), MARKERS[0], scale=100)
            axis.set_xticks(range(len(labels)), labels)
            axis.set_xlim(-0.6, len(labels) - 0.4)
            axis.axhline(0, color="0.4", linewidth=0.8)
            axis.set_title(f"{size} ranks")
            axis.grid(axis="x", visible=False)
            axis.set_xlabel("bucket cap (MiB)")
        axes[0].set_ylabel("communication overhead\n(% of a step)")
    return figure


def allreduce(estimates: pd.DataFrame) -> Figure:
    """Time and bus bandwidth of the blocking all-reduce over the message size, a line a world size."""
    if not _has(estimates, "time_s"):
        return _message("No all-reduce is measured: it needs two ranks")
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _panels(2)
        for index, (size, rows) in enumerate(estimates.groupby("world_size")):
            rows = rows.sort_values("message_bytes")
            for axis, column, scale in ((left, "time_s", 1e3), (right, "busbw_bytes_per_s", 1e-9)):
                axis.plot(
                    rows["message_bytes"],
                    rows[column] * scale,
                    marker=MARKERS[index % len(MARKERS)],
                    color=_colour(index),
                    label=f"{size} ranks",
                )
                axis.set_xscale("log", base=2)
                axis.set_yscale("log")
                ticks = sorted(estimates["message_bytes"].unique())
                axis.set_xticks(ticks, [_bytes(tick) for tick in ticks], rotation=45, ha="right")
                axis.minorticks_off()
                _plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
                axis.set_xlabel("message")
        left.set_ylabel("median time (ms)")
        right.set_ylabel("bus bandwidth (GB/s)")
        _legend(figure, left)
    return figure


def model_size(estimates: pd.DataFrame) -> Figure:
    """Step time, peak memory and parameters per byte over the number of parameters, a line a grid size."""
    if not _has(estimates, "step_time_s"):
        return _message("No model size is measured")
    with matplotlib.rc_context(_STYLE):
        figure, axes = _panels(3, height=2.4)
        shown = (
            ("step_time_s", 1e3, "step time (ms)"),
            ("peak_memory_bytes", 1 / 2**20, "peak memory a rank (MiB)"),
            ("params_per_byte", 2**20, "parameters per MiB"),
        )
        for index, (label, rows) in enumerate(_size_lines(estimates)):
            rows = rows.sort_values("n_params")
            for axis, (column, scale, _) in zip(axes, shown, strict=True):
                marker, colour = MARKERS[index % len(MARKERS)], _colour(index)
                axis.plot(rows["n_params"], rows[column] * scale, color=colour, zorder=2)
                axis.plot([], [], color=colour, marker=marker, label=label)
                for _, row in rows.iterrows():
                    _marker(axis, row["n_params"], row, column, colour, marker, scale=scale)
        for axis, (_, _, label) in zip(axes, shown, strict=True):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("parameters")
            axis.set_title(label)
            axis.grid(visible=True, which="major")
            _plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
            _plain_log_axis(axis.xaxis, (1.0, 3.0))
        _legend(figure, axes[0])
    return figure


def overview(strong: pd.DataFrame, weak: pd.DataFrame, attribution: pd.DataFrame, per_round: pd.DataFrame) -> Figure:
    """The study on one page's width: strong and weak efficiency, and where the first series' efficiency goes."""
    if not _has(strong, "efficiency"):
        return _message("No strong-scaling point is measured")
    with matplotlib.rc_context(_STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.7), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 2.1))
        for axis, frame, title in ((left, strong, "strong scaling"), (middle, weak, "weak scaling")):
            axis.set_title(title)
            if _has(frame, "efficiency"):
                _curves(axis, frame, per_round, "efficiency")
                _world_axis(axis, frame)
                _efficiency_axis(axis)
            axis.set_ylabel("parallel efficiency")
        rows = _factors(attribution)
        rows = rows[rows["series"] == strong["series"].iloc[0]] if len(rows) else rows
        rows = rows[rows["world_size"] == rows["world_size"].max()] if len(rows) else rows
        if len(rows) > 1:
            _waterfall_panel(right, rows, intervals=False)
            right.set_title(f"where it goes, strong scaling, {rows['world_size'].iloc[0]} ranks")
            right.set_ylabel("running product")
        else:
            right.set_axis_off()
            right.text(0.5, 0.5, "one rank:\nnothing to attribute", ha="center", va="center")
        handles, labels = left.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower left", ncols=2)
    return figure


def _factors(attribution: pd.DataFrame) -> pd.DataFrame:
    """The factors of complete chains over several ranks; one rank has nothing to lose to others."""
    if not len(attribution):
        return attribution
    return attribution[~attribution["factor"].isin(["efficiency", "none"]) & (attribution["world_size"] > 1)]


def _waterfall_panel(axis: Axes, rows: pd.DataFrame, intervals: bool = True) -> None:
    running, highest = 1.0, 1.15
    for place, (_, row) in enumerate(rows.iterrows()):
        value = row["value"]
        after = running * value
        axis.bar(
            place,
            after - running,
            bottom=running,
            width=0.62,
            color=_GAIN if value > 1 else _LOSS,
            alpha=0.85,
            zorder=2,
        )
        axis.plot([place - 0.31, place + 1.31], [after, after], color="0.3", linewidth=0.7, zorder=3)
        text = f"{value:.3f}"
        if intervals and np.isfinite(row["value_low"]):
            text += f"\n[{row['value_low']:.3f},\n{row['value_high']:.3f}]"
        top = max(running, after) + 0.02
        axis.text(place, top, text, ha="center", va="bottom", fontsize=5.5, bbox=_PAPER, zorder=5)
        highest = max(highest, top + 0.1 * (1 + text.count("\n")))
        running = after
    axis.bar(len(rows), running, width=0.62, color=_TOTAL, zorder=2)
    axis.text(len(rows), running + 0.02, f"{running:.3f}", ha="center", va="bottom", fontsize=6.5, weight="bold")
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    labels = [FACTOR_LABELS.get(factor, factor) for factor in rows["factor"]] + ["effi-\nciency"]
    axis.set_xticks(range(len(labels)), labels, fontsize=5.5)
    axis.set_ylim(0, highest)
    axis.grid(axis="x", visible=False)


def _plain_log_axis(axis: Axis, subs: tuple[float, ...]) -> None:
    """Ticks of a log axis as plain numbers: powers of two, or some multiples of each power of ten."""
    base = 2 if subs == (1.0,) else 10
    axis.set_major_locator(matplotlib.ticker.LogLocator(base=base, subs=subs))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def _curves(axis: Axes, estimates: pd.DataFrame, per_round: pd.DataFrame, column: str) -> None:
    """A line a series through its estimates, with intervals, and every round as a dot."""
    for index, (series, rows) in enumerate(estimates.groupby("series", sort=False)):
        rows = rows[np.isfinite(rows[column].astype(float))].sort_values("world_size")
        colour, marker = _colour(index), MARKERS[index % len(MARKERS)]
        axis.plot(rows["world_size"], rows[column], color=colour, zorder=3)
        for _, row in rows.iterrows():
            _marker(axis, row["world_size"], row, column, colour, marker)
        axis.plot([], [], color=colour, marker=marker, label=str(series))
        if column in per_round:
            dots = per_round[per_round["point_id"].isin(rows["point_id"])]
            _dots(axis, dots["world_size"].to_numpy(float), dots[column].to_numpy(float), colour, index)


def _marker(axis: Axes, x: float, row: pd.Series, column: str, colour: Any, marker: str, scale: float = 1.0) -> None:
    """One estimate with its interval, hollow where more ranks ran than the machine has cores."""
    value, low, high = (row.get(name, np.nan) for name in (column, f"{column}_low", f"{column}_high"))
    if not np.isfinite(value):
        return
    hollow = bool(row.get("oversubscribed", False))
    axis.plot(
        [x], [value * scale], marker=marker, color=colour, markerfacecolor="white" if hollow else colour, zorder=4
    )
    if np.isfinite(low) and np.isfinite(high):
        axis.plot([x, x], [low * scale, high * scale], color=colour, linewidth=2.2, alpha=0.6, zorder=4)


def _dots(axis: Axes, x: np.ndarray, y: np.ndarray, colour: Any, index: int = 0) -> None:
    """Faint dots, spread a little to the right of their estimate; the places are fixed, so figures are too."""
    shift = 1.05 + 0.03 * index + 0.04 * np.linspace(0, 1, len(x)) if axis.get_xscale() == "log" else 1.0
    offset = 0.0 if axis.get_xscale() == "log" else 0.12 + 0.1 * np.linspace(0, 1, len(x))
    axis.plot(x * shift + offset, y, ".", color=colour, markersize=3, alpha=0.35, markeredgewidth=0, zorder=2)


def _world_axis(axis: Axes, estimates: pd.DataFrame) -> np.ndarray:
    """A log2 axis of world sizes with whole ticks and half a step of room; the sizes."""
    sizes = np.array(sorted(estimates["world_size"].unique()), dtype=float)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    axis.minorticks_off()
    axis.set_xlim(sizes[0] / 2**0.5, sizes[-1] * 2**0.5)
    axis.set_xlabel("world size (ranks)")
    return sizes


def _efficiency_axis(axis: Axes) -> None:
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    axis.set_ylim(0, max(1.15, axis.get_ylim()[1]))


def _panels(count: int, height: float = 2.7) -> tuple[Figure, Sequence[Axes]]:
    figure = NotebookFigure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(1, count)


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3))


def _size_lines(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    lines = []
    for (model, grid_size), rows in estimates.groupby(["model", "grid_size"], dropna=False):
        lines.append((f"KAN, grid {grid_size:.0f}" if model == "kan" else "MLP", rows))
    return lines


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


def _colour(index: int) -> Any:
    return PALETTE[index % len(PALETTE)]


def _has(frame: pd.DataFrame, column: str) -> bool:
    return column in frame and bool(np.isfinite(frame[column].astype(float)).any())


def _message(text: str) -> Figure:
    with matplotlib.rc_context(_STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 1.0))
        figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True, color="0.3")
    return figure
