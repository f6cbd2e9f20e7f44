from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis import metrics

TIMES = st.floats(1e-6, 1e3)


def test_closed_forms() -> None:
    assert metrics.speed_up(10.0, 2.5) == 4
    assert metrics.communication_overhead(0.9, 1.0) == pytest.approx(0.1)
    assert metrics.throughput(2048, 0.5) == 4096
    assert metrics.parameters_per_byte(100, 400) == 0.25
    assert metrics.karp_flatt(5.97, 8) == pytest.approx(0.0486, abs=5e-5)
    with pytest.raises(ValueError, match="world_size = 1"):
        metrics.karp_flatt(1.0, 1)


def test_nothing_is_clipped() -> None:
    assert metrics.communication_overhead(1.1, 1.0) == pytest.approx(-0.1)
    assert metrics.karp_flatt(10.0, 8) < 0


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert metrics.algorithm_bandwidth(2**20, 1e-3) == 2**20 * 1e3
    assert metrics.bus_bandwidth(2**20, 1e-3, 16) == pytest.approx(2**20 * 1e3 * 30 / 16)
    assert metrics.bus_bandwidth(2**20, 1e-3, 2) == pytest.approx(2**20 * 1e3)
    assert np.isnan(metrics.bus_bandwidth(2**20, 1e-3, 1)), "a single rank moves nothing: blank, not 0"


def test_block_time_is_the_slowest_ranks_mean() -> None:
    assert metrics.block_time([[1.0, 3.0], [2.5, 2.5]]) == 2.5
    assert metrics.slowest_at_every_step([[1.0, 3.0], [2.5, 2.5]]) == 2.75


@pytest.mark.parametrize("bad", [[[1.0, None]], [[1.0, 0.0]], [[1.0, -1.0]], [[]], [[1.0, float("nan")]]])
def test_a_missing_time_is_nan_and_never_a_number(bad: list) -> None:
    assert np.isnan(metrics.block_time([[1.0, 1.0], *bad]))
    assert np.isnan(metrics.slowest_at_every_step([[1.0, 1.0], *bad]))


def test_ranks_with_different_step_counts_have_no_slowest_rank_at_every_step() -> None:
    assert np.isnan(metrics.slowest_at_every_step([[1.0, 1.0], [1.0]]))


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(TIMES, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_waiting_at_every_step_takes_no_less_than_the_slowest_mean(times: list[list[float]]) -> None:
    assert metrics.slowest_at_every_step(times) >= metrics.block_time(times) * (1 - 1e-12)


@given(st.lists(TIMES, min_size=5, max_size=5), st.integers(0, 2**32 - 1))
def test_drift_that_all_arms_share_changes_no_ratio(drift: list[float], seed: int) -> None:
    logs = np.random.default_rng(seed).standard_normal((5, 4))
    still = metrics.arm_log_medians(logs, range(4))
    drifting = metrics.arm_log_medians(logs + np.log(drift)[:, None], range(4))
    np.testing.assert_allclose(np.subtract.outer(still, still), np.subtract.outer(drifting, drifting), atol=1e-9)


def test_ratios_are_of_medians_not_means_of_ratios() -> None:
    base, scaled = np.array([10.0, 10.0, 20.0]), np.array([1.25, 2.5, 2.5])
    assert np.median(base) / np.median(scaled) == 4.0
    constant = np.log(np.column_stack([np.full(3, 8.0), np.full(3, 2.0)]))
    first, second = metrics.arm_log_medians(constant, (0, 1))
    assert np.exp(first - second) == pytest.approx(4.0)
    wide = metrics.arm_log_medians(np.log(np.column_stack([base, scaled])), (0, 1))
    assert np.exp(wide[0] - wide[1]) == pytest.approx(8.0), "the median round's ratio; 6.67 would be a mean of ratios"


def test_another_statistic_of_the_same_blocks_stands_its_median_distance_away() -> None:
    """Noise that is in both is not in their ratio: 30 % from block to block, and the ratio is known to 0.1 %."""
    rng = np.random.default_rng(0)
    arms = 0.3 * rng.standard_normal((9, 2))
    apart = 0.2 + 0.001 * rng.standard_normal(9)
    logs = np.column_stack([arms, arms[:, 1] + apart])
    medians = metrics.arm_log_medians(logs, (0, 1), {2: 1})
    assert medians[2] - medians[1] == pytest.approx(np.median(apart))
    np.testing.assert_array_equal(medians[:2], metrics.arm_log_medians(logs, (0, 1))[:2])
    many = metrics.arm_log_medians(np.stack([logs, logs + 1]), (0, 1), {2: 1})
    np.testing.assert_allclose(many, [medians, medians])
