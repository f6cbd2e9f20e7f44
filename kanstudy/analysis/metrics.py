"""The formulas of scaling studies. Pure: numbers in, numbers out, nothing clipped.

T is a step's time: the slowest active rank's mean time a step in a round, and its median over rounds. Every ratio
that two arms of one record give comes from `arm_log_medians`; other ratios are ratios of medians. Means of ratios
do not occur: a mean of 10/1.25, 10/2.5 and 20/2.5 answers no question that anyone asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Values = Any
"""A number, an array or a series of them; the result is of the same kind."""


def block_time(rank_step_times_s: Sequence[Sequence[float]]) -> float:
    """T of one arm in one round: the slowest active rank's mean time a step, s. Input is [active rank][step]."""
    return float(rank_mean_step_times(rank_step_times_s).max())  # NumPy's maximum of a NaN is NaN


def rank_mean_step_times(rank_step_times_s: Sequence[Sequence[float]]) -> np.ndarray:
    """Each active rank's mean time a step, s (ranks,); NaN where a rank has no steps or a time that is not > 0."""
    return np.array([_mean_time(steps) for steps in rank_step_times_s])


def slowest_at_every_step(rank_step_times_s: Sequence[Sequence[float]]) -> float:
    """The mean over steps of the slowest rank's time at that step, s: what a rank waits that must not run ahead.

    Always at least `block_time` (a mean of maxima is no smaller than any mean). NaN unless all ranks hold the same
    number of steps.
    """
    if len({len(steps) for steps in rank_step_times_s}) != 1 or not rank_step_times_s[0]:
        return np.nan
    times = np.array(rank_step_times_s, dtype=float)
    return float(times.max(axis=0).mean()) if (times > 0).all() else np.nan


def arm_log_medians(
    log_times: np.ndarray, arm_columns: Sequence[int], within: Mapping[int, int] | None = None
) -> np.ndarray:
    """Medians over rounds of log times free of the rounds' common drift: (..., rounds, m) to (..., m).

    Each round's mean log time over its arms (`arm_columns` of the m) is subtracted, so that a slow round slows no
    arm more than another; then each column's median is taken. The ratio of two columns is exp of the difference of
    their medians, and ratios of neighbours multiply exactly to the ratio of the ends.

    `within` names, for a column that is another statistic of an arm's own blocks, that arm: the block's noise is in
    both, so that the column stands the median of their difference away from the arm.
    """
    medians: np.ndarray = np.median(drift_free(log_times, arm_columns), axis=-2)
    for column, arm in (within or {}).items():
        apart = np.median(log_times[..., column] - log_times[..., arm], axis=-1)
        medians[..., column] = medians[..., arm] + apart
    return medians


def drift_free(log_times: np.ndarray, arm_columns: Sequence[int]) -> np.ndarray:
    """Log times (..., rounds, m) less each round's mean over its arms."""
    return log_times - log_times[..., list(arm_columns)].mean(axis=-1, keepdims=True)


def speed_up(t_base_s: Values, t_s: Values) -> Values:
    """S = T_base / T(p)."""
    return t_base_s / t_s


def karp_flatt(speed_up: Values, world_size: int) -> Values:
    """The experimentally determined serial fraction, (1/S - 1/p) / (1 - 1/p) (Karp & Flatt 1990).

    Raises `ValueError` at p = 1, which has none.
    """
    if world_size < 2:
        raise ValueError(f"world_size = {world_size}: must be at least 2, one rank has no serial fraction")
    return (1 / speed_up - 1 / world_size) / (1 - 1 / world_size)


def communication_overhead(t_noop_s: Values, t_ddp_s: Values) -> Values:
    """1 - T_noop / T_ddp: the share of a DDP step that synchronisation and data movement take."""
    return 1 - t_noop_s / t_ddp_s


def algorithm_bandwidth(message_bytes: float, time_s: Values) -> Values:
    """algbw = bytes / time, B/s."""
    return message_bytes / time_s


def bus_bandwidth(message_bytes: float, time_s: Values, world_size: int) -> Values:
    """busbw of an all-reduce, algbw 2(p-1)/p, B/s (nccl-tests, PERFORMANCE.md); NaN at p = 1: nothing moves."""
    factor = 2 * (world_size - 1) / world_size if world_size > 1 else np.nan
    return algorithm_bandwidth(message_bytes, time_s) * factor


def throughput(batch_size: int, t_s: Values) -> Values:
    """Rows trained a second: of all ranks from the global batch, of one from the local."""
    return batch_size / t_s


def parameters_per_byte(n_params: int, peak_memory_bytes: float) -> float:
    """Model parameters per byte of peak memory of a rank; 1/4 if float32 parameters were all there is."""
    return n_params / peak_memory_bytes


def _mean_time(steps: Sequence[float]) -> float:
    times = np.array(steps, dtype=float)  # null becomes NaN
    return float(times.sum() / len(times)) if len(times) and (times > 0).all() else np.nan
