from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from simulated import simulate, truth

from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.attribution.verdict import verdicts
from kanstudy.analysis.captions import caption
from kanstudy.analysis.estimates import strong
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.launches import between_launches
from kanstudy.analysis.statistics.paired_arms import PairedArms
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


def as_one_launch(record: Record) -> Record:
    """The record as if all its rounds were of one launch."""
    arms = {
        name: replace(arm, rounds=[replace(item, launch=0, index=i) for i, item in enumerate(arm.rounds)])
        for name, arm in record.arms.items()
    }
    return replace(record, arms=arms)


MACHINE = MachineModel(launch_s=2e-3, noise=Noise(block_sd=0.01, launch_sd=0.05))
POINT = make_point(world_size=2, block_s=0.01)


def test_one_lucky_launch_deceives_the_pooled_rounds_but_not_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches shift each arm by 5 %, rounds by 1 %: taken for independent, 60 rounds are far too sure of E."""
    monkeypatch.setattr(intervals, "autocorrelation", lambda series: 0.0)
    true = truth(POINT, MACHINE).efficiency
    pooled, launches = [], []
    for record in (simulate([POINT], MACHINE, rounds=12, launches=5, seed=seed)[0] for seed in range(30)):
        pooled.append(PairedArms(as_one_launch(record)).ratio("serial_global", "ddp", 1 / 2).includes(true))
        found = PairedArms(record).ratio("serial_global", "ddp", 1 / 2)
        alone = [PairedArms(launch_of(record, i)).ratio("serial_global", "ddp", 1 / 2).value for i in range(5)]
        expected = between_launches(np.log(alone))
        assert (found.method, found.n) == ("t over launches", 5)
        assert [found.value, found.low, found.high] == pytest.approx([expected.value, expected.low, expected.high])
        launches.append(found.includes(true))
    assert np.mean(pooled) < 0.75
    assert np.mean(launches) > 0.85


@pytest.fixture(scope="module")
def five() -> Record:
    return simulate([POINT], MACHINE, rounds=4, launches=5, seed=3)[0]


def test_factors_over_launches_multiply_to_the_efficiency_draw_by_draw(five: Record) -> None:
    found = efficiency(five)
    assert found.value.method == "t over launches"
    assert np.prod([factor.value for factor in found.factors.values()]) == pytest.approx(found.value.value, rel=1e-12)
    draws = np.prod([factor.draws for factor in found.factors.values()], axis=0)
    np.testing.assert_allclose(draws, found.value.draws, rtol=1e-9)


def test_everything_of_a_point_is_said_between_its_launches(five: Record) -> None:
    arms = PairedArms(five)
    assert {arms.time("ddp").method, arms.ratio_of_means("serial_global", "ddp").method} == {"t over launches"}
    assert arms.median(arms.times_s["ddp"] - arms.times_s["ddp_noop"]).n == 5
    (row,) = strong([five]).to_dict("records")
    assert (row["method"], row["launches"]) == ("t over launches", 5)
    assert row["efficiency_low"] < row["efficiency"] < row["efficiency_high"]
    assert "intervals between 5 launches" in caption([five])
    assert ", between 5 launches" in verdicts([five])["sentence"].item()
    assert "too few" not in efficiency(simulate([POINT], MACHINE, rounds=1, launches=5)[0]).reason


def test_rounds_of_fewer_launches_are_pooled_and_claim_no_more(five: Record) -> None:
    four = replace(five, arms={
        name: replace(arm, rounds=[item for item in arm.rounds if item.launch < 4]) for name, arm in five.arms.items()
    })  # fmt: skip
    found = PairedArms(four).ratio("serial_global", "ddp")
    assert (found.method, found.n) == ("bootstrap", 16)
    assert "of the rounds of 4 starts pooled, not between starts" in caption([four])
    assert "within one launch" in caption([launch_of(five, 0)])
    assert "between 5 launches or of the rounds" in caption([five, replace(four, point_id="other")])


def test_a_launch_of_disturbed_rounds_alone_is_no_replicate(five: Record) -> None:
    arms = {
        name: replace(arm, rounds=[
            replace(item, foreign_cpu_share=[0.9] * len(item.active_ranks)) if item.launch == 4 else item
            for item in arm.rounds
        ])
        for name, arm in five.arms.items()
    }  # fmt: skip
    assert PairedArms(replace(five, arms=arms)).ratio("serial_global", "ddp").method == "bootstrap"


def test_products_of_launches_keep_their_kind() -> None:
    rng = np.random.default_rng(1)
    one, other = (between_launches(0.1 * rng.standard_normal(5), seed) for seed in (1, 2))
    product = one.times(other)
    assert product.method == "t over launches"
    assert product.high / product.low < (one.high / one.low) * (other.high / other.low)
    mixed = one.times(intervals.of_draws(1.0, np.exp(0.01 * rng.standard_normal(4000)), 20))
    assert (mixed.method, mixed.coverage) == ("combined intervals", pytest.approx(0.9))
