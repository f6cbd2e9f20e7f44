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

from kanstudy.analysis.plots.axes import COLUMN, PALETTE, STYLE, WIDTH, NotebookFigure, message
from kanstudy.analysis.plots.isoefficiency import log2_ticks
from kanstudy.analysis.published import EFFICIENCY, WORLD_SIZE

_EFFICIENCY, _OVERHEAD, _BOTH, _ALL = PALETTE[0], PALETTE[1], PALETTE[4], PALETTE[2]
_LEGEND = {
    f"efficiency at {WORLD_SIZE} ranks agrees": Patch(facecolor=_EFFICIENCY, alpha=0.35),
    "overhead in the range": Patch(facecolor=_OVERHEAD, alpha=0.35),
    "both": Patch(facecolor=_BOTH, alpha=0.6),
    "both, and overhead rises and falls: consistent": Patch(facecolor=_ALL),
}


def region(found: pd.DataFrame) -> Figure:
    """The settings over global batch and hidden width: a panel for each bucket cap and way to compare overheads (and
    placement, where there are several), coloured by what agrees; the line is where the efficiency is the published one.
    """
    if not len(found) or not found["fits"].any():
        return message("No setting fits in a rank's memory")
    shown = [found[name].unique() for name in ("overhead_scaling", "placement", "bucket_cap_mb")]
    lines = [(scaling, placement) for scaling in shown[0] for placement in shown[1]]
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 1.9 * len(lines) + 0.8), layout="constrained")
        axes = figure.subplots(len(lines), len(shown[2]), squeeze=False, sharex=True, sharey=True)
        for row, (scaling, placement) in zip(axes, lines, strict=True):
            for axis, cap in zip(row, shown[2], strict=True):
                here = (found["overhead_scaling"] == scaling) & (found["placement"] == placement)
                _panel(axis, found[here & (found["bucket_cap_mb"] == cap)])
                laid = f", {placement}" if len(shown[1]) > 1 else ""
                axis.set_title(f"bucket cap {cap:g} MiB{laid},\noverhead by {scaling} scaling")
            row[0].set_ylabel("hidden width")
        for axis in axes[-1]:
            axis.set_xlabel("global batch (rows)")
        line = Line2D([], [], color="0.15", linewidth=0.9)
        handles, labels = [line, *_LEGEND.values()], [f"E = {EFFICIENCY.low:g} (predicted)", *_LEGEND]
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def sensitivity(found: pd.DataFrame) -> Figure:
    """How many settings are consistent where one constant is changed, a line a constant; dashed: as assumed."""
    if not len(found):
        return message("No constant was changed")
    base = found[found["constant"] == "none"]
    changed = found[found["constant"] != "none"]
    names = list(changed["constant"].unique())[::-1]
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN * 1.3, 0.22 * len(names) + 1.1), layout="constrained")
        axis = figure.subplots()
        for place, time in enumerate(changed["times"].unique()):
            rows = changed[changed["times"] == time]
            heights = [names.index(name) for name in rows["constant"]]
            share = 100 * rows["consistent"] / rows["settings"]
            marker, colour = ("v", "^")[place % 2], PALETTE[place]
            axis.plot(share, heights, linestyle="none", marker=marker, color=colour, label=f"constant x{time:g}")
        axis.axvline(100 * (base["consistent"] / base["settings"]).iloc[0], linestyle="--", color="0.4", linewidth=0.9)
        axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axis.set_xlim(left=0)
        axis.set_xlabel("settings consistent (% of all, predicted)")
        figure.legend(loc="outside lower center", ncols=2)
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
