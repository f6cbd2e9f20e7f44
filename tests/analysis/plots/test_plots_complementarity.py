from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fabricate import make_record
from matplotlib.figure import Figure

from kanstudy.analysis.complementarity import complementarity, per_round
from kanstudy.analysis.plots.complementarity import complementarity as figure_of
from kanstudy.record import Record

COMMON = {"experiment": "operator_scaling", "arms": ("serial_global", "ddp_noop", "ddp"), "noise": 0.01}
SPEED = {"reference": 0.08, "compiled": 0.04, "fused": 0.01}


def records(*operators: str, sizes: tuple[int, ...] = (2,), **changes) -> list[Record]:
    return [
        make_record(operator=name, t1=SPEED[name], world_size=size, **(COMMON | changes))
        for size in sizes
        for name in operators
    ]


def figure(found: list[Record]) -> Figure:
    return figure_of(complementarity(found), per_round(found))


def texts(axis) -> str:
    return " ".join(text.get_text() for text in axis.findobj(lambda item: hasattr(item, "get_text")))


def markers(axis, kind: str) -> list[float]:
    lines = [line for line in axis.lines if line.get_marker() == kind and len(line.get_xdata()) == 1]
    return [float(line.get_ydata()[0]) for line in lines]


def test_the_panels_show_the_estimates() -> None:
    found = records("reference", "fused", sizes=(2, 4), rounds=13)
    frame = complementarity(found)
    left, middle, right = figure(found).axes
    assert left.get_xscale() == left.get_yscale() == "log"
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["1", "2", "4"]
    assert markers(left, "s") == [frame["operator_speedup"].iloc[0], *frame["together"]]
    assert markers(left, "o") == [1, *frame["ranks_speedup"]]
    (dashed,) = (line for line in left.lines if line.get_linestyle() == "--" and len(line.get_xdata()))
    np.testing.assert_allclose(dashed.get_ydata(), [frame["operator_speedup"].iloc[0], *frame["product"]])
    assert markers(middle, "D") == frame["interaction"].tolist()
    assert markers(middle, "^") == frame["computation"].tolist()
    assert markers(middle, "v") == frame["communication"].tolist()
    assert markers(right, "s") == (100 * frame["overhead_faster"]).tolist()
    assert f"{frame['exposed_ms'].iloc[0]:.2g} ms" in texts(right)
    assert right.get_ylim()[0] <= 0


def test_a_disturbed_pair_is_a_cross_in_the_middle_panel() -> None:
    middle = figure(records("reference", "fused", rounds=13, foreign={4: 0.5})).axes[1]
    crosses = [line for line in middle.lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in crosses) == 3


def test_a_row_of_panels_for_each_pair_of_operators() -> None:
    shown = figure(records("reference", "compiled", "fused", rounds=7))
    assert len(shown.axes) == 9
    assert "fused in place of compiled" in texts(shown.axes[6])


@pytest.mark.parametrize("found", [[], records("reference"), records("reference", "fused", rounds=0)])
def test_nothing_to_compare_is_a_figure_that_says_so(found: list[Record]) -> None:
    assert "No two operators are measured" in figure(found).texts[0].get_text()
    assert "No two operators" in figure_of(pd.DataFrame(), pd.DataFrame()).texts[0].get_text()


@pytest.mark.parametrize("rounds", [1, 3, 7, 13])
def test_any_number_of_rounds_can_be_drawn(rounds: int, tmp_path: Path) -> None:
    figure(records("reference", "fused", rounds=rounds, oversubscribed=True)).savefig(tmp_path / "f.png", dpi=30)
