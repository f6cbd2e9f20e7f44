from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import frames
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from kanstudy.analysis import plots

NOTHING = pd.DataFrame()


def texts(figure: Figure) -> str:
    return " ".join(item.get_text() for item in figure.findobj(lambda item: hasattr(item, "get_text")))


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 2, 4, 8), (1, 3, 6)])
def test_strong_scaling_has_whole_ticks_an_ideal_and_efficiency_from_zero(sizes: tuple[int, ...]) -> None:
    estimates = frames.curve(sizes, n_series=2)
    left, right = plots.strong_scaling(estimates, frames.rounds(estimates)).axes
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
    _, right = plots.strong_scaling(estimates, per_round).axes
    markers = [line for line in right.lines if line.get_marker() == plots.MARKERS[0] and len(line.get_xdata()) == 1]
    assert [float(line.get_ydata()[0]) for line in markers] == [1.0, 0.5]


def test_every_round_is_a_dot() -> None:
    estimates = frames.curve((1, 2))
    _, right = plots.strong_scaling(estimates, frames.rounds(estimates, n=9)).axes
    dots = [line for line in right.lines if line.get_marker() == "."]
    assert sum(len(line.get_xdata()) for line in dots) == 18


def test_efficiency_above_one_is_shown() -> None:
    estimates = frames.curve((1, 2)).assign(efficiency=[1.0, 1.4])
    _, right = plots.strong_scaling(estimates, NOTHING).axes
    assert right.get_ylim()[1] > 1.4


def test_oversubscribed_points_are_hollow() -> None:
    estimates = frames.curve((1, 2)).assign(oversubscribed=[False, True])
    left, _ = plots.weak_scaling(estimates, NOTHING).axes
    faces = [
        line.get_markerfacecolor() for line in left.lines if len(line.get_xdata()) == 1 and line.get_marker() == "o"
    ]
    assert faces[0] != "white"
    assert faces[1] == "white"


def test_waterfall_draws_a_gain_upwards_and_ends_at_the_product() -> None:
    values = (1.25, 0.99, 0.93, 0.98, 0.97, 0.9)
    (axis,) = plots.waterfall(frames.chain(values)).axes
    bars = axis.patches
    assert bars[0].get_height() == pytest.approx(0.25)
    assert all(bar.get_height() < 0 for bar in bars[1:6])
    assert bars[6].get_height() == pytest.approx(np.prod(values))
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    assert axis.get_ylim()[0] == 0
    assert "1.250" in texts(axis.figure)


def test_a_waterfall_a_series_and_world_size() -> None:
    chains = [frames.chain((0.9,) * 6, size, series) for series in ("a", "b") for size in (2, 4)]
    figure = plots.waterfall(pd.concat(chains))
    assert {axis.get_title() for axis in figure.axes} == {"a, 2 ranks", "a, 4 ranks", "b, 2 ranks", "b, 4 ranks"}


def test_overhead_is_in_per_cent_and_may_be_negative() -> None:
    (axis,) = plots.overhead(frames.settings(), frames.rounds(frames.settings())).axes
    heights = [float(line.get_ydata()[0]) for line in axis.lines if line.get_marker() == "o"]
    assert heights == pytest.approx([12, 5, -1, 9])
    assert axis.get_ylim()[0] < 0
    assert "%" in axis.get_ylabel()
    assert "synchronised" in texts(axis.figure)


def test_messages_and_models_have_units() -> None:
    left, right = plots.allreduce(frames.messages((2, 4))).axes
    assert "(ms)" in left.get_ylabel()
    assert "(GB/s)" in right.get_ylabel()
    assert [tick.get_text() for tick in left.get_xticklabels()][:2] == ["1 KiB", "16 KiB"]
    titles = [axis.get_title() for axis in plots.model_size(frames.models()).axes]
    assert titles == ["step time (ms)", "peak memory a rank (MiB)", "parameters per MiB"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.strong_scaling(NOTHING, NOTHING),
        lambda: plots.weak_scaling(NOTHING, NOTHING),
        lambda: plots.waterfall(NOTHING),
        lambda: plots.overhead(NOTHING, NOTHING),
        lambda: plots.allreduce(NOTHING),
        lambda: plots.model_size(NOTHING),
        lambda: plots.overview(NOTHING, NOTHING, NOTHING, NOTHING),
        lambda: plots.strong_scaling(frames.curve((1, 2)).assign(speedup=np.nan), NOTHING),
    ],
)
def test_what_is_not_measured_is_said(draw: Callable[[], Figure], tmp_path: Path) -> None:
    figure = draw()
    assert "measured" in texts(figure) or "two ranks" in texts(figure)
    plots.save_figure(figure, tmp_path, "nothing")


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    estimates = frames.curve((1, 2))
    for folder in ("a", "b"):
        figure = plots.overview(estimates, estimates, frames.chain((0.9,) * 6), frames.rounds(estimates))
        paths = plots.save_figure(figure, tmp_path / folder, "overview")
        assert [path.name for path in paths] == ["overview.pdf", "overview.png"]
    for name in ("overview.pdf", "overview.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
