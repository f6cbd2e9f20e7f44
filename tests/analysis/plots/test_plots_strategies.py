from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fabricate import make_point
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from seen import legend_texts, texts
from simulated import one_node

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.plots import strategies as plots
from kanstudy.analysis.strategies.compare import compare, fastest

MACHINE = MachineModel(flops_per_s=1e11, launch_s=1e-3, network=one_node(1e-5, 1e9))
POINT = make_point(layer_widths=(16, 64, 64, 4), global_batch_size=512)
SIZES = [1, 2, 4, 8]


def crosses(axis: Axes) -> list[tuple[float, float]]:
    return [tuple(place) for line in axis.lines if line.get_marker() == "x" for place in line.get_xydata()]


def drawn(machine: MachineModel = MACHINE, **point: Any) -> tuple[Figure, Any]:
    frame = compare(make_point(**{"layer_widths": (16, 64, 64, 4), "global_batch_size": 512} | point), machine, SIZES)
    return plots.strategies(frame), frame


def test_every_strategy_is_a_line_of_its_values() -> None:
    figure, frame = drawn()
    left, middle, right = figure.axes
    solid = [line for line in left.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]
    dashed = [line for line in left.lines if line.get_linestyle() == "--"]
    assert (len(solid), len(dashed)) == (6, 3)
    best = fastest(frame)
    data = best[best["strategy"] == "data parallel"]
    assert solid[0].get_xdata().tolist() == SIZES
    assert solid[0].get_ydata() == pytest.approx(1e3 * data["step_time_s"].to_numpy())
    assert middle.lines[0].get_ydata() == pytest.approx(data["memory_bytes"].to_numpy() / 2**30)
    assert np.isnan(right.lines[0].get_ydata()[0]), "one rank sends nothing, which no log axis shows"
    assert {line.get_color() for line in dashed} < {line.get_color() for line in solid}
    assert texts(figure).count("predicted") == 3


def test_a_cross_stands_where_a_strategy_stops_fitting() -> None:
    """Four outputs cannot be shared by eight ranks; the line goes on level from what it was at four."""
    figure, frame = drawn()
    column = frame[(frame["strategy"] == "split by output (column)") & (frame["world_size"] == 4)].iloc[0]
    assert crosses(figure.axes[0]) == [(8, pytest.approx(1e3 * column["step_time_s"]))]
    assert not crosses(drawn(layer_widths=(16, 64, 64, 8))[0].axes[0])


def test_a_strategy_that_exists_nowhere_is_named_as_such() -> None:
    """One output cannot be shared."""
    figure = plots.strategies(compare(make_point(layer_widths=(16, 64, 64, 1)), MACHINE, SIZES[1:]))
    assert "split by output (column): fits nowhere" in legend_texts(figure)
    assert "split by input (row)" in legend_texts(figure)


def test_memory_that_does_not_do_is_a_cross_at_what_is_needed() -> None:
    needed = compare(POINT, MACHINE, [1])["memory_bytes"].iloc[0]
    figure, _ = drawn(MachineModel(flops_per_s=1e11, network=one_node(1e-5, 1e9), memory_bytes=0.9 * needed))
    assert (1, pytest.approx(needed / 2**30)) in crosses(figure.axes[1])
    data = figure.axes[1].lines[0]
    assert np.isfinite(data.get_ydata()).tolist() == [False, True, True, True]  # fewer rows a rank fit again
    assert "memory of a rank" in legend_texts(figure)
    assert "memory of a rank" not in legend_texts(drawn()[0])


def test_nothing_that_fits_is_a_figure_that_says_so() -> None:
    assert "No strategy fits" in texts(drawn(MachineModel(memory_bytes=1.0))[0])
