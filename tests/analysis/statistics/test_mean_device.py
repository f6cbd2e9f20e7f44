from __future__ import annotations

import numpy as np
import pytest
from fabricate import make_point, make_record
from simulated import simulate

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.analysis.statistics.mean_device import of_mean_device
from kanstudy.record import Record


def measured(slowness: tuple[float, ...], rounds: int = 12, sd: float = 1e-3, launches: int = 1, **changes) -> Record:
    point = make_point(**{"world_size": 4, "block_s": 0.05, **changes})
    return simulate([point], MachineModel(rank_slowness=slowness, noise=Noise(block_sd=sd)), rounds, launches)[0]


@pytest.mark.parametrize("slowness", [(1.0, 1.3, 1.0, 1.0), (0.9, 1.0, 1.1, 1.2)])
def test_every_round_becomes_one_of_the_mean_device(slowness: tuple[float, ...]) -> None:
    record = measured(slowness)
    times = blocks(record).times_s
    corrected = of_mean_device(record, times)
    nominal = sum(MachineModel().phases_s(make_point(world_size=4), 2048))
    assert corrected["serial_global"].to_numpy() == pytest.approx(nominal * np.mean(slowness), rel=0.01)
    assert times["serial_global"].std() > 10 * corrected["serial_global"].std()
    others = times.columns.drop("serial_global")
    assert corrected[others].equals(times[others])


def test_launches_that_differ_hide_no_slow_device() -> None:
    record = measured((1.0, 1.3, 1.0, 1.0), rounds=5, launches=6)
    for item in record.arms["serial_global"].rounds:
        item.rank_step_times_s = [[step * np.exp(0.5 * (-1) ** item.launch) for step in item.rank_step_times_s[0]]]
    times = blocks(record).times_s
    corrected = of_mean_device(record, times)["serial_global"]
    within = corrected.groupby(level="launch")
    assert (within.std() < 0.01 * within.mean()).all()


def test_stragglers_hide_no_slow_device() -> None:
    record = measured((1.0, 1.3, 1.0, 1.0), rounds=20, sd=0.01)
    for place in (3, 11):
        item = record.arms["serial_global"].rounds[place]
        item.rank_step_times_s = [[10 * step for step in item.rank_step_times_s[0]]]
    times = blocks(record).times_s
    corrected = of_mean_device(record, times)["serial_global"]
    assert corrected.drop([(0, 3), (0, 11)]).std() < 0.02 * corrected.median()


def test_nothing_is_corrected_on_noise() -> None:
    for seed in range(20):
        point = make_point(world_size=2, block_s=0.05)
        (record,) = simulate([point], MachineModel(noise=Noise(block_sd=0.02)), rounds=12, seed=seed)
        times = blocks(record).times_s
        assert of_mean_device(record, times) is times


def test_a_serial_step_that_does_not_follow_the_ranks_stays_as_it_is() -> None:
    record = make_record(rounds=12, truth={"heterogeneity": 0.8})  # made without regard to which rank ran
    times = blocks(record).times_s
    assert of_mean_device(record, times) is times


@pytest.mark.parametrize("arms", [("serial_global", "ddp_noop", "ddp"), ("serial_local", "concurrent", "ddp")])
def test_without_one_of_the_serial_arms_there_is_nothing_to_do(arms: tuple[str, ...]) -> None:
    record = measured((1.0, 1.5), arms=arms)
    times = blocks(record).times_s
    assert of_mean_device(record, times) is times


def test_a_missing_time_corrects_nothing() -> None:
    record = measured((1.0, 1.5))
    record.arms["serial_local"].rounds[3].rank_step_times_s[1][0] = None  # type: ignore[call-overload]
    times = blocks(record).times_s
    assert of_mean_device(record, times) is times
