"""A record's timed blocks, round by round: the chain of times of the attribution, and which rounds were disturbed.

A block's time is that of its slowest rank (`metrics.block_time`). Whether a round was disturbed is told by covariates
alone, the share of its cores that others used and a fixed kernel timed beside it, never by the times themselves: what
is left out must not depend on what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.record import Record, Round
from kanstudy.spec import ARMS

FOREIGN_CPU_LIMIT = 0.05
"""Share of a rank's cores used by others above which a round counts as disturbed."""
CLOCK_GRAIN_S = 0.02
"""The kernel counts CPU time in ticks of 10 ms, so that a share is known to a tick at each end of the block."""
REFERENCE_KERNEL_LIMIT = 1.15
"""Reference kernel time over its median above which a round counts as disturbed."""
UNTRUSTED_ABOVE = 0.20
"""Share of disturbed rounds above which a point is not trusted."""

CHAIN = (
    "serial_global",
    "serial_local_mean",
    "serial_local",
    "concurrent",
    "ddp_noop",
    "ddp_noop_every_step",
    "ddp",
)
"""The chain of times. A column named like an arm is that arm's block time; `serial_local_mean` is the mean over
ranks of what `serial_local` takes the maximum of; `ddp_noop_every_step` has the slowest rank at every step."""


_NO_ROUNDS = pd.MultiIndex.from_arrays([[], []], names=["launch", "round"])


@dataclass(frozen=True)
class Blocks:
    """`times_s`: seconds a step, one row a complete round, indexed by (launch, round), the columns of `CHAIN` that
    the record has; `disturbed` (rounds,): the rounds whose covariates, never times, say that others interfered."""

    times_s: pd.DataFrame
    disturbed: np.ndarray

    @property
    def dropped(self) -> int:
        """Disturbed rounds."""
        return int(self.disturbed.sum())

    @property
    def trusted(self) -> bool:
        """Whether at most a fifth of the rounds was disturbed."""
        return self.dropped <= UNTRUSTED_ABOVE * len(self.disturbed)

    def selected(self, all_rounds: bool) -> pd.DataFrame:
        """The times of all rounds, or of the undisturbed ones; of all, too, where every round was disturbed."""
        return self.times_s if all_rounds or self.disturbed.all() else self.times_s[~self.disturbed]


def blocks(record: Record) -> Blocks:
    """The blocks of a record, its rounds in order; NaN where a rank's times are missing, no rows where nothing is
    measured."""
    columns: dict[str, dict[tuple[int, int], float]] = {}
    for arm in ARMS:
        for item in record.arms[arm].rounds if arm in record.arms else []:
            for column, value in _times(arm, item).items():
                columns.setdefault(column, {})[item.launch, item.index] = value
    frame = pd.DataFrame({column: pd.Series(columns[column], dtype=float) for column in CHAIN if column in columns})
    index = pd.MultiIndex.from_tuples(list(frame.index), names=["launch", "round"]) if len(frame) else _NO_ROUNDS
    frame = frame.set_axis(index).sort_index()
    disturbed = _disturbed_rounds(record)
    return Blocks(frame, np.array([key in disturbed for key in frame.index], dtype=bool))


def _times(arm: str, item: Round) -> dict[str, float]:
    times = item.rank_step_times_s
    values = {arm: metrics.block_time(times) if times else np.nan}
    if arm == "serial_local":
        values["serial_local_mean"] = float(np.mean(metrics.rank_mean_step_times(times)))
    if arm == "ddp_noop":
        values["ddp_noop_every_step"] = metrics.slowest_at_every_step(times)
    return values


def _disturbed_rounds(record: Record) -> set[tuple[int, int]]:
    """Rounds to drop whole: others used a rank's cores, or the machine itself was slow throughout the round.

    A reference kernel lasts milliseconds, so that one slow kernel tells nothing of its block of a second; what counts
    is the median over the round's arms, rank by rank. Each is taken relative to its own arm, rank and start: where
    all ranks run it at once it is slower than alone, a slower device is heterogeneity, and a start that is slow as a
    whole is what several launches are made for.
    """
    drifts: dict[tuple[int, int, int], list[float]] = {}
    disturbed = set()
    for arm in record.arms.values():
        kernels: dict[tuple[int, int, int], list[float]] = {}
        for item in arm.rounds:
            if _had_company(item):
                disturbed.add((item.launch, item.index))
            for rank, kernel in _kernels(item):
                kernels.setdefault((item.launch, item.attempt, rank), []).append(kernel)
        usual = {key: float(np.median(times)) for key, times in kernels.items()}
        for item in arm.rounds:
            for rank, kernel in _kernels(item):
                drift = kernel / usual[item.launch, item.attempt, rank]
                drifts.setdefault((item.launch, item.index, rank), []).append(drift)
    slow = {key[:2] for key, drift in drifts.items() if np.median(drift) > REFERENCE_KERNEL_LIMIT}
    return disturbed | slow


def _kernels(item: Round) -> list[tuple[int, float]]:
    """Each rank with its reference kernel's time, where it was taken."""
    pairs = zip(item.active_ranks, item.reference_kernel_s, strict=True)
    return [(rank, kernel) for rank, kernel in pairs if kernel is not None]


def _had_company(item: Round) -> bool:
    """Whether others used a rank's cores for more of the block than the limit and the clock's grain."""
    return any(
        share is not None and block_s and share > FOREIGN_CPU_LIMIT + CLOCK_GRAIN_S / block_s
        for share, block_s in zip(item.foreign_cpu_share, item.rank_block_times_s, strict=True)
    )
