"""Readings hold what the records say, round by round, and no disturbed round where there are others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibrated import MACHINE, noisy, strong_point
from simulated import simulate

from kanstudy.analysis.calibration.readings import TOGETHER, point_of, read, step_blocks
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.record import Record


def drawn(machine: MachineModel = MACHINE, **changes) -> Record:
    return simulate([strong_point(2)], machine, **({"rounds": 6} | changes))[0]


def disturb(record: Record, launch: int, rounds: range, factor: float) -> None:
    """Others use the cores in these rounds, and every step takes longer."""
    for arm in record.arms.values():
        for item in arm.rounds:
            if item.launch == launch and item.index in rounds:
                item.foreign_cpu_share = [0.9] * len(item.active_ranks)
                item.rank_step_times_s = [[factor * time for time in steps] for steps in item.rank_step_times_s]


def test_times_and_phases_are_the_machines() -> None:
    reading = read(drawn())
    true = expected(strong_point(2), MACHINE)
    assert {name: reading.time_s(name) for name in reading.columns} == pytest.approx(true.times_s)
    assert reading.phases_s == pytest.approx(MACHINE.phases_s(strong_point(2), 2048))
    assert reading.rounds == 6
    assert point_of(reading.record) == strong_point(2)


def test_disturbed_rounds_are_not_read() -> None:
    record = drawn()
    disturb(record, 0, range(3), 3.0)
    assert read(record).time_s("ddp") == pytest.approx(read(drawn()).time_s("ddp"))
    assert read(record).rounds == 3


def test_a_launch_that_was_disturbed_throughout_still_has_its_row() -> None:
    record = drawn(launches=3)
    disturb(record, 1, range(6), 2.0)
    logs = read(record).log_times
    assert logs.shape == (3, 7)
    assert logs[1] - logs[0] == pytest.approx(np.log(2))
    assert logs[2] == pytest.approx(logs[0])


def test_ranks_are_compared_with_their_mean() -> None:
    slow = replace(MACHINE, rank_slowness=(1.1, 0.9))
    logs = read(drawn(slow)).rank_logs
    assert logs == pytest.approx(np.log([[1.1, 0.9]]) - np.log([1.1, 0.9]).mean())


def test_steps_are_free_of_what_lasts_and_of_what_ranks_share() -> None:
    record = drawn(replace(noisy(0, launch_sd=0.0, block_sd=0.3), rank_slowness=(1.5, 1.0)), rounds=40)
    blocks = step_blocks([record], TOGETHER)
    assert len(blocks) == 80
    levels = np.array([block.mean(axis=1) for block in blocks])
    assert levels.mean(axis=0) == pytest.approx([1, 1], abs=0.01)
    # 30 % from block to block are shared; a rank's own level is the mean of its steps, of some 30 here
    assert 0.003 < levels.std() < 0.05
