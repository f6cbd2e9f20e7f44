from __future__ import annotations

import frames
import numpy as np
import pandas as pd
from seen import legend_texts, texts

from kanstudy.analysis.plots.beside_published import beside_published
from kanstudy.analysis.published import beside_caption

MEASURED = frames.curve((1, 2)).assign(profile="laptop")
SIMULATED = frames.curve((1, 2, 4, 8)).assign(profile="big", source="simulated", series="KAN, simulated")


def test_each_source_has_a_line_of_its_own_and_the_published_point_has_none() -> None:
    figure = beside_published(pd.concat([MEASURED, SIMULATED], ignore_index=True))
    assert legend_texts(figure) == [
        "measured, laptop: KAN 32-64-64-1, grid 5, set 0",
        "simulated, big: KAN",
        "published: 8 A100, 74.7 %",
    ]
    (axis,) = figure.axes
    joined = [line for line in axis.lines if len(line.get_xdata()) in (2, 4) and line.get_marker() == "None"]
    lines = [line for line in joined if line.get_color() != "0.4" and line.get_zorder() == 3]
    doublings = [list(np.round(np.log2(line.get_xdata()))) for line in lines]  # a little beside each other
    assert doublings == [[0, 1], [0, 1, 2, 3]]
    assert [line.get_linestyle() for line in lines] == ["-", ":"]
    (star,) = (line for line in axis.lines if line.get_marker() == "*")
    assert (list(star.get_xdata()), list(star.get_ydata()), star.get_linestyle()) == ([8], [0.747], "None")


def test_without_an_efficiency_it_says_so() -> None:
    assert "No efficiency" in texts(beside_published(MEASURED.iloc[:0]))


def test_the_caption_tells_what_the_simulation_rests_on() -> None:
    both, alone = beside_caption(pd.concat([MEASURED, SIMULATED])), beside_caption(MEASURED)
    assert "Measured: profile laptop. Simulated: profile big." in both
    assert "assumed constants" in both
    assert "imulat" not in alone
    assert "are not stated there" in alone
