from __future__ import annotations

import frames
import numpy as np
import pandas as pd
import pytest
from seen import legend_texts, texts

from kanstudy.analysis.plots.waterfall import waterfall


def test_waterfall_draws_a_gain_upwards_and_ends_at_the_product() -> None:
    values = (1.25, 0.99, 0.93, 0.98, 0.97, 0.9)
    (axis,) = waterfall(frames.chain(values)).axes
    bars = axis.patches
    assert bars[0].get_height() == pytest.approx(0.25)
    assert all(bar.get_height() < 0 for bar in bars[1:6])
    assert bars[6].get_height() == pytest.approx(np.prod(values))
    assert bars[6].get_y() == 0
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    assert axis.get_ylim()[0] == 0
    assert "1.250" in texts(axis.figure)


def test_a_waterfall_a_series_and_world_size() -> None:
    chains = [frames.chain((0.9,) * 6, size, series) for series in ("a", "b") for size in (2, 4)]
    figure = waterfall(pd.concat(chains))
    assert {axis.get_title() for axis in figure.axes} == {"a, 2 ranks", "a, 4 ranks", "b, 2 ranks", "b, 4 ranks"}


def test_what_does_not_shrink_is_hatched_in_the_bar_of_the_batch() -> None:
    chain = frames.chain((0.8, 0.99, 0.93, 0.98, 0.97, 0.9)).assign(fixed=[0.9, *[np.nan] * 6])
    figure = waterfall(chain)
    (hatched,) = [bar for bar in figure.axes[0].patches if bar.get_hatch()]
    assert hatched.get_height() == pytest.approx(-0.1)
    assert hatched.get_y() == 1
    assert "does not shrink with the batch" in legend_texts(figure)
    gain = waterfall(chain.assign(fixed=[1.1, *[np.nan] * 6]))
    assert not any(bar.get_hatch() for bar in gain.axes[0].patches)


def test_nothing_of_a_waterfall_is_cut_and_each_factor_has_its_interval() -> None:
    high, low = frames.chain((1.5, 1.3, 0.9, 1, 1, 0.4), 4), frames.chain((0.9,) * 6, 2, "a name " * 20)
    high.loc[1, "value_high"] = 2.4
    figure = waterfall(pd.concat([high, low]))
    figure.draw_without_rendering()
    for axis in figure.axes:
        assert axis.get_ylim()[1] > 1.5 * 2.4, "panels share an axis that holds the widest interval of any"
        assert len(axis.containers) >= 7
        for text in (*axis.texts, axis.title):
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text.get_text()
            assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text.get_text()
    assert "1.300 [1.280, 2.400]" in texts(figure).replace("\n", " ")


def test_a_factor_that_may_be_one_is_pale() -> None:
    chain = frames.chain((0.9, 0.99, 1.01, 1.2, 0.9, 0.9))
    bars = waterfall(chain).axes[0].patches
    assert [bar.get_alpha() < 1 for bar in bars[:7]] == [False, True, True, False, False, False, False]
