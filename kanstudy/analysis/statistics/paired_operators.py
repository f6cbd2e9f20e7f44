"""The rounds of two operators, pair by pair: what each gives, what ranks give, and what both give together.

Both operators were measured in the same launch, one round of each in every pass over the points, on the same rank
where one works alone. So rounds are paired by launch and number, a pair disturbed in either is left out, and pairs are
resampled whole. Within an operator the arms are compared as elsewhere (`paired_arms`); between operators counts the
difference of their mean log times in a pair, its median over pairs. So all ratios multiply exactly, draw by
draw, and what slows one operator's round as a whole leaves the interaction alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.blocks import UNTRUSTED_ABOVE
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.launches import LAUNCHES_FROM, between_launches, over_launches, rows_of_launches
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record

_ARMS = ["serial_global", "ddp_noop", "ddp"]
_POWERS = {
    "operator_speedup": ([1, 0, 0], [-1, 0, 0]),
    "ranks_speedup": ([1, 0, -1], [0, 0, 0]),
    "ranks_speedup_faster": ([0, 0, 0], [1, 0, -1]),
    "together": ([1, 0, 0], [0, 0, -1]),
    "product": ([2, 0, -1], [-1, 0, 0]),
    "interaction": ([-1, 0, 1], [1, 0, -1]),
    "computation": ([-1, 1, 0], [1, -1, 0]),
    "communication": ([0, -1, 1], [0, 1, -1]),
    "computing": ([0, 1, -1], [0, 0, 0]),
    "computing_faster": ([0, 0, 0], [0, 1, -1]),
}
"""Each ratio as powers of the times of `_ARMS`, under the slower operator and under the faster."""
RATIOS = tuple(_POWERS)[:-2]


class PairedOperators:
    """The rounds of two records of the same work under two operators, pair by pair: those undisturbed in both (or,
    with `all_rounds`, all); `disturbed` (pairs,) says which are not."""

    def __init__(self, slower: Record, faster: Record, all_rounds: bool = False) -> None:
        arms = [PairedArms(record, all_rounds) for record in (slower, faster)]
        self.trusted = all(part.blocks.trusted for part in arms)
        marked = [pd.Series(part.blocks.disturbed, part.blocks.times_s.index) for part in arms]
        every = marked[0].index.intersection(marked[1].index)
        pairs = arms[0].times_s.index.intersection(arms[1].times_s.index)
        self.n = len(pairs)
        self._of_launch = rows_of_launches(pairs)
        self.is_measured = self.n > 0 and all(part.has(*_ARMS) for part in arms)
        self.n_disturbed = int((marked[0][every] | marked[1][every]).sum())
        self.trusted &= self.n_disturbed <= UNTRUSTED_ABOVE * len(every)
        self.disturbed = (marked[0][pairs] | marked[1][pairs]).to_numpy(bool)
        self.seed = intervals.seed_of(f"{slower.point_id} {faster.point_id}")
        self._times_s = [part.times_s.loc[pairs] for part in arms]

    @cached_property
    def _logs(self) -> np.ndarray:
        """Log times (pairs, 2 operators, 3 arms)."""
        return np.log(np.stack([times[_ARMS].to_numpy() for times in self._times_s], axis=1))

    @cached_property
    def _effects(self) -> np.ndarray:
        """The operators' log times over pairs (2, 3), but for a common constant."""
        return _joined(*_medians(self._logs))

    @cached_property
    def _resampled(self) -> np.ndarray:
        """The same of each resample (resamples, 2, 3), wider where pairs resemble the one before."""
        within, between = _medians(self._logs)
        drawn_within, drawn_between = _medians(self._logs[intervals.resamples(self.n, self.seed)])
        apart, levels = _split(self._logs)
        rho_within = intervals.autocorrelation(apart.reshape(self.n, -1))
        rho_between = intervals.autocorrelation((levels[:, 0] - levels[:, 1])[:, None])
        return _joined(
            intervals.widened(within, drawn_within, rho_within),
            intervals.widened(between, drawn_between, rho_between),
        )

    def ratio(self, name: str) -> Estimate:
        """One of the ratios of this module, by its column's name; `MISSING` without pairs."""
        if not self.is_measured:
            return MISSING
        powers = np.array(_POWERS[name], dtype=float)
        value = float(_power_product(self._effects, powers))
        if len(self._of_launch) >= LAUNCHES_FROM:
            effects = np.array([_joined(*_medians(self._logs[rows])) for rows in self._of_launch])
            return between_launches(np.log(_power_product(effects, powers)), self.seed)
        if self.n >= intervals.BOOTSTRAP_FROM:
            return intervals.of_draws(value, _power_product(self._resampled, powers), self.n)
        return intervals.of_rounds(value, self.per_round(name))

    def per_round(self, name: str) -> np.ndarray:
        """What each pair of rounds alone says of a ratio (pairs,)."""
        return _power_product(self._logs, np.array(_POWERS[name], dtype=float))

    def overhead(self, which: str = "") -> Estimate:
        """1 - T_noop/T(p) under the slower operator, or under the `_faster`."""
        return self.ratio(f"computing{which}").mapped(lambda ratio: metrics.communication_overhead(ratio, 1.0))

    def exposed_ms(self, which: str = "") -> Estimate:
        """The median over pairs of T(p) - T_noop, ms, under the slower operator, or under the `_faster`."""
        if not self.is_measured:
            return MISSING
        times = self._times_s[which == "_faster"]
        apart = 1e3 * (times["ddp"] - times["ddp_noop"]).to_numpy()
        if len(self._of_launch) >= LAUNCHES_FROM:
            return over_launches([np.median(apart[rows]) for rows in self._of_launch], self.seed)
        return intervals.median(apart, self.seed)


def _split(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log times (..., 2, 3) as each operator's mean over its arms (..., 2) and what is left (..., 2, 3)."""
    levels = logs.mean(axis=-1)
    return logs - levels[..., None], levels


def _medians(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log times (..., pairs, 2, 3) to medians over pairs: within each operator (..., 2, 3), and between both (...)."""
    apart, levels = _split(logs)
    return np.median(apart, axis=-3), np.median(levels[..., 0] - levels[..., 1], axis=-1)


def _joined(within: np.ndarray, between: np.ndarray) -> np.ndarray:
    return within + between[..., None, None] * np.array([[0.5], [-0.5]])


def _power_product(logs: np.ndarray, powers: np.ndarray) -> np.ndarray:
    return np.exp((logs * powers).sum(axis=(-2, -1)))
