from __future__ import annotations

from dataclasses import replace

import pytest
from fabricate import make_point
from seen import legend_texts, texts

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.plots import published_region as plots
from kanstudy.analysis.prediction import published_region as predicted
from kanstudy.analysis.prediction.published_sensitivity import sensitivity

MODEL = make_point(world_size=8)
MACHINE = MachineModel(
    launch_s=4e-4, ranks_per_node=2, nodes=4,
    network=Network(inside=Link(bytes_per_s=1e9), between=Link(bytes_per_s=2e9)),
)  # fmt: skip
SETTINGS = predicted.Settings([16, 24, 32], [8 * round(2 ** (k / 2)) for k in range(12, 24)], (1.0, 25.0), ("weak",))


def coloured(figure, axis: int, colour) -> int:
    """Cells of a panel that have this colour."""
    cells = figure.axes[axis].collections[0].get_array().reshape(-1, 4)
    return sum(tuple(cell[:3]) == pytest.approx(tuple(colour)) for cell in cells)


def test_a_column_an_order_and_a_row_a_scaling_and_bucket_cap_with_the_region_in_its_colour() -> None:
    found = predicted.region(MACHINE, MODEL, SETTINGS)
    figure = plots.region(found)
    assert len(figure.axes) == 2 * len(predicted.ORDERS)
    assert [axis.get_title() for axis in figure.axes[:3]] == [
        f"overheads over ranks\n{name}" for name in predicted.ORDERS
    ]
    assert "weak scaling,\nbucket cap 1 MiB" in texts(figure)
    assert "weak scaling,\nbucket cap 25 MiB" in texts(figure)
    assert "E = 0.747 (predicted)" in legend_texts(figure)
    last = found[(found["order"] == "packed, then spread") & (found["bucket_cap_mb"] == 25)]
    assert last["consistent"].sum() > 0
    assert coloured(figure, 5, plots._ALL) == last["consistent"].sum()
    assert coloured(figure, 0, plots._ALL) == 0


def test_nothing_that_fits_is_a_figure_that_says_so() -> None:
    none = predicted.region(replace(MACHINE, memory_bytes=1.0), MODEL, SETTINGS)
    assert "No setting fits" in texts(plots.region(none))


def test_the_sensitivity_has_a_line_a_constant_and_the_share_as_assumed_dashed() -> None:
    found = sensitivity(MACHINE, MODEL, SETTINGS)
    figure = plots.sensitivity(found)
    left, right = figure.axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names[::-1] == ["flops per s", "launch s", "inside bytes per s", "between bytes per s"]
    assert legend_texts(figure) == ["x0.5", "x2"]
    base = found.iloc[0]
    for axis, column in ((left, "both_agree"), (right, "consistent")):
        (dashed,) = [line for line in axis.lines if line.get_linestyle() == "--"]
        assert dashed.get_xdata()[0] == base[column]
        drawn = sorted(x for line in axis.lines if line is not dashed for x in line.get_xdata())
        assert drawn == sorted(found[column][1:])
    assert "No constant was changed" in texts(plots.sensitivity(found.head(1)))
