from __future__ import annotations

from dataclasses import replace

import pytest
from fabricate import make_point
from seen import legend_texts, texts
from simulated import one_node

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.plots import isoefficiency as plots
from kanstudy.analysis.prediction import isoefficiency

MACHINE = MachineModel(launch_s=1e-3, flops_per_s=1e12, network=one_node(1e-5, 1e9))
MODEL = make_point(world_size=8)
BATCHES = [2**k for k in (9, 12, 15, 18)]
SIZES = {"hidden_widths": [8, 32, 128, 512, 2048], "grid_sizes": [5, 15], "global_batch_sizes": BATCHES}


def test_a_row_an_operator_and_a_column_a_grid_with_the_throughput_beside() -> None:
    found = isoefficiency.efficiency_map(MACHINE, MODEL, operator_speeds=[1, 4], **SIZES)
    figure = plots.efficiency_map(found)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == [
        f"{what}, operator x{speed}"
        for speed in (1, 4)
        for what in ("efficiency, grid 5", "efficiency, grid 15", "rows/s, grid 5")
    ]
    assert legend_texts(figure) == [f"largest loss: {name}" for name in ("batch", "data movement")]
    assert "predicted" in texts(figure)


def test_contours_lie_where_the_efficiency_is() -> None:
    found = isoefficiency.efficiency_map(MACHINE, MODEL, **SIZES)
    axis = plots.efficiency_map(found).axes[0]
    (lines,) = [item for item in axis.collections if hasattr(item, "levels")]
    inside = found.loc[found["grid_size"] == 5, "efficiency"]
    assert set(lines.levels) == {level for level in plots.LEVELS if inside.min() < level < inside.max()}
    batch = {level: max(segment[:, 0].max() for segment in lines.allsegs[i]) for i, level in enumerate(lines.levels)}
    assert batch[0.3] <= batch[0.7], "more efficiency needs a larger batch"


def test_what_does_not_fit_is_left_white_and_the_legend_says_so() -> None:
    limit = MACHINE.peak_memory_bytes(replace(MODEL, global_batch_size=2**15, n_samples=2**15), "ddp")
    found = isoefficiency.efficiency_map(replace(MACHINE, memory_bytes=limit), MODEL, **SIZES)
    assert "does not fit in a rank's memory" in legend_texts(plots.efficiency_map(found))
    none = isoefficiency.efficiency_map(replace(MACHINE, memory_bytes=1.0), MODEL, **SIZES)
    assert "No size of the map fits" in texts(plots.efficiency_map(none))


def test_the_least_batch_is_a_line_an_operator() -> None:
    found = isoefficiency.isoefficiency(MACHINE, MODEL, 0.7, [2, 4, 8], operator_speeds=[1, 4])
    figure = plots.isoefficiency(found, 0.7)
    assert legend_texts(figure) == ["operator x1", "operator x4", "the same local batch"]
    drawn = figure.axes[0].lines[0].get_ydata()
    assert list(drawn) == pytest.approx(found.loc[found["operator_speed"] == 1, "global_batch_size"].tolist())
    never = isoefficiency.isoefficiency(MachineModel(contention=0.5), MODEL, 0.7, [8], most_rows=64)
    assert "No batch keeps an efficiency of 0.7" in texts(plots.isoefficiency(never, 0.7))


def test_where_nothing_is_lost_the_map_has_no_contours() -> None:
    figure = plots.efficiency_map(isoefficiency.efficiency_map(MachineModel(), MODEL, **SIZES))
    assert legend_texts(figure) == ["largest loss: none"]
    assert not [item for axis in figure.axes for item in axis.collections if hasattr(item, "levels")]
