"""Figures as files: PDF and PNG, with the caption beside them and in them."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from kanstudy.analysis.plots.style import STYLE, in_words, png
from kanstudy.files import write_atomically


def picture(figure: Figure, alt: str) -> str:
    """The figure as an HTML image that holds its own data; `alt` says what it is of, the figure what it shows."""
    data = base64.b64encode(png(figure)).decode()
    width = round(100 * figure.get_size_inches()[0])  # CSS pixels, of which the picture has two each
    said = html.escape(f"{alt}. {in_words(figure)}")
    return f'<img src="data:image/png;base64,{data}" width="{width}" alt="{said}">'


def save_figure(figure: Figure, figures_dir: Path | str, name: str, caption: str) -> list[Path]:
    """Write `name.pdf` (vector), `name.png` (200 dpi) and `name.txt`, the caption, which is the subject of the PDF and
    the description of the PNG, too; their paths. The same figure gives the same bytes."""
    contents: dict[str, str | bytes] = {
        "pdf": _pdf(figure, name, caption),
        "png": png(figure, caption),
        "txt": f"{caption}\n",
    }
    files = {Path(figures_dir) / f"{name}.{kind}": content for kind, content in contents.items()}
    for path, content in files.items():
        write_atomically(path, content)
    return list(files)


def _pdf(figure: Figure, title: str, subject: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Title": title, "Subject": subject, "CreationDate": None}  # the time would make the bytes differ
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="pdf", metadata=metadata)
    return buffer.getvalue()
