"""What one launch cannot tell: intervals between launches.

Rounds of one launch share its luck (placement, memory layout, clocks), so that pooling the rounds of several launches
counts one lucky launch many times. Here the launch is the replicate: a t interval over one number a launch
(Kalibera & Jones 2013, Rigorous benchmarking in reasonable time, two levels).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import LEVEL, OVER_LAUNCHES, Estimate, no_interval

LAUNCHES_FROM = 5


def scope_of(starts: int, launches: int) -> str:
    """What intervals speak of, given how many starts of all ranks and how many launches the rounds come from."""
    return f"between {launches} launches" if launches >= LAUNCHES_FROM else intervals.scope(starts)


def rows_of_launches(index: pd.Index) -> list[np.ndarray]:
    """The positions of each launch's rounds in an index of (launch, round)."""
    launches = index.get_level_values("launch")
    return [np.flatnonzero(launches == launch) for launch in launches.unique()]


def over_launches(per_launch: Sequence[float] | np.ndarray, seed: int = 0) -> Estimate:
    """The mean of one number a launch with its t interval; `n` counts launches.

    Below 5 launches, or where a number is not finite, there is no interval. `draws` are of the t distribution about
    the mean, from the launches' own deviations: with the same seed those of several quantities of the same launches
    are of their multivariate t distribution, and a sum's draws are the sum of its parts' draws.
    Raises `ValueError` unless it is given a flat sequence.
    """
    values = np.asarray(per_launch, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"per_launch of shape {values.shape}: must be one number a launch")
    n = len(values)
    mean = float(values.mean()) if n else np.nan
    if n < LAUNCHES_FROM or not np.isfinite(values).all():
        return no_interval(mean, n)
    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((intervals.RESAMPLES, n))
    scales = np.sqrt(n * rng.chisquare(n - 1, intervals.RESAMPLES))
    draws = mean + directions @ (values - mean) / scales
    return Estimate(mean, mean - half, mean + half, n, OVER_LAUNCHES, LEVEL, draws)


def between_launches(per_launch_log_estimates: Sequence[float] | np.ndarray, seed: int = 0) -> Estimate:
    """exp of `over_launches`: each number is the logarithm of what one launch alone says of a ratio or a time.

    Launches multiply: estimates of ratios that telescope in each launch telescope, draw by draw too.
    """
    return over_launches(per_launch_log_estimates, seed).mapped(np.exp)
