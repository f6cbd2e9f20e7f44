"""How figures look: sizes, fonts, colours and markers, the same in every figure, and the pictures made of them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

WIDTH, COLUMN = 7.0, 3.4  # inches: a page's text and one of its columns
SMALL = 7
"""Points of the smallest text: figures are printed at their own size."""
LETTERS_AN_INCH = 19
"""Of the smallest text, about."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
PALETTE: list[Any] = list(seaborn.color_palette("colorblind"))

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 5,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # text stays text
    "text.parse_math": False,  # also where a name of somebody's has dollars in it
    "savefig.dpi": 200,
}

_KANS = (0, 4, 9, 5, 6, 7, 3, 8, 2, 1)
"""Places in the palette that the series of KANs take one after the other; MLPs take them from the other end."""

LINES = {"measured": "-", "emulated": "-.", "simulated": ":", "predicted": ":"}
"""How the line of a source is drawn; no line joins two."""


class Look(NamedTuple):
    """Colour and marker of one label, and its place among the labels of its figure."""

    colour: Any
    marker: str
    place: int


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label of a figure, in the order of their first appearance."""
    return {label: _look(place, place) for place, label in enumerate(dict.fromkeys(labels))}


def series_looks(series: Iterable[str], models: Iterable[str]) -> dict[str, Look]:
    """A look for each series, by the model that it trains: a KAN looks the same with and without MLPs beside it."""
    found: dict[str, Look] = {}
    left = list(_KANS)
    for label, model in dict(zip(series, models, strict=True)).items():
        if not left:
            left = list(_KANS)
        found[label] = _look(left.pop(-1 if model == "mlp" else 0), len(found))
    return found


def _look(which: int, place: int) -> Look:
    return Look(PALETTE[which % len(PALETTE)], MARKERS[which % len(MARKERS)], place)


def line_of(rows: pd.DataFrame) -> str:
    """The line of these rows' one source; without a source they are somebody else's measurements."""
    return LINES[rows["source"].iloc[0]] if "source" in rows and len(rows) else "-"


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself and sharply, whatever its plotting backend."""

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """The picture at 200 dpi, the size in CSS pixels to show it at, and what it shows for who cannot see it."""
        width, height = self.get_size_inches()
        return png(self), {"width": round(100 * width), "height": round(100 * height), "alt": in_words(self)}


def in_words(figure: Figure) -> str:
    """What the panels of a figure show over what, and what its legends name; of a message, its text."""
    shown = [axis for axis in figure.axes if axis.get_visible() and axis.axison]
    across, up = figure.get_supxlabel(), figure.get_supylabel()
    panels = []
    for axis in shown:
        over = [text for text in (axis.get_ylabel() or up, axis.get_xlabel() or across) if text]
        panels.append(": ".join(filter(None, (axis.get_title() or axis.get_title(loc="left"), " over ".join(over)))))
    named = [text.get_text() for item in figure.legends for text in item.get_texts()]
    said = [*filter(None, dict.fromkeys(panels)), *([f"Legend: {', '.join(named)}"] if named else [])]
    return " ".join(". ".join(said or [text.get_text() for text in figure.texts]).split())


def png(figure: Figure, description: str = "") -> bytes:
    """The figure as a PNG of 200 dpi with its description inside.

    Of 256 colours, chosen from its own: a third of the bytes, and on a page the same picture.
    """
    with matplotlib.rc_context(STYLE):
        drawn, written = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png")
    with Image.open(drawn) as picture:
        told = PngInfo()
        if description:
            told.add_itxt("Description", description)
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(written, "png", optimize=True, pnginfo=told, dpi=picture.info["dpi"])
    return written.getvalue()


def message(text: str) -> Figure:
    """A figure that says why there is none."""
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 1.0))
        figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True, color="0.3")
    return figure
