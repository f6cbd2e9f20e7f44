"""The same thing looks the same in every figure, and a picture is what was drawn."""

from __future__ import annotations

import io
from pathlib import Path

import frames
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from kanstudy.analysis.plots.save import picture, save_figure
from kanstudy.analysis.plots.scaling import overview, strong_scaling, weak_scaling
from kanstudy.analysis.plots.style import MARKERS, png, series_looks

NOTHING = pd.DataFrame()


def test_a_series_looks_the_same_with_and_without_controls_beside_it() -> None:
    alone = series_looks(["KAN a", "KAN b"], ["kan", "kan"])
    beside = series_looks(["KAN a", "MLP 1", "MLP 2", "KAN b"], ["kan", "mlp", "mlp", "kan"])
    assert [beside[name][:2] for name in alone] == [look[:2] for look in alone.values()]
    few = series_looks(["KAN a", "MLP 1", "MLP 2"], ["kan", "mlp", "mlp"])
    assert [few[name][:2] for name in few] == [beside[name][:2] for name in few]


def test_as_many_series_as_there_are_looks_differ_and_more_can_be_drawn() -> None:
    for models in (["kan"] * 10, ["mlp"] * 10, ["kan", "mlp"] * 5):
        found = series_looks(map(str, range(10)), models)
        assert len({look.colour for look in found.values()}) == len({look.marker for look in found.values()}) == 10
    assert len(series_looks(map(str, range(25)), ["kan"] * 25)) == 25
    assert len(set(MARKERS)) == len(MARKERS)


def test_the_rows_of_one_series_need_not_follow_each_other() -> None:
    found = series_looks(["a", "b", "a"], ["kan", "mlp", "kan"])
    assert [look.place for look in found.values()] == [0, 1]


def drawn(figure: Figure, label: str) -> set[tuple[str, str]]:
    """Colour and marker of a series in each panel whose legend would name it."""
    lines = [line for axis in figure.axes for line in axis.lines if line.get_label() == label]
    return {(str(line.get_color()), str(line.get_marker())) for line in lines}


def test_a_series_is_drawn_alike_in_all_figures_of_a_study() -> None:
    strong = frames.curve((1, 2), n_series=3)
    strong["model"] = strong["series"].map(lambda name: "mlp" if name.endswith("1") else "kan")
    kans = strong[strong["model"] == "kan"]
    figures = strong_scaling(strong, NOTHING), weak_scaling(kans, NOTHING), overview(kans, kans, NOTHING, NOTHING)
    for name in kans["series"].unique():
        assert len(set().union(*(drawn(figure, name) for figure in figures))) == 1


def test_a_png_is_the_figure_in_fewer_bytes() -> None:
    figure = strong_scaling(frames.curve((1, 2, 4), n_series=4), frames.rounds(frames.curve((1, 2, 4), n_series=4)))
    plain = io.BytesIO()
    figure.savefig(plain, format="png", dpi=200)
    with Image.open(plain) as true, Image.open(io.BytesIO(png(figure))) as small:
        assert small.size == tuple(np.round(200 * figure.get_size_inches()).astype(int))
        assert round(small.info["dpi"][0]) == 200
        off = np.abs(np.asarray(true.convert("RGB"), float) - np.asarray(small.convert("RGB"), float))
    assert off.mean() < 0.2, "of 255"
    assert off.max() < 64
    assert len(png(figure)) < len(plain.getvalue()) / 2


def test_files_hold_their_caption_and_have_the_size_of_the_figure(tmp_path: Path) -> None:
    figure = strong_scaling(frames.curve((1, 2)), NOTHING)
    pdf, picture_file, text = save_figure(figure, tmp_path, "strong", "Source: measured; αβ, 12 rounds.")
    assert text.read_text(encoding="utf-8") == "Source: measured; αβ, 12 rounds.\n"
    with Image.open(picture_file) as shown:
        assert shown.info["Description"] == "Source: measured; αβ, 12 rounds."
        assert shown.size[0] == 1400
    assert b"/Subject" in pdf.read_bytes()
    assert b"/MediaBox [ 0 0 504 " in pdf.read_bytes(), "7 inches of 72 points"


def test_a_picture_says_what_it_shows() -> None:
    shown = picture(strong_scaling(frames.curve((1, 2)), NOTHING), 'the "speed-up" < 2')
    assert 'alt="the &quot;speed-up&quot; &lt; 2. speed-up over one rank over world size' in shown
    assert 'width="700"' in shown


def test_who_cannot_see_a_figure_is_told_what_it_shows() -> None:
    figure = overview(frames.curve((1, 2)), frames.curve((1, 2)), NOTHING, NOTHING)
    _, shown = figure._repr_png_()
    assert shown["width"] == 700
    assert "strong scaling: parallel efficiency over world size (ranks)" in shown["alt"]
    assert "Legend: KAN 32-64-64-1, grid 5, set 0" in shown["alt"]
    nothing = overview(NOTHING, NOTHING, NOTHING, NOTHING)
    assert nothing._repr_png_()[1]["alt"] == "No strong-scaling point is measured"


def test_a_legend_has_as_many_columns_as_the_figure_is_wide() -> None:
    long = frames.curve((1, 2), n_series=7)
    long["series"] = "B: " + long["series"] + ", simulated, batch 2048, placement packed"
    assert strong_scaling(long, NOTHING).legends[0]._ncols == 1
    assert strong_scaling(frames.curve((1, 2), n_series=7), NOTHING).legends[0]._ncols == 3
