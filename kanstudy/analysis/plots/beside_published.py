"""The figure of parallel efficiency beside the published one, each source a line of its own."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import curves, efficiency_axis, legend, world_axis
from kanstudy.analysis.plots.style import STYLE, WIDTH, NotebookFigure, message, series_looks
from kanstudy.analysis.published import DEVICE, EFFICIENCY, WORLD_SIZE


def beside_published(strong: pd.DataFrame) -> Figure:
    """Parallel efficiency of strong scaling over the world size, a line a series, and the published point.

    Takes the frame of `kanstudy.analysis.estimates.strong`, of one result or of several put together.
    """
    rows = strong[np.isfinite(strong["efficiency"].astype(float))] if len(strong) else strong
    if not len(rows):
        return message("No efficiency to stand beside the published one")
    told = rows[["source", "profile", "series"]].itertuples(index=False)  # the source first, in every label
    rows = rows.assign(series=[f"{source}, {of}: {series.replace(f', {source}', '')}" for source, of, series in told])
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(0.75 * WIDTH, 3.4), layout="constrained")
        axis = figure.subplots()
        world_axis(axis, pd.DataFrame({"world_size": [*rows["world_size"], WORLD_SIZE]}))
        look_of = series_looks(rows["series"], rows["model"])
        curves(axis, rows, pd.DataFrame(), "efficiency", look_of, apart=True)
        text = f"published: {WORLD_SIZE} {DEVICE}, {EFFICIENCY.text}"
        star = axis.plot([WORLD_SIZE], [float(EFFICIENCY.low or np.nan)], "*", color="0.1", label=text, zorder=5)[0]
        star.set(markersize=12, markerfacecolor="none")
        efficiency_axis(axis)
        axis.set_ylabel("parallel efficiency, strong scaling")
        legend(figure, axis, columns=1)
    return figure
