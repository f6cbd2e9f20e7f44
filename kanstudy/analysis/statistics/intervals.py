"""Intervals of medians and of ratios, over complete rounds.

- from 12 rounds: percentile bootstrap, whole rounds resampled (Efron & Tibshirani 1993, chapter 13), at the levels
  that make up for the few rounds (Hesterberg 2015), wider where rounds resemble the one before (`autocorrelation`);
- 6 to 11 rounds: order statistics (the sign-test interval, e.g. David & Nagaraja 2003, section 7.1), which states
  its true coverage;
- below 6 rounds: none, since no two order statistics cover 95 %.

Rounds of one start of all ranks share its luck (placement, clocks, neighbours): such an interval holds within it.
Between launches see `kanstudy.analysis.statistics.launches`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from scipy.stats import binom, norm, t

RESAMPLES = 4000
LEVEL = 0.95
BOOTSTRAP_FROM = 12
ORDER_STATISTICS_FROM = 6
BOOTSTRAP = "bootstrap"
OVER_LAUNCHES = "t over launches"


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, NaN where there is none.

    `coverage` is the interval's probability: nominal for the bootstrap, at least so much for order statistics.
    `draws` (RESAMPLES,) are the bootstrap's replicates, or draws of the t distribution over launches, from which
    intervals of further functions follow.
    """

    value: float
    low: float
    high: float
    n: int
    method: str
    coverage: float
    draws: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval at all."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def includes(self, value: float) -> bool:
        """Whether the interval holds `value`; without an interval everything is possible."""
        return not self.has_interval or self.low <= value <= self.high

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        """The estimate of a monotone function of this quantity: percentiles and order statistics go along."""
        ends = np.sort(function(np.array([self.low, self.high])))
        draws = None if self.draws is None else function(self.draws)
        value = float(function(np.array(self.value)))
        return Estimate(value, float(ends[0]), float(ends[1]), self.n, self.method, self.coverage, draws)

    def times(self, other: Estimate) -> Estimate:
        """The product with an independent positive estimate.

        From the draws of both, where they are of one kind, or else both intervals multiplied end by end, whose
        coverage is at least the sum of both less one (Bonferroni).
        """
        value, n = self.value * other.value, min(self.n, other.n)
        if self.draws is not None and other.draws is not None and self.method == other.method:
            return of_draws(value, self.draws * other.draws, n, self.method)
        if not (self.has_interval and other.has_interval):
            return no_interval(value, n)
        coverage = self.coverage + other.coverage - 1
        return Estimate(value, self.low * other.low, self.high * other.high, n, "combined intervals", coverage)


def no_interval(value: float, n: int) -> Estimate:
    """A value of which no interval can be given."""
    return Estimate(float(value), np.nan, np.nan, n, "none", np.nan)


MISSING = no_interval(np.nan, 0)


def seed_of(name: str) -> int:
    """A seed for what bears this name: the same every time, independent between points."""
    return zlib.crc32(name.encode())


def scope(starts: int) -> str:
    """What an interval over rounds speaks of, given how many starts of all ranks the rounds come from."""
    return "within one launch" if starts == 1 else f"of the rounds of {starts} starts pooled, not between starts"


@cache
def order_statistic_rank(n: int) -> tuple[int, float]:
    """The largest k for which [k-th smallest, k-th largest] of n covers the median with at least LEVEL.

    Returns k (0: there is none) and the coverage, 1 - 2 P(Binomial(n, 1/2) < k).
    """
    k = 0
    while 1 - 2 * binom.cdf(k, n, 0.5) >= LEVEL:
        k += 1
    return k, float(1 - 2 * binom.cdf(k - 1, n, 0.5)) if k else np.nan


def resamples(n: int, seed: int) -> np.ndarray:
    """Which rounds each resample holds: (RESAMPLES, n) indices."""
    return np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))


@cache
def tail_level(n: int) -> float:
    """The level of the bootstrap's lower percentile: Φ(-t), with t the quantile of n - 1 degrees of freedom.

    The plain percentiles are those of a known variance; these make up for that (Hesterberg 2015, What teachers should
    know about the bootstrap; his further factor √(n / (n-1)) belongs to means). Without them the interval of the
    median of 13 rounds covers 90.8 %.
    """
    return float(norm.cdf(-t.ppf((1 + LEVEL) / 2, n - 1)))


def autocorrelation(series: np.ndarray) -> float:
    """The lag-1 autocorrelation over rounds that series (n, m) share, 0 where it cannot be told from none.

    The mean over the series of their estimates, freed of the bias -(1 + 3r)/n (Kendall 1954), at most 0.9. That it is
    there is tested at 2.5 %, one-sided; the series sum to a constant, so they count as m - 1.
    """
    n, m = series.shape
    centred = series - series.mean(axis=0)
    power = (centred**2).sum(axis=0)
    if not (power > 0).all():  # nothing varies, or something is missing
        return 0.0
    found = float(np.mean((centred[1:] * centred[:-1]).sum(axis=0) / power))
    if (found + 1 / n) * np.sqrt(n * max(1, m - 1)) <= norm.ppf((1 + LEVEL) / 2):
        return 0.0
    return min(0.9, found + (1 + 3 * found) / n)


def widened(values: np.ndarray, draws: np.ndarray, rho: float) -> np.ndarray:
    """Draws about their values, on a scale where differences matter, √((1 + ρ)/(1 - ρ)) times as far from them: so
    much more does the mean of autocorrelated rounds vary than that of independent ones, which resampling makes them.

    At the rounds that are usual here this covers better than resampling blocks of rounds does.
    """
    return values + np.sqrt((1 + rho) / (1 - rho)) * (draws - values)


def of_draws(value: float, draws: np.ndarray, n: int, method: str = BOOTSTRAP) -> Estimate:
    """A value with the percentile interval of its draws (RESAMPLES,); none if one of them is not finite.

    Only the bootstrap's percentiles must make up for few rounds: draws over launches come from the t distribution.
    """
    if not (np.isfinite(value) and np.isfinite(draws).all()):
        return no_interval(value, n)
    tail = tail_level(n) if method == BOOTSTRAP else (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high), n, method, LEVEL, draws)


def of_rounds(value: float, per_round: np.ndarray) -> Estimate:
    """A value with the order-statistic interval of what each round alone says (n,); none below 6 rounds."""
    n = len(per_round)
    if n < ORDER_STATISTICS_FROM or not (np.isfinite(value) and np.isfinite(per_round).all()):
        return no_interval(value, n)
    k, coverage = order_statistic_rank(n)
    ordered = np.sort(per_round)
    # a ratio of medians may lie just outside the interval of the median ratio
    low, high = min(value, ordered[k - 1]), max(value, ordered[n - k])
    return Estimate(float(value), float(low), float(high), n, "order statistics", coverage)


def median(values: np.ndarray, seed: int) -> Estimate:
    """The median of values (n,) with its interval as the module describes; `MISSING` of no values."""
    n = len(values)
    if n == 0:
        return MISSING
    value = float(np.median(values))
    if n < BOOTSTRAP_FROM:
        return of_rounds(value, values)
    return of_draws(value, np.median(values[resamples(n, seed)], axis=-1), n)


def bootstrap(rounds: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], seed: int) -> Estimate:
    """`statistic` of rounds (n, m), as a function of (..., n, m); below 12 rounds without an interval."""
    n, value = len(rounds), float(statistic(rounds))
    if n < BOOTSTRAP_FROM:
        return no_interval(value, n)
    return of_draws(value, statistic(rounds[resamples(n, seed)]), n)
