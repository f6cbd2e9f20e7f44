from __future__ import annotations

import frames
import numpy as np
import pandas as pd
import pytest
from seen import colours, legend_texts, texts

from kanstudy.analysis.plots.communication import allreduce, overhead


def test_overhead_is_in_per_cent_and_may_be_negative() -> None:
    (axis,) = overhead(frames.settings(), frames.rounds(frames.settings())).axes
    heights = [float(line.get_ydata()[0]) for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert heights == pytest.approx([12, 5, -1, 9])
    assert axis.get_ylim()[0] < 0
    assert "%" in axis.get_ylabel()
    assert "synchronised" in texts(axis.figure)


def test_all_reduces_of_two_points_of_the_same_ranks_are_two_lines() -> None:
    figure = allreduce(frames.messages((2, 4), ("KAN a", "KAN b")))
    assert legend_texts(figure) == [f"{p} ranks, series {name}" for p in (2, 4) for name in ("KAN a", "KAN b")]
    for line in figure.axes[0].lines:
        assert (np.diff(line.get_xdata()) > 0).all(), "no line goes back"
    assert legend_texts(allreduce(frames.messages((2, 4)))) == ["2 ranks", "4 ranks"]


def test_a_narrow_axis_has_more_than_one_tick() -> None:
    messages = frames.messages().assign(time_s=[1.6e-3, 0.7e-3, 0.8e-3, 0.9e-3, 1.2e-3, 1.9e-3])
    left, _ = allreduce(messages).axes
    low, high = left.get_ylim()
    assert sum(low <= tick <= high for tick in left.get_yticks()) >= 3


def test_overheads_of_two_models_are_told_apart() -> None:
    figure = overhead(frames.settings((2, 4), ("kan", "mlp")), pd.DataFrame())
    assert legend_texts(figure) == ["KAN synthetic:32:1", "MLP synthetic:32:1"]
    drawn = [line.get_color() for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert (
        drawn
        == [colours(figure.axes[0])["KAN synthetic:32:1"]] * 4 + [colours(figure.axes[0])["MLP synthetic:32:1"]] * 4
    )


def test_many_world_sizes_have_panels_in_lines_of_two() -> None:
    figure = overhead(frames.settings((2, 4, 8), ("kan", "mlp")), pd.DataFrame())
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in shown] == ["2 ranks", "4 ranks", "8 ranks"]
    assert len({axis.get_position().x0 for axis in shown}) == 2


def test_a_bandwidth_has_its_interval() -> None:
    messages = frames.messages().assign(busbw_bytes_per_s_low=1e9, busbw_bytes_per_s_high=2e9)
    _, right = allreduce(messages).axes
    upright = [line for line in right.lines if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    intervals = [list(line.get_ydata()) for line in upright]
    assert intervals == [[1, 2]] * 6


def test_messages_have_units() -> None:
    left, right = allreduce(frames.messages((2, 4))).axes
    assert "(ms)" in left.get_ylabel()
    assert "(GB/s)" in right.get_ylabel()
    assert [tick.get_text() for tick in left.get_xticklabels()][:2] == ["1 KiB", "16 KiB"]
