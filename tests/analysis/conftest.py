"""What the tests of the analysis share: `fabricate` and `frames` beside this file, which puts them on the path; and
that every figure that a test makes can be read at its own size on a page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from kanstudy.analysis.plots.style import SMALL, WIDTH, NotebookFigure


@pytest.fixture(autouse=True)
def figures_are_readable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[Figure] = []
    create = NotebookFigure.__init__

    def remember(figure: NotebookFigure, *args: object, **settings: object) -> None:
        create(figure, *args, **settings)
        made.append(figure)

    monkeypatch.setattr(NotebookFigure, "__init__", remember)
    yield
    for figure in made:
        _check(figure, monkeypatch)


def _check(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert figure.get_size_inches()[0] <= WIDTH, "wider than a page's text"
    for axis in figure.axes:
        content = (*axis.lines, *axis.collections, *axis.patches, *axis.images, *axis.texts)
        assert content or not axis.get_visible() or not axis.axison, "an empty panel"
    upright = []
    for text, box in _drawn(figure, monkeypatch):
        assert text.get_fontsize() >= SMALL, f"{text.get_text()!r} is too small to read"
        inside = box.x0 > -1 and box.y0 > -1 and box.x1 < figure.bbox.x1 + 1 and box.y1 < figure.bbox.y1 + 1
        assert inside, f"{text.get_text()!r} is cut by the figure's edge"
        if text.get_rotation() % 90 == 0:  # the boxes of slanted texts overlap where the texts do not
            upright.append((text.get_text(), box.padded(-1)))
    for (one, box), (other, of_other) in itertools.combinations(upright, 2):
        assert not box.overlaps(of_other), f"{one!r} and {other!r} overlap"


def _drawn(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Text, Bbox]]:
    """What there is to read, and where: not the ticks beyond an axis's limits, nor what is in a hidden panel."""
    found = {}
    draw = Text.draw

    def record(text: Text, renderer: RendererBase, *args: object) -> None:
        if text.get_visible() and text.get_text().strip():
            found[text] = text.get_window_extent(renderer)
        draw(text, renderer, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Text, "draw", record)
        figure.draw_without_rendering()
    return list(found.items())
