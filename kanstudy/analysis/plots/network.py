"""Figures of a network: which algorithm and protocol serves which message where, and how long it takes."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kanstudy.analysis.network import nccl
from kanstudy.analysis.plots.axes import bytes_text, panels, plain_log_axis
from kanstudy.analysis.plots.style import PALETTE, SMALL, STYLE, looks, message
from kanstudy.network_words import ALGORITHMS, NCCL_PROTOCOLS

_ORDER = [f"{algorithm} {protocol}" for algorithm in nccl.ALGORITHMS for protocol in NCCL_PROTOCOLS]
_ORDER += [name for name in ALGORITHMS if name != "nccl"]
"""Each choice's place in the palette, so that it has the same colour in every figure."""


def choices(table: pd.DataFrame) -> Figure:
    """What serves each size of message (rows) on each layout (columns), by `network.choices.choices`: left by colour,
    with the predicted time; right the time relative to that of the first layout, which the choices explain."""
    if table.empty:
        return message("Nothing to choose: no message, or no layout of two ranks")
    layouts, sizes = list(dict.fromkeys(table["layout"])), sorted(table["message_bytes"].unique())
    colours = {
        choice: PALETTE[_ORDER.index(choice) % len(PALETTE)] for choice in _ORDER if choice in set(table["choice"])
    }
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2, height=max(2.6, 0.24 * len(sizes) + 1.3))
        for _, row in table.iterrows():
            x, y = layouts.index(row["layout"]), sizes.index(row["message_bytes"])
            left.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colours[row["choice"]], alpha=0.45, linewidth=0))
            left.text(x, y, _milliseconds(row["time_s"]), ha="center", va="center", fontsize=SMALL)
        left.set_xlim(-0.5, len(layouts) - 0.5)
        left.set_ylim(-0.5, len(sizes) - 0.5)
        left.set_yticks(range(len(sizes)), [bytes_text(size) for size in sizes])
        left.set_ylabel("message")
        left.set_title(f"time (ms) and choice, predicted: {table['network'].iloc[0]}, {table['basis'].iloc[0]}")
        left.grid(visible=False)
        few = sizes if len(sizes) <= 5 else [sizes[int(i)] for i in np.linspace(0, len(sizes) - 1, 5)]
        for label, look in looks(bytes_text(size) for size in few).items():
            rows = table[table["message_bytes"] == few[look.place]].set_index("layout")["time_s"].reindex(layouts)
            right.plot(range(len(layouts)), rows / rows.iloc[0], color=look.colour, marker=look.marker, label=label)
        right.set_yscale("log")
        plain_log_axis(right.yaxis, (1.0, 2.0, 5.0))
        right.set_ylabel(f"time over that on {layouts[0]}, predicted")
        for axis in (left, right):
            axis.set_xticks(range(len(layouts)), layouts)
            axis.set_xlabel("nodes x ranks a node")
        handles = [Patch(color=colour, alpha=0.45, label=choice) for choice, colour in colours.items()]
        figure.legend(handles=handles, title="choice", loc="outside lower left", ncols=3)
        figure.legend(*right.get_legend_handles_labels(), title="message", loc="outside lower right", ncols=3)
    return figure


def _milliseconds(time_s: float) -> str:
    return f"{1e3 * time_s:.2g}" if time_s < 0.1 else f"{1e3 * time_s:.0f}"
