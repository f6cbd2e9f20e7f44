"""Figures of iso-efficiency: the parallel efficiency over width and batch, and how work must grow with the ranks.

All of it is predicted: lines and surfaces, no measured point among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kanstudy.analysis.attribution.chain import FACTORS, factor_name
from kanstudy.analysis.plots.axes import legend, short_number
from kanstudy.analysis.plots.style import COLUMN, PALETTE, SMALL, STYLE, WIDTH, NotebookFigure, looks, message
from kanstudy.analysis.prediction.isoefficiency import NO_LOSS

LEVELS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Efficiencies whose contours are drawn."""
_BESIDE = 0.7
"""The efficiency whose contour is drawn over the throughput, too."""
_COLOURS: dict[str, Any] = {factor_name(name): PALETTE[place] for place, name in enumerate(FACTORS)}
_COLOURS[NO_LOSS] = (0.7, 0.7, 0.7)
_PALE = 0.45


def efficiency_map(found: pd.DataFrame) -> Figure:
    """A row an operator speed: for each grid the contours of E over global batch and hidden width on the colour of the
    largest loss, and last the throughput at the first grid with the contour of E = 0.7. White: does not fit in memory.
    """
    if not len(found) or not found["fits"].any():
        return message("No size of the map fits in a rank's memory")
    speeds, grids = (list(found[name].unique()) for name in ("operator_speed", "grid_size"))
    rates = found.loc[found["fits"], "throughput"]
    norm = LogNorm(rates.min(), rates.max() * (1 + 1e-9))
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.15 * len(speeds) + 0.7), layout="constrained")
        axes = figure.subplots(len(speeds), len(grids) + 1, squeeze=False, sharex=True, sharey=True)
        for line, speed in zip(axes, speeds, strict=True):
            at_speed = found[found["operator_speed"] == speed]
            named = "" if len(speeds) == 1 else f", operator x{speed:g}"
            for axis, grid in zip(line, grids, strict=False):
                _losses(axis, at_speed[at_speed["grid_size"] == grid])
                axis.set_title(f"efficiency, grid {grid}{named}")
            last = _throughput(line[-1], at_speed[at_speed["grid_size"] == grids[0]], norm)
            line[-1].set_title(f"rows/s, grid {grids[0]}{named}")
            line[0].set_ylabel("hidden width")
        for axis in axes[-1]:
            axis.set_xlabel("global batch (rows)")
        bar = figure.colorbar(last, ax=axes[:, -1], fraction=0.08, pad=0.02)
        bar.ax.yaxis.set_major_formatter(lambda value, _: short_number(value))
        bar.set_label("rows/s of all ranks (predicted)")
        seen = [name for name in _COLOURS if name in set(found["largest_loss"].dropna())]
        handles = [Patch(facecolor=_COLOURS[name], alpha=_PALE, label=f"largest loss: {name}") for name in seen]
        if not found["fits"].all():
            handles.append(Patch(facecolor="white", edgecolor="0.6", label="does not fit in a rank's memory"))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
    return figure


def isoefficiency(found: pd.DataFrame, efficiency: float) -> Figure:
    """The least global batch that keeps an efficiency over the world size, a line an operator speed; dashed, what a
    local batch that need not grow would give."""
    shown = found.dropna(subset="global_batch_size")
    if shown.empty:
        return message(f"No batch keeps an efficiency of {efficiency:g}")
    look_of = looks(f"operator x{speed:g}" for speed in found["operator_speed"].unique())
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 2.7), layout="constrained")
        axis = figure.subplots()
        for speed, rows in shown.groupby("operator_speed", sort=False):
            look = look_of[f"operator x{speed:g}"]
            size, batch = rows["world_size"].to_numpy(float), rows["global_batch_size"].to_numpy(float)
            axis.plot(size, batch, color=look.colour, marker=look.marker, label=f"operator x{speed:g}")
            axis.plot(size, batch[0] * size / size[0], "--", color=look.colour, linewidth=0.8, alpha=0.7)
        axis.plot([], [], "--", color="0.4", linewidth=0.8, label="the same local batch")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        sizes = sorted(shown["world_size"].unique())
        axis.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: _rows_text(value))
        axis.set_xlabel("world size (ranks)")
        axis.set_ylabel(f"least global batch for E = {efficiency:g}\n(predicted)")
        legend(figure, axis, columns=2)
    return figure


def _losses(axis: Axes, rows: pd.DataFrame) -> None:
    names = list(_COLOURS)
    codes = rows.assign(code=rows["largest_loss"].map(names.index, na_action="ignore").astype(float))
    batch, width, table = _table(codes, "code")
    colours = ListedColormap([_COLOURS[name] for name in names])
    axis.pcolormesh(
        batch, width, table, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5, alpha=_PALE, shading="nearest",
        rasterized=True,
    )  # fmt: skip
    _contours(axis, rows, LEVELS)
    log2_ticks(axis, batch, width)


def _throughput(axis: Axes, rows: pd.DataFrame, norm: LogNorm) -> QuadMesh:
    batch, width, table = _table(rows, "throughput")
    mesh = axis.pcolormesh(batch, width, table, cmap="viridis", norm=norm, shading="nearest", rasterized=True)
    _contours(axis, rows, (_BESIDE,), "white")
    log2_ticks(axis, batch, width)
    return mesh


def _contours(axis: Axes, rows: pd.DataFrame, levels: Sequence[float], colour: str = "0.15") -> None:
    batch, width, table = _table(rows, "efficiency")
    inside = [level for level in levels if np.nanmin(table) < level < np.nanmax(table)]
    if min(table.shape) > 1 and inside:
        lines = axis.contour(batch, width, table, levels=inside, colors=colour, linewidths=0.8)
        # each label in the middle of its line, where it is not cut by the panel's edge
        places = [max(segments, key=len) for segments in lines.allsegs]
        middles = [segment[len(segment) // 2] for segment in places]
        axis.clabel(lines, fmt=lambda level: f"{level:g}", fontsize=SMALL, manual=middles)


def _table(rows: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log2 of batches (b,) and widths (w,), and a column over them (w, b)."""
    table = rows.pivot(index="hidden_width", columns="global_batch_size", values=name)
    axes = [np.log2(labels.to_numpy(float)) for labels in (table.columns, table.index)]
    return axes[0], axes[1], table.to_numpy(float)


def log2_ticks(axis: Axes, batch: np.ndarray, width: np.ndarray) -> None:
    """Ticks of log2 of batches and widths, as the numbers themselves."""
    axis.grid(visible=False)
    for which, values, most in ((axis.xaxis, batch, 4), (axis.yaxis, width, 6)):
        whole = np.arange(np.ceil(values.min()), np.floor(values.max()) + 1)
        which.set_ticks(whole[:: -(-len(whole) // most)])
        which.set_major_formatter(lambda value, _: _rows_text(2**value))


def _rows_text(rows: float) -> str:
    """Rows in powers of two as text, as "32k"."""
    for power, name in ((20, "M"), (10, "k")):
        if rows >= 2**power:
            return f"{rows / 2**power:g}{name}"
    return f"{rows:g}"
