from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import frames
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kanstudy.analysis import plots, plots_axes, plots_waterfall

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
    markers = [
        line for line in right.lines if line.get_marker() == plots_axes.MARKERS[0] and len(line.get_xdata()) == 1
    ]
    assert [float(line.get_ydata()[0]) for line in markers] == [1.0, 0.5]


def test_every_round_is_a_dot() -> None:
    estimates = frames.curve((1, 2))
    _, right = plots.strong_scaling(estimates, frames.rounds(estimates, n=9)).axes
    dots = [line for line in right.lines if line.get_marker() == "."]
    assert sum(len(line.get_xdata()) for line in dots) == 16


def test_a_disturbed_round_is_a_cross_and_no_dot() -> None:
    estimates = frames.curve((1, 2))
    per_round = frames.rounds(estimates, n=9)
    for figure in (plots.strong_scaling(estimates, per_round), plots.weak_scaling(estimates, per_round)):
        for axis in figure.axes:
            crosses = [line for line in axis.lines if line.get_marker() == "x"]
            assert sum(len(line.get_xdata()) for line in crosses) == 2
    settings = frames.settings()
    (axis,) = plots.overhead(settings, frames.rounds(settings)).axes
    assert sum(len(line.get_xdata()) for line in axis.lines if line.get_marker() == "x") == 4


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
    (axis,) = plots_waterfall.waterfall(frames.chain(values)).axes
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
    figure = plots_waterfall.waterfall(pd.concat(chains))
    assert {axis.get_title() for axis in figure.axes} == {"a, 2 ranks", "a, 4 ranks", "b, 2 ranks", "b, 4 ranks"}


def test_what_does_not_shrink_is_hatched_in_the_bar_of_the_batch() -> None:
    chain = frames.chain((0.8, 0.99, 0.93, 0.98, 0.97, 0.9)).assign(fixed=[0.9, *[np.nan] * 6])
    figure = plots_waterfall.waterfall(chain)
    (hatched,) = [bar for bar in figure.axes[0].patches if bar.get_hatch()]
    assert hatched.get_height() == pytest.approx(-0.1)
    assert hatched.get_y() == 1
    assert "does not shrink with the batch" in legend_texts(figure)
    gain = plots_waterfall.waterfall(chain.assign(fixed=[1.1, *[np.nan] * 6]))
    assert not any(bar.get_hatch() for bar in gain.axes[0].patches)


def test_nothing_of_a_waterfall_is_cut_and_each_factor_has_its_interval() -> None:
    high, low = frames.chain((1.5, 1.3, 0.9, 1, 1, 0.4), 4), frames.chain((0.9,) * 6, 2, "a name " * 20)
    high.loc[1, "value_high"] = 2.4
    figure = plots_waterfall.waterfall(pd.concat([high, low]))
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
    bars = plots_waterfall.waterfall(chain).axes[0].patches
    assert [bar.get_alpha() < 1 for bar in bars[:7]] == [False, True, True, False, False, False, False]


def test_overhead_is_in_per_cent_and_may_be_negative() -> None:
    (axis,) = plots.overhead(frames.settings(), frames.rounds(frames.settings())).axes
    heights = [float(line.get_ydata()[0]) for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata())]
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


def legend_texts(figure: Figure) -> list[str]:
    return [item.get_text() for legend in figure.legends for item in legend.get_texts()]


def colours(axis: Axes) -> dict[str, object]:
    return {str(line.get_label()): line.get_color() for line in axis.lines if not str(line.get_label()).startswith("_")}


def test_all_reduces_of_two_points_of_the_same_ranks_are_two_lines() -> None:
    figure = plots.allreduce(frames.messages((2, 4), ("KAN a", "KAN b")))
    assert legend_texts(figure) == [f"{p} ranks, series {name}" for p in (2, 4) for name in ("KAN a", "KAN b")]
    for line in figure.axes[0].lines:
        assert (np.diff(line.get_xdata()) > 0).all(), "no line goes back"
    assert legend_texts(plots.allreduce(frames.messages((2, 4)))) == ["2 ranks", "4 ranks"]


def test_sizes_of_different_data_are_different_lines() -> None:
    figure = plots.model_size(frames.models(("synthetic:32:1", "flights")))
    assert legend_texts(figure) == [
        f"KAN, grid {g}, dataset {d}" for g in (5, 15) for d in ("synthetic:32:1", "flights")
    ]
    assert legend_texts(plots.model_size(frames.models())) == ["KAN, grid 5", "KAN, grid 15"]


def test_a_narrow_axis_has_more_than_one_tick() -> None:
    messages = frames.messages().assign(time_s=[1.6e-3, 0.7e-3, 0.8e-3, 0.9e-3, 1.2e-3, 1.9e-3])
    left, _ = plots.allreduce(messages).axes
    low, high = left.get_ylim()
    assert sum(low <= tick <= high for tick in left.get_yticks()) >= 3


def test_overheads_of_two_models_are_told_apart() -> None:
    figure = plots.overhead(frames.settings((2, 4), ("kan", "mlp")), NOTHING)
    assert legend_texts(figure) == ["KAN synthetic:32:1", "MLP synthetic:32:1"]
    drawn = [line.get_color() for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert (
        drawn
        == [colours(figure.axes[0])["KAN synthetic:32:1"]] * 4 + [colours(figure.axes[0])["MLP synthetic:32:1"]] * 4
    )


def test_a_series_has_one_colour_in_all_panels_of_the_overview() -> None:
    strong = frames.curve((1, 2), n_series=2)
    weak = frames.curve((1, 2), n_series=3).iloc[2:].reset_index(drop=True)
    figure = plots.overview(strong, weak, NOTHING, NOTHING)
    left, right = colours(figure.axes[0]), colours(figure.axes[1])
    (shared,) = set(left) & set(right)
    assert left[shared] == right[shared]
    assert len(set((left | right).values())) == 3
    assert sorted(legend_texts(figure)) == sorted(left | right)


def test_the_overview_attributes_the_largest_size_of_the_first_series_whatever_it_is_called() -> None:
    strong = frames.curve((1, 2), n_series=2)
    attribution = frames.chain((0.9,) * 6).assign(point_id=strong["point_id"].iloc[1], series="called otherwise")
    figure = plots.overview(strong, NOTHING, attribution, NOTHING)
    assert "where it goes, strong scaling, 2 ranks" in [axis.get_title() for axis in figure.axes]
    assert "nothing to attribute" not in texts(figure)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.strong_scaling(NOTHING, NOTHING),
        lambda: plots.weak_scaling(NOTHING, NOTHING),
        lambda: plots_waterfall.waterfall(NOTHING),
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
    plots.save_figure(figure, tmp_path, "nothing", "Nothing is measured.")


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    estimates = frames.curve((1, 2))
    attribution = frames.chain((0.9,) * 6).assign(point_id=estimates["point_id"].iloc[-1])
    for folder in ("a", "b"):
        figure = plots.overview(estimates, estimates, attribution, frames.rounds(estimates))
        paths = plots.save_figure(figure, tmp_path / folder, "overview", "12 rounds")
        assert [path.name for path in paths] == ["overview.pdf", "overview.png", "overview.txt"]
    assert (tmp_path / "a" / "overview.txt").read_text() == "12 rounds\n"
    for name in ("overview.pdf", "overview.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
