"""What one launch cannot tell: intervals between launches.

Rounds of one launch share its luck (placement, memory layout, clocks), so that pooling the rounds of several launches
counts one lucky launch many times. Here the launch is the replicate: a t interval over one logarithm a launch
(Kalibera & Jones 2013, Rigorous benchmarking in reasonable time, two levels).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from kanstudy.analysis.intervals import LEVEL, Estimate, no_interval

LAUNCHES_FROM = 5
METHOD = "t over launches"


def between_launches(per_launch_log_estimates: Sequence[float] | np.ndarray) -> Estimate:
    """exp of the mean of the launches' log estimates, with exp of its t interval; `n` counts launches.

    Each number is the logarithm of what one launch alone says of a ratio or a time. Below 5 launches, or where one is
    not finite, there is no interval. Launches multiply: estimates of ratios that telescope in each launch telescope.
    Raises `ValueError` unless it is given a flat sequence.
    """
    logs = np.asarray(per_launch_log_estimates, dtype=float)
    if logs.ndim != 1:
        raise ValueError(f"per_launch_log_estimates of shape {logs.shape}: must be one number a launch")
    n = len(logs)
    value = float(np.exp(logs.mean())) if n else np.nan
    if n < LAUNCHES_FROM or not np.isfinite(logs).all():
        return no_interval(value, n)
    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * logs.std(ddof=1) / np.sqrt(n))
    return Estimate(value, value * np.exp(-half), value * np.exp(half), n, METHOD, LEVEL)
