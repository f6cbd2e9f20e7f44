from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibrated import MACHINE, calibration_points

from kanstudy.analysis.calibration import compute
from kanstudy.analysis.machine_model.model import MachineModel

POINTS = [point for point in calibration_points() if point.world_size == 1]


def steps_of(machine: MachineModel, noise: float = 0.0) -> compute.Steps:
    phases = np.array([machine.phases_s(point, point.global_batch_size) for point in POINTS])
    times = phases.sum(axis=1) * np.exp(noise * np.random.default_rng(0).standard_normal(len(POINTS)))
    return compute.Steps.of(POINTS, times, 1.3 * phases)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 8.0])
def test_the_constants_of_a_step_without_noise_are_found(exponent: float) -> None:
    machine = replace(MACHINE, launch_exponent=exponent)
    found = compute.fit(steps_of(machine))
    assert found.launch_exponent == exponent
    assert [found.launch_s, 1 / found.s_per_flop, 1 / found.s_per_activation_byte] == pytest.approx(
        [4e-4, 5e10, 2e9], rel=1e-4
    )
    assert [found.optimizer_s, found.optimizer_s_per_parameter, found.backward_share] == pytest.approx(
        [1e-4, 2e-9, 0.6]
    )
    assert found.time_s(steps_of(machine)) == pytest.approx(steps_of(machine).time_s, rel=1e-4)


def test_a_cost_that_there_is_not_is_none() -> None:
    machine = replace(MACHINE, optimizer_s=0.0, optimizer_s_per_parameter=0.0, activation_bytes_per_s=float("inf"))
    found = compute.fit(steps_of(machine))
    assert (found.optimizer_s, found.optimizer_s_per_parameter) == (0.0, 0.0)
    assert found.s_per_activation_byte == pytest.approx(0.0, abs=1e-16)


def test_noise_leaves_residuals_of_its_size() -> None:
    steps = steps_of(MACHINE, noise=0.03)
    residuals = np.log(steps.time_s / compute.fit(steps).time_s(steps))
    assert 0.02 < residuals.std() < 0.04
