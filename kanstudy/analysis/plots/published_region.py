"""The figures of the region: which settings would come out as the published study did, and how that depends on each
assumed constant."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kanstudy.analysis.plots.axes import legend
from kanstudy.analysis.plots.isoefficiency import log2_ticks
from kanstudy.analysis.plots.style import MARKERS, PALETTE, SMALL, STYLE, WIDTH, NotebookFigure, message
from kanstudy.analysis.published import EFFICIENCY, WORLD_SIZE

_EFFICIENCY, _OVERHEAD, _BOTH, _ALL = PALETTE[0], PALETTE[1], PALETTE[4], PALETTE[2]
_COUNTED = {
    "both_agree": "efficiency and overhead's range agree",
    "consistent": "and the overhead is not monotonic: consistent",
}
_LEGEND = {
    f"efficiency at {WORLD_SIZE} ranks agrees": Patch(facecolor=_EFFICIENCY, alpha=0.35),
    "overhead in the range": Patch(facecolor=_OVERHEAD, alpha=0.35),
    "both": Patch(facecolor=_BOTH, alpha=0.6),
    "both, and overhead rises and falls: consistent": Patch(facecolor=_ALL),
}


def region(found: pd.DataFrame) -> Figure:
    """The settings over global batch and width, coloured by what agrees; the line is where the efficiency is the
    published one. A column an order in which overheads are compared, a row a scaling and bucket cap."""
    if not len(found) or not found["fits"].any():
        return message("No setting fits in a rank's memory")
    orders, lines = found["order"].unique(), list(found.groupby(["bucket_cap_mb", "scaling"], sort=False))
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 1.6 * len(lines) + 0.8), layout="constrained")
        axes = figure.subplots(len(lines), len(orders), squeeze=False, sharex=True, sharey=True)
        for line, ((cap, scaling), rows) in zip(axes, lines, strict=True):
            for axis, order in zip(line, orders, strict=True):
                _panel(axis, rows[rows["order"] == order])
            line[0].set_ylabel(f"{scaling} scaling,\nbucket cap {cap:g} MiB\n\nhidden width", fontsize=SMALL)
        for axis, order in zip(axes[0], orders, strict=True):
            axis.set_title(f"overheads over ranks\n{order}")
        for axis in axes[-1]:
            axis.set_xlabel("global batch (rows)")
        handles = [Line2D([], [], color="0.15", linewidth=0.9), *_LEGEND.values()]
        labels = [f"E = {EFFICIENCY.low:g} (predicted)", *_LEGEND]
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def sensitivity(found: pd.DataFrame) -> Figure:
    """How many settings agree where one constant is changed, a line a constant; dashed: as assumed. Left in efficiency
    and overhead's range, right also in that the overhead is not monotonic."""
    base, changed = found[found["constant"] == "none"], found[found["constant"] != "none"]
    if changed.empty:
        return message("No constant was changed")
    names = list(changed["constant"].unique())[::-1]
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 0.27 * len(names) + 1.2), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for axis, (column, title) in zip(axes, _COUNTED.items(), strict=True):
            for place, (time, rows) in enumerate(changed.groupby("times")):
                heights = [names.index(name) + 0.3 * place - 0.15 for name in rows["constant"]]
                marker, colour = MARKERS[place % len(MARKERS)], PALETTE[place % len(PALETTE)]
                axis.plot(rows[column], heights, linestyle="none", marker=marker, color=colour, label=f"x{time:g}")
            axis.axvline(base[column].iloc[0], linestyle="--", color="0.4", linewidth=0.9)
            axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
            axis.set_xlim(left=-0.02 * axis.get_xlim()[1])
            axis.set_title(title)
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axis.set_xlabel(f"of {base['settings'].iloc[0]} settings (predicted)")
        legend(figure, axes[0])
    return figure


def _panel(axis: Axes, rows: pd.DataFrame) -> None:
    efficiency, overhead, consistent = (
        _table(rows, name) for name in ("efficiency_agrees", "overhead_agrees", "consistent")
    )
    batch = np.log2(efficiency.columns.to_numpy(float))
    width = np.log2(efficiency.index.to_numpy(float))
    colours = np.zeros((*efficiency.shape, 4))
    for table, colour, alpha in (
        (overhead, _OVERHEAD, 0.35),
        (efficiency, _EFFICIENCY, 0.35),
        (efficiency & overhead, _BOTH, 0.6),
        (consistent, _ALL, 1.0),
    ):
        colours[table.to_numpy(bool)] = (*colour, alpha)
    axis.pcolormesh(batch, width, colours, shading="nearest", rasterized=True)
    value = rows.pivot(index="hidden_width", columns="global_batch_size", values="efficiency").to_numpy(float)
    if min(value.shape) > 1 and value.min() < EFFICIENCY.low < value.max():
        axis.contour(batch, width, value, levels=[EFFICIENCY.low], colors="0.15", linewidths=0.9)
    log2_ticks(axis, batch, width)


def _table(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    return rows.pivot(index="hidden_width", columns="global_batch_size", values=name).astype(bool)
