from __future__ import annotations

import numpy as np
import pytest

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    [(5, 0, None), (6, 1, 1 - 2 / 64), (8, 1, 1 - 2 / 256), (9, 2, 1 - 20 / 512), (11, 2, 1 - 24 / 2048)],
)
def test_order_statistics_state_their_true_coverage(n: int, rank: int, coverage: float | None) -> None:
    k, stated = intervals.order_statistic_rank(n)
    assert k == rank
    assert np.isnan(stated) if coverage is None else stated == pytest.approx(coverage)


@pytest.mark.parametrize(("n", "method"), [(1, "none"), (5, "none"), (6, "order statistics"), (11, "order statistics"),
                                           (12, "bootstrap"), (40, "bootstrap")])  # fmt: skip
def test_the_method_follows_the_number_of_rounds(n: int, method: str) -> None:
    values = np.random.default_rng(0).lognormal(size=n)
    found = intervals.median(values, seed=1)
    assert (found.method, found.n, found.value) == (method, n, np.median(values))
    assert found.has_interval == (method != "none")
    if found.has_interval:
        assert values.min() <= found.low <= found.value <= found.high <= values.max()


def test_no_values_and_nan_give_no_interval() -> None:
    assert np.isnan(intervals.median(np.array([]), 0).value)
    for n in (7, 20):
        found = intervals.median(np.r_[np.ones(n - 1), np.nan], 0)
        assert not found.has_interval
        assert np.isnan(found.value)


@pytest.mark.parametrize("n", [6, 9, 15, 24])
def test_intervals_of_independent_rounds_cover_the_truth(n: int) -> None:
    rng = np.random.default_rng(n)
    covered = [intervals.median(rng.standard_normal(n), seed).includes(0) for seed in range(200)]
    assert 0.88 <= np.mean(covered) <= 1.0


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).lognormal(size=20)
    assert intervals.median(values, 3) == intervals.median(values, 3)
    assert intervals.seed_of("strong_w2") != intervals.seed_of("strong_w4"), "points are resampled independently"


def test_a_decreasing_function_turns_the_interval_round() -> None:
    found = Estimate(2.0, 1.0, 4.0, 12, "bootstrap", 0.95).mapped(lambda x: 1 / x)
    assert (found.value, found.low, found.high) == (0.5, 0.25, 1.0)


def test_products_of_independent_estimates() -> None:
    rng = np.random.default_rng(0)
    first, second = (intervals.median(np.exp(0.1 * rng.standard_normal(30)), seed) for seed in (1, 2))
    both = first.times(second)
    assert both.value == first.value * second.value
    assert first.low * second.low < both.low < both.value < both.high < first.high * second.high
    few = intervals.median(np.exp(0.1 * rng.standard_normal(7)), 3)
    mixed = first.times(few)
    assert mixed.method == "combined intervals"
    assert (mixed.low, mixed.high) == (first.low * few.low, first.high * few.high)
    assert mixed.coverage == pytest.approx(first.coverage + few.coverage - 1)
    assert not first.times(intervals.median(np.ones(3), 0)).has_interval


def test_without_an_interval_everything_is_possible() -> None:
    assert intervals.no_interval(3.0, 2).includes(1.0)
    assert not Estimate(3.0, 2.0, 4.0, 12, "bootstrap", 0.95).includes(1.0)


def test_one_launch_is_labelled_as_one() -> None:
    assert intervals.scope(1) == "within one launch"
    assert "5 starts pooled, not between starts" in intervals.scope(5)


@pytest.mark.parametrize("n", [12, 13, 20])
def test_the_bootstrap_of_a_median_covers_at_few_rounds_too(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 13 rounds the plain percentiles cover 90.8 %: the interval from the fourth smallest to the fourth largest."""
    monkeypatch.setattr(intervals, "RESAMPLES", 1000)
    rng = np.random.default_rng(n)
    covered = [intervals.median(rng.standard_normal(n), 1).includes(0) for _ in range(400)]
    assert 0.92 <= np.mean(covered) <= 0.99


def test_the_levels_are_those_of_a_t_interval_and_go_to_the_nominal_ones() -> None:
    levels = [intervals.tail_level(n) for n in (12, 13, 30, 100000)]
    assert levels == sorted(levels)
    assert levels[1] == pytest.approx(0.0147, abs=1e-4)
    assert levels[-1] == pytest.approx(0.025, abs=1e-5)


def _ar1(n: int, m: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    series = rng.standard_normal((n, m))
    for row in range(1, n):
        series[row] = rho * series[row - 1] + np.sqrt(1 - rho**2) * series[row]
    return series


@pytest.mark.parametrize(("rho", "least", "most"), [(0.0, 0.0, 0.06), (0.7, 0.97, 1.0)])
def test_autocorrelation_is_told_from_none_only_where_it_is(rho: float, least: float, most: float) -> None:
    rng = np.random.default_rng(1)
    found = [intervals.autocorrelation(_ar1(30, 5, rho, rng)) for _ in range(300)]
    assert least <= np.mean(np.array(found) > 0) <= most
    if rho:
        assert np.mean(found) == pytest.approx(rho, abs=0.06)


@pytest.mark.parametrize("series", [np.ones((12, 3)), np.full((12, 3), np.nan)])
def test_no_autocorrelation_where_nothing_varies_or_something_is_missing(series: np.ndarray) -> None:
    assert intervals.autocorrelation(series) == 0
    alternating = np.where(np.arange(20) % 2, 1.0, -1.0)[:, None]
    assert intervals.autocorrelation(alternating) == 0, "rounds unlike the last do not narrow an interval"


def test_wider_draws_keep_their_centre_and_their_sums() -> None:
    rng = np.random.default_rng(0)
    values, draws = rng.standard_normal(3), rng.standard_normal((100, 3))
    wide = intervals.widened(values, draws, 0.6)
    np.testing.assert_allclose(wide - values, 2 * (draws - values))
    np.testing.assert_allclose(
        wide.sum(axis=1), intervals.widened(values.sum(keepdims=True), draws.sum(axis=1), 0.6), rtol=1e-12
    )
    np.testing.assert_allclose(intervals.widened(values, draws, 0.0), draws, rtol=1e-12, atol=1e-15)
