"""What is drawn on the axes of figures: estimates with intervals, rounds as dots, and ticks that can be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from kanstudy.analysis.plots.style import LETTERS_AN_INCH, WIDTH, Look, NotebookFigure, line_of

_LINE = 0.16
"""Inches of a line of a legend; panels have room for two of them."""
_SPREAD = 0.3
"""Doublings of the world size, between which nothing is measured, that the series of a figure share at each size."""


def title_source(figure: Figure, rows: pd.DataFrame) -> None:
    """Over the panels, where their labels do not say it: that this was not measured."""
    if others := sorted(set(rows["source"]) - {"measured"}):
        figure.suptitle(", ".join(others), fontsize=8, style="italic")


def plain_log_axis(axis: Axis, subs: tuple[float, ...]) -> None:
    """Ticks of a log axis that is drawn on, as plain numbers: powers of two, or some multiples of each power of ten, or
    even steps where there is less than a power of ten to see."""
    base, (low, high) = 2 if subs == (1.0,) else 10, axis.get_view_interval()
    narrow = base == 10 and high < 10 * low
    even = matplotlib.ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3)
    axis.set_major_locator(even if narrow else matplotlib.ticker.LogLocator(base=base, subs=subs))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: short_number(value)))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def short_number(value: float) -> str:
    """A tick's number, thousands and millions as k and M, so that neighbours do not touch."""
    for suffix, factor in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{suffix}"
    return f"{value:.4g}"


def curves(
    axis: Axes,
    estimates: pd.DataFrame,
    per_round: pd.DataFrame,
    column: str,
    look_of: dict[str, Look],
    apart: bool = False,
) -> None:
    """A line a series through its estimates, with intervals, and every round as a dot or a cross, on a log axis of
    world sizes. `apart` draws the series a little beside each other, where no sloping line is to be compared with."""
    drawn = [label for label in look_of if label in set(estimates["series"])]
    step = min(0.1, _SPREAD / max(1, len(drawn)))
    for series, rows in estimates.groupby("series", sort=False):
        rows = rows[np.isfinite(rows[column].astype(float))].sort_values("world_size")
        look = look_of[str(series)]
        place = drawn.index(str(series))
        beside = step * (place - (len(drawn) - 1) / 2) if apart else 0.0
        sizes = rows["world_size"].to_numpy(float) * 2**beside
        axis.plot(sizes, rows[column], line_of(rows), color=look.colour, zorder=3)
        for size, (_, row) in zip(sizes, rows.iterrows(), strict=True):
            estimate(axis, size, row, column, look)
        axis.plot([], [], line_of(rows), color=look.colour, marker=look.marker, label=str(series))
        if column in per_round:
            found = per_round[per_round["point_id"].isin(rows["point_id"])]
            to_the_right = beside if apart else step * place
            dots(axis, found["world_size"].to_numpy(float) * 2**to_the_right, found, column, look)


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
    x = x * 2 ** (0.06 + 0.05 * spread) if axis.get_xscale() == "log" else x + 0.12 + 0.1 * spread
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


def message_axis(axis: Axes, sizes: Iterable[float]) -> None:
    """A log2 axis of the sizes of messages, each with its unit; of many only every second or third has a tick."""
    ticks = sorted(set(sizes))
    ticks = ticks[:: -(-len(ticks) // 7)]
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [bytes_text(tick) for tick in ticks], rotation=45, ha="right", rotation_mode="anchor")
    axis.minorticks_off()
    axis.set_xlabel("message")


def efficiency_axis(axis: Axes) -> None:
    """An axis of efficiencies: from 0, with room above the dashed ideal of 1."""
    axis.axhline(1, linestyle="--", color="0.4", linewidth=0.9, zorder=1)
    axis.set_ylim(0, max(1.15, axis.get_ylim()[1]))


def panels(count: int, height: float = 2.7) -> tuple[Figure, Sequence[Axes]]:
    """A figure of the text's width with so many axes side by side; `height` in inches."""
    figure = NotebookFigure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(1, count)


def legend(
    figure: Figure,
    *axes: Axes,
    where: Literal["outside lower center", "outside lower left"] = "outside lower center",
    columns: int = 3,
) -> None:
    """One legend of the labels of several axes below the figure, in so many columns or as many as its width holds."""
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if found:
        fitting = [n for n in range(1, min(len(found), columns) + 1) if _letters(list(found), n) <= _room(figure)]
        columns = max(fitting, default=1)
        figure.legend(list(found.values()), list(found), loc=where, ncols=columns)
        figure.set_figheight(figure.get_figheight() + _LINE * max(0, -(-len(found) // columns) - 2))


def _letters(labels: Sequence[str], columns: int) -> int:
    """Of a legend's line, where every column is as wide as its longest label and what stands before that."""
    return sum(max(map(len, column)) + 9 for column in np.array_split(list(labels), columns))


def _room(figure: Figure) -> float:
    return LETTERS_AN_INCH * figure.get_size_inches()[0]


def has(frame: pd.DataFrame, column: str) -> bool:
    """Whether a frame has a number in a column, so that there is something to draw."""
    return column in frame and bool(np.isfinite(frame[column].astype(float)).any())


def bytes_text(size: float) -> str:
    """A message's size as text, as "16 KiB"."""
    for power, name in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 2**power:
            return f"{size / 2**power:g} {name}B"
    return f"{size:g} B"
