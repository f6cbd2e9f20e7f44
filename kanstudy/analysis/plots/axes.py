"""How figures look, and what is drawn on their axes: estimates with intervals, rounds as dots."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

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

STYLE: dict[Any, Any] = {
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
    "text.parse_math": False,  # also where a name of somebody's has dollars in it
    "savefig.dpi": 200,
}


class Look(NamedTuple):
    """Colour and marker of one label, and its place among the labels of its figure."""

    colour: Any
    marker: str
    place: int


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label of a figure, in the order of their first appearance."""
    return {
        label: Look(PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)], place)
        for place, label in enumerate(dict.fromkeys(labels))
    }


LINES = {"measured": "-", "emulated": "-.", "simulated": ":", "predicted": ":"}
"""How the line of a source is drawn; no line joins two."""


def line_of(rows: pd.DataFrame) -> str:
    """The line of these rows' one source; without a source they are somebody else's measurements."""
    return LINES[rows["source"].iloc[0]] if "source" in rows and len(rows) else "-"


def title_source(figure: Figure, rows: pd.DataFrame) -> None:
    """Over the panels, where their labels do not say it: that this was not measured."""
    if others := sorted(set(rows["source"]) - {"measured"}):
        figure.suptitle(", ".join(others), fontsize=8, style="italic")


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself and sharply, whatever its plotting backend."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture at 200 dpi and the size, in CSS pixels, to show it at."""
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(buffer, format="png", metadata={"Software": None})
        width, height = self.get_size_inches()
        return buffer.getvalue(), {"width": round(100 * width), "height": round(100 * height)}


def plain_log_axis(axis: Axis, subs: tuple[float, ...]) -> None:
    """Ticks of a log axis that is drawn on, as plain numbers: powers of two, or some multiples of each power of ten, or
    even steps where there is less than a power of ten to see."""
    base, (low, high) = 2 if subs == (1.0,) else 10, axis.get_view_interval()
    narrow = base == 10 and high < 10 * low
    locator = matplotlib.ticker.MaxNLocator(4) if narrow else matplotlib.ticker.LogLocator(base=base, subs=subs)
    axis.set_major_locator(locator)
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: _short_number(value)))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def _short_number(value: float) -> str:
    """A tick's number, thousands and millions as k and M, so that neighbours do not touch."""
    for suffix, factor in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{suffix}"
    return f"{value:.4g}"


def curves(axis: Axes, estimates: pd.DataFrame, per_round: pd.DataFrame, column: str, look_of: dict[str, Look]) -> None:
    """A line a series through its estimates, with intervals, and every round as a dot or a cross."""
    for series, rows in estimates.groupby("series", sort=False):
        rows = rows[np.isfinite(rows[column].astype(float))].sort_values("world_size")
        look = look_of[str(series)]
        axis.plot(rows["world_size"], rows[column], line_of(rows), color=look.colour, zorder=3)
        for _, row in rows.iterrows():
            estimate(axis, row["world_size"], row, column, look)
        axis.plot([], [], line_of(rows), color=look.colour, marker=look.marker, label=str(series))
        if column in per_round:
            found = per_round[per_round["point_id"].isin(rows["point_id"])]
            dots(axis, found["world_size"].to_numpy(float), found, column, look)


def estimate(axis: Axes, x: float, row: pd.Series, column: str, look: Look, scale: float = 1.0) -> None:
    """One estimate with its interval, hollow where more ranks ran than the machine has cores."""
    value, low, high = (row.get(name, np.nan) for name in (column, f"{column}_low", f"{column}_high"))
    if not np.isfinite(value):
        return
    face = "white" if row.get("oversubscribed", False) else look.colour
    axis.plot([x], [value * scale], marker=look.marker, color=look.colour, markerfacecolor=face, zorder=4)
    if np.isfinite(low) and np.isfinite(high):
        axis.plot([x, x], [low * scale, high * scale], color=look.colour, linewidth=2.2, alpha=0.6, zorder=4)


def dots(axis: Axes, x: np.ndarray, per_round: pd.DataFrame, column: str, look: Look, scale: float = 1.0) -> None:
    """Rounds as faint dots, disturbed ones as faint crosses, spread a little to the right of their estimate; the places
    are fixed, so figures are too."""
    spread = np.linspace(0, 1, len(x))
    x = x * (1.05 + 0.03 * look.place + 0.04 * spread) if axis.get_xscale() == "log" else x + 0.12 + 0.1 * spread
    y, disturbed = scale * per_round[column].to_numpy(float), per_round["disturbed"].to_numpy(bool)
    axis.plot(
        x[~disturbed], y[~disturbed], ".", color=look.colour, markersize=3, alpha=0.35, markeredgewidth=0, zorder=2
    )
    axis.plot(
        x[disturbed], y[disturbed], "x", color=look.colour, markersize=3, alpha=0.5, markeredgewidth=0.6, zorder=2
    )


def world_axis(axis: Axes, estimates: pd.DataFrame) -> np.ndarray:
    """A log2 axis of world sizes with whole ticks and half a step of room; the sizes."""
    sizes = np.array(sorted(estimates["world_size"].unique()), dtype=float)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    axis.minorticks_off()
    axis.set_xlim(sizes[0] / 2**0.5, sizes[-1] * 2**0.5)
    axis.set_xlabel("world size (ranks)")
    return sizes


def efficiency_axis(axis: Axes) -> None:
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    axis.set_ylim(0, max(1.15, axis.get_ylim()[1]))


def panels(count: int, height: float = 2.7) -> tuple[Figure, Sequence[Axes]]:
    figure = NotebookFigure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(1, count)


def legend(
    figure: Figure,
    *axes: Axes,
    where: Literal["outside lower center", "outside lower left"] = "outside lower center",
    columns: int = 3,
) -> None:
    """One legend of the labels of several axes below the figure."""
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if found:
        figure.legend(list(found.values()), list(found), loc=where, ncols=min(len(found), columns))


def has(frame: pd.DataFrame, column: str) -> bool:
    return column in frame and bool(np.isfinite(frame[column].astype(float)).any())


def message(text: str) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 1.0))
        figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True, color="0.3")
    return figure


def bytes_text(size: float) -> str:
    """A message's size as text, as "16 KiB"."""
    for power, name in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 2**power:
            return f"{size / 2**power:g} {name}B"
    return f"{size:g} B"
