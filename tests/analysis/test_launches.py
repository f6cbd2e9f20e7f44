from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from kanstudy.analysis import intervals
from kanstudy.analysis.launches import between_launches
from kanstudy.analysis.machine_model import MachineModel
from kanstudy.analysis.machine_noise import Noise
from kanstudy.analysis.paired import PairedArms
from kanstudy.analysis.simulate import simulate, truth
from kanstudy.record import Record

LOGS = st.lists(st.floats(-2, 2), min_size=5, max_size=12)


@given(LOGS)
def test_it_is_the_t_interval_of_the_logarithms(logs: list[float]) -> None:
    found = between_launches(logs)
    assert (found.n, found.method, found.coverage) == (len(logs), "t over launches", 0.95)
    assert found.low <= found.value <= found.high
    if np.std(logs) > 1e-6:
        low, high = ttest_1samp(logs, 0).confidence_interval(0.95)
        np.testing.assert_allclose(np.log([found.low, found.high]), [low, high], rtol=1e-9, atol=1e-12)


@given(LOGS)
def test_ratios_that_telescope_in_each_launch_telescope(logs: list[float]) -> None:
    other = np.linspace(0.1, 0.4, len(logs))
    product = between_launches(logs).value * between_launches(other).value
    assert product == pytest.approx(between_launches(np.array(logs) + other).value)


@pytest.mark.parametrize("logs", [[], [0.1], [0.1, 0.2, 0.3, 0.4]])
def test_fewer_than_five_launches_have_no_interval(logs: list[float]) -> None:
    found = between_launches(logs)
    assert not found.has_interval
    assert found.n == len(logs)
    assert found.value == pytest.approx(np.exp(np.mean(logs))) if logs else np.isnan(found.value)


def test_a_launch_without_a_number_leaves_no_interval() -> None:
    assert not between_launches([0.1, 0.2, np.nan, 0.3, 0.4, 0.5]).has_interval
    with pytest.raises(ValueError, match=r"shape \(2, 5\): must be one number a launch"):
        between_launches(np.zeros((2, 5)))


def launch_of(record: Record, launch: int) -> Record:
    """The record as if only one launch had been run."""
    arms = {
        name: replace(arm, rounds=[item for item in arm.rounds if item.launch == launch])
        for name, arm in record.arms.items()
    }
    return replace(record, arms=arms)


def test_one_lucky_launch_deceives_the_pooled_rounds_but_not_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches shift each arm by 5 %, rounds by 1 %: taken for independent, 60 rounds are far too sure of E."""
    monkeypatch.setattr(intervals, "autocorrelation", lambda series: 0.0)
    machine = MachineModel(launch_s=2e-3, noise=Noise(block_sd=0.01, launch_sd=0.05))
    point = make_point(world_size=2, block_s=0.01)
    true = truth(point, machine).efficiency
    pooled, launches = [], []
    for record in (simulate([point], machine, rounds=12, launches=5, seed=seed)[0] for seed in range(30)):
        pooled.append(PairedArms(record).ratio("serial_global", "ddp", 1 / 2).includes(true))
        alone = [PairedArms(launch_of(record, i)).ratio("serial_global", "ddp", 1 / 2).value for i in range(5)]
        launches.append(between_launches(np.log(alone)).includes(true))
    assert np.mean(pooled) < 0.75
    assert np.mean(launches) > 0.85
