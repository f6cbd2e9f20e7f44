"""The rounds of two operators, pair by pair: what each gives, what ranks give, and what both give together.

Both operators were measured in the same launch, on the same rank where one works alone, so that their rounds are pairs
(`paired_rounds`), which are resampled whole. Within an operator the arms are compared as elsewhere (`paired_arms`);
between operators counts the difference of their mean log times in a pair, its median over pairs. So all ratios multiply
exactly, draw by draw, and what slows one operator's round as a whole leaves the interaction alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kanstudy.analysis import metrics
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.launches import between_launches
from kanstudy.analysis.statistics.paired_rounds import PairedRounds
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


class PairedOperators(PairedRounds):
    """The rounds of two records of the same work under two operators, pair by pair; the undisturbed ones, or
    `all_rounds`. `is_measured` where there are pairs that hold all of `_ARMS`."""

    def __init__(self, slower: Record, faster: Record, all_rounds: bool = False) -> None:
        super().__init__(slower, faster, all_rounds)
        self.is_measured = self.n > 0 and all(part.has(*_ARMS) for part in self.arms)
        self._times_s = [part.times_s.loc[self.pairs] for part in self.arms]

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
        if self.by_launch:
            effects = np.array([_joined(*_medians(self._logs[rows])) for rows in self.of_launch])
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
        return self.median(1e3 * (times["ddp"] - times["ddp_noop"]).to_numpy())


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
