"""What can be read in a figure."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def texts(figure: Figure) -> str:
    return " ".join(item.get_text() for item in figure.findobj(Text))


def legend_texts(figure: Figure) -> list[str]:
    return [item.get_text() for legend in figure.legends for item in legend.get_texts()]


def colours(axis: Axes) -> dict[str, object]:
    return {str(line.get_label()): line.get_color() for line in axis.lines if not str(line.get_label()).startswith("_")}
