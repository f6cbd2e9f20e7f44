"""Figures as files: PDF and PNG, with the caption beside them."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import STYLE
from kanstudy.files import write_atomically

_WITHOUT_TIME = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
"""Metadata with which the same figure gives the same bytes."""


def save_figure(figure: Figure, figures_dir: Path | str, name: str, caption: str) -> list[Path]:
    """Write `name.pdf` (vector), `name.png` (200 dpi) and `name.txt`, the caption; their paths. The same figure gives
    the same bytes."""
    paths = []
    for kind, metadata in _WITHOUT_TIME.items():
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(buffer, format=kind, metadata=metadata, bbox_inches="tight")
        paths.append(Path(figures_dir) / f"{name}.{kind}")
        write_atomically(paths[-1], buffer.getvalue())
    paths.append(Path(figures_dir) / f"{name}.txt")
    write_atomically(paths[-1], f"{caption}\n")
    return paths
