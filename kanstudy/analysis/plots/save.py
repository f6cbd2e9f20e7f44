"""Figures as files: PDF and PNG, with the caption beside them."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import STYLE
from kanstudy.files import write_atomically

_WITHOUT_TIME = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
"""Metadata with which the same figure gives the same bytes."""


def picture(figure: Figure, alt: str) -> str:
    """The figure as an HTML image that holds its own data; `alt` says what it shows."""
    data = base64.b64encode(_bytes(figure, "png")).decode()
    width = round(100 * figure.get_size_inches()[0])  # CSS pixels, of which the picture has two each
    return f'<img src="data:image/png;base64,{data}" width="{width}" alt="{html.escape(alt)}">'


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=_WITHOUT_TIME[kind], bbox_inches="tight")
    return buffer.getvalue()


def save_figure(figure: Figure, figures_dir: Path | str, name: str, caption: str) -> list[Path]:
    """Write `name.pdf` (vector), `name.png` (200 dpi) and `name.txt`, the caption; their paths. The same figure gives
    the same bytes."""
    paths = []
    for kind in _WITHOUT_TIME:
        paths.append(Path(figures_dir) / f"{name}.{kind}")
        write_atomically(paths[-1], _bytes(figure, kind))
    paths.append(Path(figures_dir) / f"{name}.txt")
    write_atomically(paths[-1], f"{caption}\n")
    return paths
