from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from fabricate import make_point
from seen import texts
from simulated import simulate

from kanstudy.analysis.calibration.calibration import Calibration, calibrate
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.plots.calibration import curve
from kanstudy.spec import PointSpec

MACHINE = MachineModel(name="known machine", flops_per_s=4e9, launch_s=3e-4, optimizer_s_per_parameter=1e-9)
WIDTHS = ((32, 16, 1), (32, 64, 1))


@pytest.fixture(scope="module")
def alone() -> list[PointSpec]:
    point = make_point(world_size=1, experiment="calibration", arms=("serial_global",), operator="reference")
    return [
        replace(point, layer_widths=widths, global_batch_size=rows, n_samples=4096)
        for widths in WIDTHS
        for rows in (1, 16, 256, 2048)
    ]


@pytest.fixture(scope="module")
def calibration(alone: list[PointSpec]) -> Calibration:
    return calibrate(simulate(alone, MACHINE, rounds=3))


def test_markers_are_what_was_timed_and_lines_what_was_fitted(calibration: Calibration, alone: list[PointSpec]) -> None:
    figure = curve(calibration, alone)
    left, right = figure.axes
    markers = [line for line in left.lines if line.get_linestyle() == "None"]
    assert len(markers) == len(WIDTHS)
    for line in markers:
        rows = [int(x) for x in line.get_xdata()]
        assert rows == [1, 16, 256, 2048]
    truth = [1e3 * sum(MACHINE.phases_s(point, point.global_batch_size)) for point in alone[:4]]
    np.testing.assert_allclose(markers[0].get_ydata(), truth, rtol=1e-3)
    assert "simulated" in left.get_ylabel()
    assert "%" in right.get_ylabel()
    plt.close("all")


@pytest.mark.parametrize("change", [{"operator": "auto"}, {"block_s": 9.0}])
def test_points_need_not_be_those_of_the_records_only_of_their_models(
    calibration: Calibration, alone: list[PointSpec], change: dict
) -> None:
    """A profile's points may say `auto`, and be timed otherwise, than what was measured."""
    axis = curve(calibration, [replace(point, **change) for point in alone]).axes[0]
    fitted, markers = axis.lines[:2]
    assert fitted.get_ydata()[-1] == pytest.approx(markers.get_ydata()[-1], rel=1e-3)
    plt.close("all")


def test_models_that_were_not_calibrated_are_no_empty_panels(calibration: Calibration, alone: list[PointSpec]) -> None:
    figure = curve(calibration, [replace(point, grid_size=9) for point in alone])
    assert "No point of one rank alone" in texts(figure)
