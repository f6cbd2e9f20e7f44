from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import frames
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from seen import colours, legend_texts, texts

from kanstudy.analysis import plots
from kanstudy.analysis.plots.save import save_figure
from kanstudy.analysis.plots.style import MARKERS

NOTHING = pd.DataFrame()


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 2, 4, 8), (1, 3, 6)])
def test_strong_scaling_has_whole_ticks_an_ideal_and_efficiency_from_zero(sizes: tuple[int, ...]) -> None:
    estimates = frames.curve(sizes, n_series=2)
    left, right = plots.scaling.strong_scaling(estimates, frames.rounds(estimates)).axes
    for axis in (left, right):
        assert [tick.get_text() for tick in axis.get_xticklabels()] == [str(size) for size in sizes]
        assert axis.get_xlabel() == "world size (ranks)"
    assert left.get_xscale() == left.get_yscale() == "log"
    assert right.get_ylim()[0] == 0
    assert right.get_ylim()[1] >= 1.1
    ideal = [line for line in left.lines if line.get_label() == "ideal"]
    np.testing.assert_array_equal(ideal[0].get_ydata(), sizes)


def test_the_markers_are_the_estimates_and_not_a_mean_in_log_space() -> None:
    estimates = frames.curve((1, 2)).assign(efficiency=[1.0, 0.5], speedup=[1.0, 1.0])
    per_round = frames.rounds(estimates).assign(efficiency=lambda frame: [1.0, 1.0, 100.0] * (len(frame) // 3))
    _, right = plots.scaling.strong_scaling(estimates, per_round).axes
    markers = [line for line in right.lines if line.get_marker() == MARKERS[0] and len(line.get_xdata()) == 1]
    assert [float(line.get_ydata()[0]) for line in markers] == [1.0, 0.5]


def test_every_round_is_a_dot() -> None:
    estimates = frames.curve((1, 2))
    _, right = plots.scaling.strong_scaling(estimates, frames.rounds(estimates, n=9)).axes
    dots = [line for line in right.lines if line.get_marker() == "."]
    assert sum(len(line.get_xdata()) for line in dots) == 16


def test_neither_efficiencies_nor_rounds_of_two_series_lie_on_each_other() -> None:
    estimates = frames.curve((1, 2, 4), n_series=4)
    left, right = plots.scaling.strong_scaling(estimates, frames.rounds(estimates)).axes
    points = [float(line.get_xdata()[0]) for line in right.lines if len(line.get_xdata()) == 1]
    at_two = [x for x in points if 2**0.5 < x < 2**1.5]
    assert len(set(at_two)) == len(at_two) == 4
    assert max(at_two) / min(at_two) < 4 / 3, "no further apart than any two world sizes"
    first_rounds = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "."]
    assert len(set(first_rounds)) == len(first_rounds) == 4
    speedups = {float(line.get_xdata()[0]) for line in left.lines if len(line.get_xdata()) == 1}
    assert speedups == {1, 2, 4}, "where they are compared with the ideal, a sloping line"


def test_a_disturbed_round_is_a_cross_and_no_dot() -> None:
    estimates = frames.curve((1, 2))
    per_round = frames.rounds(estimates, n=9)
    for figure in (
        plots.scaling.strong_scaling(estimates, per_round),
        plots.scaling.weak_scaling(estimates, per_round),
    ):
        for axis in figure.axes:
            crosses = [line for line in axis.lines if line.get_marker() == "x"]
            assert sum(len(line.get_xdata()) for line in crosses) == 2
    settings = frames.settings()
    (axis,) = plots.communication.overhead(settings, frames.rounds(settings)).axes
    assert sum(len(line.get_xdata()) for line in axis.lines if line.get_marker() == "x") == 4


def test_efficiency_above_one_is_shown() -> None:
    estimates = frames.curve((1, 2)).assign(efficiency=[1.0, 1.4])
    _, right = plots.scaling.strong_scaling(estimates, NOTHING).axes
    assert right.get_ylim()[1] > 1.4


def test_oversubscribed_points_are_hollow() -> None:
    estimates = frames.curve((1, 2)).assign(oversubscribed=[False, True])
    left, _ = plots.scaling.weak_scaling(estimates, NOTHING).axes
    faces = [
        line.get_markerfacecolor() for line in left.lines if len(line.get_xdata()) == 1 and line.get_marker() == "o"
    ]
    assert faces[0] != "white"
    assert faces[1] == "white"


def test_a_series_has_one_colour_in_all_panels_of_the_overview() -> None:
    strong = frames.curve((1, 2), n_series=2)
    weak = frames.curve((1, 2), n_series=3).iloc[2:].reset_index(drop=True)
    figure = plots.scaling.overview(strong, weak, NOTHING, NOTHING)
    left, right = colours(figure.axes[0]), colours(figure.axes[1])
    (shared,) = set(left) & set(right)
    assert left[shared] == right[shared]
    assert len(set((left | right).values())) == 3
    assert sorted(legend_texts(figure)) == sorted(left | right)


def test_a_kan_looks_alike_with_its_controls_and_without() -> None:
    every = frames.curve((1, 2), n_series=3)
    every.loc[every["series"] == every["series"].iloc[2], "model"] = "mlp"  # a control of the first, before the last
    with_controls, _ = plots.scaling.strong_scaling(every, NOTHING).axes
    without = plots.scaling.overview(every[every["model"] == "kan"], NOTHING, NOTHING, NOTHING).axes[0]
    assert len(colours(without)) == 2
    assert colours(without).items() <= colours(with_controls).items()


def test_the_overview_attributes_the_largest_size_of_the_first_series_whatever_it_is_called() -> None:
    strong = frames.curve((1, 2), n_series=2)
    attribution = frames.chain((0.9,) * 6).assign(point_id=strong["point_id"].iloc[1], series="called otherwise")
    figure = plots.scaling.overview(strong, NOTHING, attribution, NOTHING)
    assert "where it goes, strong scaling, 2 ranks" in [axis.get_title() for axis in figure.axes]
    assert "nothing to attribute" not in texts(figure)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.scaling.strong_scaling(NOTHING, NOTHING),
        lambda: plots.scaling.weak_scaling(NOTHING, NOTHING),
        lambda: plots.waterfall.waterfall(NOTHING),
        lambda: plots.communication.overhead(NOTHING, NOTHING),
        lambda: plots.communication.allreduce(NOTHING),
        lambda: plots.model_size.model_size(NOTHING),
        lambda: plots.scaling.overview(NOTHING, NOTHING, NOTHING, NOTHING),
        lambda: plots.scaling.strong_scaling(frames.curve((1, 2)).assign(speedup=np.nan), NOTHING),
    ],
)
def test_what_is_not_measured_is_said(draw: Callable[[], Figure], tmp_path: Path) -> None:
    figure = draw()
    assert "measured" in texts(figure) or "two ranks" in texts(figure)
    save_figure(figure, tmp_path, "nothing", "Nothing is measured.")


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    estimates = frames.curve((1, 2))
    attribution = frames.chain((0.9,) * 6).assign(point_id=estimates["point_id"].iloc[-1])
    for folder in ("a", "b"):
        figure = plots.scaling.overview(estimates, estimates, attribution, frames.rounds(estimates))
        paths = save_figure(figure, tmp_path / folder, "overview", "12 rounds")
        assert [path.name for path in paths] == ["overview.pdf", "overview.png", "overview.txt"]
    assert (tmp_path / "a" / "overview.txt").read_text() == "12 rounds\n"
    for name in ("overview.pdf", "overview.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
