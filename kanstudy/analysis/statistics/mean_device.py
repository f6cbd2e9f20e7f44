"""The serial step with the global batch, taken to the device of mean speed whichever rank ran it.

`serial_global` runs on one rank after another. Where devices differ, its median over rounds is that of the commonest
device, and jumps with the number of rounds: one slow device of eight would be booked as a loss of the small batch.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.record import Record

_EXPLAINED = 0.5
"""Share of the variance of `serial_global` over rounds that the ranks' speeds must explain to be believed."""
_STRAGGLER = 10.0
"""Median absolute deviations, of what the ranks' speeds leave, beyond which a round does not count in that share: one
straggler of a second among steps of milliseconds would hide every slow device."""


def of_mean_device(record: Record, times_s: pd.DataFrame) -> pd.DataFrame:
    """Times of rounds, indexed by (launch, round), with `serial_global` as the device of mean time would take it.

    How the ranks differ is known from `serial_local`, which every round measures on each of them: rank r's time of a
    step relative to the ranks' mean, its median over rounds. The times come back as they are where that was not
    measured, or does not explain what `serial_global` does from rank to rank: nothing is corrected on noise.
    """
    if not {"serial_global", "serial_local"} <= set(times_s.columns) or len(times_s) < 3:
        return times_s
    ranks = {(item.launch, item.index): tuple(item.active_ranks) for item in record.arms["serial_global"].rounds}
    relative: dict[int, list[float]] = {}
    for item in record.arms["serial_local"].rounds:
        if (item.launch, item.index) in times_s.index:
            means = metrics.rank_mean_step_times(item.rank_step_times_s)
            for rank, value in zip(item.active_ranks, np.log(means / means.mean()), strict=True):
                relative.setdefault(rank, []).append(value)
    usual: dict[tuple[int, ...], float] = {(rank,): float(np.median(values)) for rank, values in relative.items()}
    slower = pd.Series([usual.get(ranks[key], np.nan) for key in times_s.index], times_s.index)
    logs = pd.DataFrame(np.log(times_s.to_numpy()), times_s.index, times_s.columns)
    serial = logs["serial_global"]
    free = serial - logs.drop(columns="serial_global").mean(axis=1)  # of the rounds' drift
    own, left = _within_launches(free), _within_launches(free - slower)
    kept = np.abs(left) <= _STRAGGLER * np.median(np.abs(left))
    if np.isnan(left).any() or not np.var(left[kept]) < (1 - _EXPLAINED) * np.var(own[kept]):
        return times_s
    return times_s.assign(serial_global=np.exp(serial - slower))


def _within_launches(values: pd.Series) -> np.ndarray:
    """What rounds differ from their launch's median: how launches differ says nothing of how ranks do."""
    return (values - values.groupby(level="launch").transform("median")).to_numpy()
