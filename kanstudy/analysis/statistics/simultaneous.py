"""Bounds that hold for several estimates at once.

They are max-t bounds on the log scale (Romano & Wolf 2005; for the bootstrap, Efron & Tibshirani 1993): each estimate's
draws less its value, over their standard deviation; the 95 % quantile of the largest such |t| over all estimates.
Estimates of one record share their resamples, so that their correlation counts; different records are resampled
independently. Between launches they are t intervals at Bonferroni's level instead: correlations of six factors that
five launches tell overfit, and max-t bounds from them hold for all factors in 88 % of draws only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate

NO_SPREAD = 1e-9
"""Of logarithms that differ by rounding alone."""


def simultaneous(estimates: Sequence[Estimate]) -> np.ndarray:
    """Lower and upper bounds (n, 2) that hold for all n positive estimates at once with 95 % probability.

    All must have draws; draws of the same number belong to the same resample, or to independent ones. Each estimate
    over launches takes its n-th part of the 5 %, the others together what is left. No bound is inside of the
    estimate's own interval, which is not symmetric.
    """
    if not estimates:
        return np.empty((0, 2))
    logs = np.log([estimate.value for estimate in estimates])
    own = np.array([[estimate.low, estimate.high] for estimate in estimates])
    alpha = (1 - intervals.LEVEL) / len(estimates)
    by_launch = np.array([estimate.method == intervals.OVER_LAUNCHES for estimate in estimates])
    half = np.zeros(len(logs))
    for index in map(int, np.flatnonzero(by_launch)):
        freedom = estimates[index].n - 1
        wider = t.ppf(1 - alpha / 2, freedom) / t.ppf((1 + intervals.LEVEL) / 2, freedom)
        half[index] = wider * np.diff(np.log(own[index])).item() / 2
    if not by_launch.all():
        half[~by_launch] = _max_t(
            [estimate for estimate in estimates if estimate.method != intervals.OVER_LAUNCHES],
            1 - alpha * (~by_launch).sum(),
        )
    low, high = np.exp(logs - half), np.exp(logs + half)
    return np.stack([np.minimum(low, own[:, 0]), np.maximum(high, own[:, 1])], axis=1)


def _max_t(estimates: Sequence[Estimate], level: float) -> np.ndarray:
    """How far the max-t bounds of bootstrapped estimates lie from them on the log scale, (n,)."""
    logs = np.log([estimate.value for estimate in estimates])
    deviations = np.log([estimate.draws for estimate in estimates if estimate.draws is not None]) - logs[:, None]
    spread = deviations.std(axis=1)
    moves = spread > NO_SPREAD
    half = np.zeros(len(logs))
    if moves.any():
        largest = np.abs(deviations[moves] / spread[moves, None]).max(axis=0)
        half[moves] = np.quantile(largest, level) * spread[moves]
    return half
