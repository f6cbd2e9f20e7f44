"""Figures of other people's tables: a line a series, a legend that can be read, nothing drawn that was not measured."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.external.efficiency import analyse
from kanstudy.analysis.plots import external
from kanstudy.analysis.plots.save import save_figure

SIZES = (1, 2, 4)


def table(*values: int, repeats: int = 1) -> pd.DataFrame:
    """So many values of the keys k0, k1, ..., each combination a series with E = 0.9 and less."""
    lines = [
        (*(f"v{place}" for place in at), p, run, p * 100 * (1 - 0.05 * np.log2(p)) * (1 + 0.001 * run))
        for at in itertools.product(*map(range, values))
        for p in SIZES
        for run in range(repeats)
    ]
    return pd.DataFrame(lines, columns=[*(f"k{place}" for place in range(len(values))), "gpus", "run", "img_per_s"])


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_names_of_others_are_drawn_as_they_stand(tmp_path):
    """Dollars are no formula, angles no markup."""
    frame = table(2).replace({"v0": r"$\frac{x$", "v1": "<b>&$y$"})
    figure = external.scaling(analyse(frame))
    assert legend_texts(figure)[:2] == [r"$\frac{x$", "<b>&$y$"]
    save_figure(figure, tmp_path, "a", "")


def test_few_series_share_two_panels():
    figure = external.scaling(analyse(table(3)))
    left, right = figure.axes
    assert legend_texts(figure) == ["v0", "v1", "v2", "ideal"]
    assert left.get_xscale() == left.get_yscale() == "log"
    assert right.get_ylim()[0] == 0
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["1", "2", "4"]


def test_many_series_are_split_by_the_key_that_keeps_the_legend_short():
    figure = external.scaling(analyse(table(4, 6)))
    assert len(figure.axes) == 8
    assert [axis.get_title(loc="left") for axis in figure.axes[::2]] == ["v0", "v1", "v2", "v3"]
    assert legend_texts(figure) == [*(f"v{place}" for place in range(6)), "ideal"]


def test_keys_may_have_names_that_the_figure_has():
    frame = table(2, 1, 2, repeats=2).rename(columns={"k0": "point_id", "k1": "group", "k2": "series"})
    figure = external.scaling(analyse(frame))
    assert legend_texts(figure) == ["v0, v0", "v0, v1", "v1, v0", "v1, v1", "ideal"]
    plain = external.scaling(analyse(table(2, 1, 2, repeats=2)))
    for axis, other in zip(figure.axes, plain.axes, strict=True):
        assert [len(line.get_xdata()) for line in axis.lines] == [len(line.get_xdata()) for line in other.lines]


def test_too_many_series_are_grey_and_without_names():
    figure = external.scaling(analyse(table(30)))
    assert len(figure.axes) == 2
    assert legend_texts(figure) == []
    assert "30 series" in figure.get_suptitle()


def test_series_without_a_baseline_are_not_drawn_and_counted():
    frame = table(2)
    found = analyse(frame[(frame["k0"] == "v0") | (frame["gpus"] > 1)])
    figure = external.scaling(found)
    assert legend_texts(figure) == ["v0", "ideal"] or "v1" not in legend_texts(figure)
    assert "for want of a baseline: 2 points" in external.caption(found, "t.csv")
    nothing = external.scaling(analyse(frame[frame["gpus"] > 1]))
    assert "No series has a baseline" in nothing.texts[0].get_text()


def test_relative_values_say_so_and_every_repeat_is_a_dot():
    frame = table(2, repeats=7)
    found = analyse(frame[frame["gpus"] > 1], relative=True)
    left, right = external.scaling(found).axes
    assert "2 ranks = 1" in left.get_ylabel()
    assert "relative" in right.get_ylabel()
    dots = [line for line in right.lines if line.get_marker() == "."]
    assert sum(len(line.get_xdata()) for line in dots) == 2 * 2 * 7


def test_a_missing_key_and_many_world_sizes_can_be_drawn(tmp_path):
    frame = pd.DataFrame({"impl": [None, "a"] * 40, "gpus": np.repeat(np.arange(1, 41), 2)})
    found = analyse(frame.assign(img_per_s=frame["gpus"] * 10.0))
    figure = external.scaling(found)
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2", "4", "8", "16", "32"]
    paths = save_figure(figure, tmp_path, "efficiency", external.caption(found, "t.csv"))
    assert all(path.stat().st_size > 0 for path in paths)


def test_bandwidths_have_a_line_a_half_and_sizes_in_words():
    sizes = 2.0 ** np.arange(3, 31)
    rows = pd.DataFrame({"message_bytes": np.tile(sizes, 2), "in_place": np.repeat([False, True], len(sizes))})
    rows["time_s"] = 1e-5 + rows["message_bytes"] / 1e10
    rows["busbw_bytes_per_s"] = rows["message_bytes"] / rows["time_s"]
    figure = external.bandwidth(rows)
    assert legend_texts(figure) == ["out-of-place", "in-place"]
    assert "1 MiB" in [tick.get_text() for tick in figure.axes[1].get_xticklabels()]
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata()[-1], 10, rtol=0.01)
