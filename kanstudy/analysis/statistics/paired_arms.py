"""Ratios of the arms of one record, compared round by round so that the machine's drift falls out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.launches import LAUNCHES_FROM, between_launches, over_launches, rows_of_launches
from kanstudy.analysis.statistics.mean_device import of_mean_device
from kanstudy.record import Record
from kanstudy.spec import ARMS

WITHIN = {"serial_local_mean": "serial_local", "ddp_noop_every_step": "ddp_noop"}
"""Columns that are another statistic of an arm's own blocks, with that arm."""


class PairedArms:
    """The arms of a record over its undisturbed rounds (or, with `all_rounds`, over all).

    `ratio` of two columns of `blocks.CHAIN` is exp of the difference of their medians, after each round's mean log
    time over its arms is subtracted (`metrics.arm_log_medians`). All ratios of a record share their resamples, so
    ratios multiply exactly, draw by draw too.

    From 5 launches on each launch says its own, and the estimate is the mean over launches on the log scale with its
    t interval (`between_launches`); rounds of fewer launches are pooled.
    """

    def __init__(self, record: Record, all_rounds: bool = False) -> None:
        self.blocks = blocks(record)
        self.times_s = of_mean_device(record, self.blocks.selected(all_rounds))
        self.seed = intervals.seed_of(record.point_id)
        self.n = len(self.times_s)
        self._of_launch = rows_of_launches(self.times_s.index)
        self._place = {column: index for index, column in enumerate(self.times_s.columns)}

    def has(self, *columns: str) -> bool:
        """Whether there are rounds of all these columns."""
        return self.n > 0 and all(column in self._place for column in columns)

    @property
    def launches(self) -> int:
        """Launches that the rounds come from."""
        return len(self._of_launch)

    @property
    def by_launch(self) -> bool:
        """Whether the launch is the replicate, not the round."""
        return self.launches >= LAUNCHES_FROM

    def time(self, column: str) -> Estimate:
        """The median time a step over rounds, s."""
        if not self.has(column):
            return MISSING
        times = self.times_s[column].to_numpy()
        if not self.by_launch:
            return intervals.median(times, self.seed)
        return between_launches([np.log(np.median(times[rows])) for rows in self._of_launch], self.seed)

    def median(self, per_round: pd.Series | np.ndarray) -> Estimate:
        """The median over rounds of what each round says (n,), of any sign; over launches the mean of theirs."""
        values = np.asarray(per_round, dtype=float)
        if not self.by_launch:
            return intervals.median(values, self.seed)
        return over_launches([np.median(values[rows]) for rows in self._of_launch], self.seed)

    def ratio(self, numerator: str, denominator: str, scale: float = 1.0) -> Estimate:
        """The ratio of two columns' times, times `scale`; `MISSING` where one is not measured."""
        if not self.has(numerator, denominator):
            return MISSING
        i, j = self._place[numerator], self._place[denominator]
        if self.by_launch:
            return between_launches(np.log(scale) + self._launch_medians[:, i] - self._launch_medians[:, j], self.seed)
        value = scale * float(np.exp(self._medians[i] - self._medians[j]))
        if self.n >= intervals.BOOTSTRAP_FROM:
            return intervals.of_draws(value, scale * np.exp(self._draws[:, i] - self._draws[:, j]), self.n)
        return intervals.of_rounds(value, scale * np.exp(self._logs[:, i] - self._logs[:, j]))

    def ratio_of_means(self, numerator: str, denominator: str, scale: float = 1.0) -> Estimate:
        """The ratio of the mean times, times `scale`: unlike medians, means feel every stall."""
        if not self.has(numerator, denominator):
            return MISSING
        rounds = self.times_s[[numerator, denominator]].to_numpy()

        def ratio(rounds: np.ndarray) -> np.ndarray:
            means = rounds.mean(axis=-2)
            return scale * means[..., 0] / means[..., 1]

        if self.by_launch:
            return between_launches([np.log(ratio(rounds[rows])) for rows in self._of_launch], self.seed)
        return intervals.bootstrap(rounds, ratio, self.seed)

    @cached_property
    def _logs(self) -> np.ndarray:
        return np.log(self.times_s.to_numpy())

    @cached_property
    def _arms(self) -> list[int]:
        return [index for column, index in self._place.items() if column in ARMS]

    @cached_property
    def _within(self) -> dict[int, int]:
        return {self._place[column]: self._place[arm] for column, arm in WITHIN.items() if column in self._place}

    @cached_property
    def _medians(self) -> np.ndarray:
        return metrics.arm_log_medians(self._logs, self._arms, self._within)

    @cached_property
    def _launch_medians(self) -> np.ndarray:
        logs = [self._logs[rows] for rows in self._of_launch]
        return np.array([metrics.arm_log_medians(rounds, self._arms, self._within) for rounds in logs])

    @cached_property
    def _draws(self) -> np.ndarray:
        resampled = self._logs[intervals.resamples(self.n, self.seed)]
        draws = metrics.arm_log_medians(resampled, self._arms, self._within)
        rho = intervals.autocorrelation(metrics.drift_free(self._logs, self._arms)[:, self._arms])
        return intervals.widened(self._medians, draws, rho)
