"""Waiting for the slowest rank: the spread of step times in three parts, and what p ranks make of it.

- persistent: some ranks are slower for good. Their means are known of the calibrated ranks, further ranks are drawn
  from a log-normal of the same variance;
- correlated: all ranks of a block are slow at the same step. Nobody waits for that;
- independent: each rank by itself. At every step the slowest of p holds up all, so that its tail counts: it is drawn
  from the measured steps themselves, in runs, as neighbouring steps resemble each other (the circular block bootstrap
  of Politis & Romano 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STEPS_A_RANK = 10
"""Measured steps that each predicted rank needs: the mean of the slowest of p lies about the quantile 1 - 1/p, of which
fewer than ten steps beyond it tell nothing."""
_LONGEST_RUN = 1024
"""Steps of a drawn block at most."""


class TooFewSteps(ValueError):
    """The measured steps do not reach the tail that so many ranks wait for."""


@dataclass(frozen=True)
class Waits:
    """Draws (n,): the `mean` rank; the slowest in blocks, one rank after another (`alone`) or all at once (`block`);
    the slowest at `every` step."""

    mean: np.ndarray
    alone: np.ndarray
    block: np.ndarray
    every: np.ndarray

    @property
    def expected(self) -> Waits:
        """The means over the draws, as one."""
        return Waits(*(part.mean(keepdims=True) for part in vars(self).values()))

    def repeated(self, count: int) -> Waits:
        """So many draws, these again and again."""
        return Waits(*(np.resize(part, count) for part in vars(self).values()))


@dataclass(frozen=True, kw_only=True)
class StepSpread:
    """`ratios`: step times over the rank's own mean, block after block; `correlated_share` of the variance of their
    logarithms is common to the ranks of a block. `block_sd`: by how much blocks differ, which ranks at once share."""

    ratios: tuple[float, ...]
    correlated_share: float
    block_sd: float

    @property
    def n_steps(self) -> int:
        """Measured steps."""
        return len(self.ratios)

    def check(self, p: int) -> None:
        """Raise `TooFewSteps` where the steps do not reach the tail of the slowest of p."""
        if p > 1 and self.n_steps < STEPS_A_RANK * p:
            raise TooFewSteps(
                f"world size {p}: the wait for the slowest of {p} ranks needs {STEPS_A_RANK * p} step times of ranks"
                f" that run at once ({STEPS_A_RANK} a rank), {self.n_steps} are calibrated"
            )

    def waits(self, slowness: np.ndarray, steps: int, rng: np.random.Generator) -> Waits:
        """Of ranks of such slowness (draws, p) in blocks of so many steps; each over the time of the nominal device."""
        draws, p = slowness.shape
        if not self.ratios:
            slowest = slowness.max(axis=1)
            return Waits(slowness.mean(axis=1), slowest, slowest, slowest)
        factors = 1 + np.sqrt(1 - self.correlated_share) * (np.array(self.ratios) - 1)
        run = np.arange(min(steps, _LONGEST_RUN))
        alone, block, every = np.empty(draws), np.empty(draws), np.empty(draws)
        for draw in range(draws):
            starts: np.ndarray = rng.integers(len(factors), size=(p, 1))
            places = (starts + run) % len(factors)
            times = slowness[draw][:, None] * factors[places]
            means = times.mean(axis=1)
            alone[draw] = (means * np.exp(self.block_sd * rng.standard_normal(p))).max()
            block[draw], every[draw] = means.max(), times.max(axis=0).mean()
        return Waits(slowness.mean(axis=1), alone, block, every)


def spread_of(blocks: Sequence[np.ndarray], block_sd: float) -> StepSpread:
    """The spread of blocks (ranks, steps) of step times, each rank's over its own mean.

    From round to round blocks differ by `block_sd`, which contains the ranks' own levels, over the ranks of a block.
    """
    together = [np.log(block) for block in blocks if len(block) > 1]
    common = own = 0.0
    for logs in together:
        centred = logs - logs.mean(axis=1, keepdims=True)
        covariance = centred @ centred.T / (logs.shape[1] - 1)
        n = len(logs)
        own += float(np.trace(covariance)) / n
        common += float(covariance.sum() - np.trace(covariance)) / (n * (n - 1))
    share = min(max(common / own, 0.0), 1.0) if own > 0 else 0.0
    levels = [np.log(block.mean(axis=1)) for block in blocks]
    own_levels = float(np.mean([(level**2).mean() / len(level) for level in levels])) if blocks else 0.0
    shared_sd = float(np.sqrt(max(0.0, block_sd**2 - own_levels)))
    ratios = np.concatenate([block.ravel() for block in blocks]) if blocks else np.empty(0)
    return StepSpread(ratios=tuple(np.round(ratios, 5).tolist()), correlated_share=share, block_sd=shared_sd)


@dataclass(frozen=True, kw_only=True)
class RankSpread:
    """How ranks differ for good: `slowness` of the calibrated ones, 1 on average, and `sd` of its logarithm over all
    devices of the kind, known from as many."""

    slowness: tuple[float, ...] = (1.0,)
    sd: float = 0.0

    def draws(self, p: int, count: int, rng: np.random.Generator, is_certain: bool = False) -> np.ndarray:
        """Slowness of p ranks (count, p): the calibrated ones, and others drawn.

        Their variance is uncertain, too, unless `is_certain`: a scaled inverse chi-square whose prior counts as one
        more rank (the unit-information prior of Kass & Wasserman 1995).
        """
        known = np.array(self.slowness[:p])
        drawn = np.tile(known, (count, 1))
        if p == len(known):
            return drawn
        n = len(self.slowness)
        sd = np.full(count, self.sd)
        if not is_certain:
            sd = self.sd * np.sqrt(n / rng.chisquare(n, count))
        others = np.exp(sd[:, None] * rng.standard_normal((count, p - len(known))))
        return np.concatenate([drawn, others], axis=1)


def ranks_of(rank_logs: Sequence[np.ndarray]) -> RankSpread:
    """From how much longer each rank alone takes than the ranks' mean (launches, ranks), of several points.

    What the points and launches scatter is taken from the variance between ranks; what is left shrinks the ranks'
    differences (James & Stein 1961), so that of noise no rank is called slow.
    """
    if not rank_logs:
        return RankSpread()
    logs = np.concatenate(list(rank_logs))
    means, n = logs.mean(axis=0), logs.shape[1]
    error = logs.var(axis=0, ddof=1).mean() / len(logs) if len(logs) > 1 else 0.0
    total = float(means.var(ddof=1))
    real = max(0.0, total - float(error))
    if real == 0:
        return RankSpread(slowness=(1.0,) * n)
    slowness = np.exp(real / total * (means - means.mean()))
    return RankSpread(slowness=tuple((slowness / slowness.mean()).tolist()), sd=float(np.sqrt(real)))
