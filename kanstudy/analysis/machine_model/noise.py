"""What is random on a simulated machine: steps, blocks, rounds and launches.

All factors are log-normal around the noise-free time: a step's has mean 1, a block's, a round's and a launch's have
median 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from kanstudy.spec import is_number, is_whole


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations (`_sd`) are of the logarithm; nothing is random by default.

    - steps, on each rank by itself: an independent part `step_sd`; an autocorrelated one `slow_step_sd` whose
      correlation from step to step is `slow_step_correlation`; a share `straggler_share` of steps lasts
      `straggler_factor` times as long; the first `cold_steps` of a block last `cold_factor` times as long;
    - blocks: `block_sd`, whose correlation from round to round of an arm is `block_correlation`;
    - rounds: all blocks slow down by `drift_per_round` (of the logarithm), evenly in time, and by `level_shift` at once
      at one moment of each launch;
    - launches: every arm's own shift `launch_sd`, the same in all rounds of a launch;
    - bursts: a share `burst_share` of rounds is disturbed, half of its blocks at random: others take a share
      `burst_foreign_cpu` of the cores, so that all there, the reference kernel too, lasts 1/(1 - share) times as long.

    Raises `ValueError` naming field, value and what is allowed.
    """

    step_sd: float = 0.0
    slow_step_sd: float = 0.0
    slow_step_correlation: float = 0.9
    straggler_share: float = 0.0
    straggler_factor: float = 1.0
    cold_steps: int = 0
    cold_factor: float = 1.0
    block_sd: float = 0.0
    block_correlation: float = 0.0
    drift_per_round: float = 0.0
    level_shift: float = 0.0
    launch_sd: float = 0.0
    burst_share: float = 0.0
    burst_foreign_cpu: float = 0.5

    def __post_init__(self) -> None:
        below_one = (
            "slow_step_correlation",
            "block_correlation",
            "burst_foreign_cpu",
            "straggler_share",
            "burst_share",
        )
        for item in fields(self):
            value = getattr(self, item.name)
            number = is_number(value)
            if item.name in below_one:
                good, allowed = number and 0 <= value < 1, "a number from 0 to below 1"
            elif item.name.endswith("_factor"):
                good, allowed = number and value > 0, "a number > 0"
            elif item.name == "cold_steps":
                good, allowed = is_whole(value, 0), "a whole number >= 0"
            elif item.name in ("drift_per_round", "level_shift"):
                good, allowed = number, "a number"
            else:
                good, allowed = number and value >= 0, "a number >= 0"
            if not good:
                raise ValueError(f"{item.name} = {value!r}: must be {allowed}")

    def step_factors(self, shape: tuple[int, ...], warmed: int, rng: np.random.Generator) -> np.ndarray:
        """Factors of single steps (..., ranks, steps), the first of them after `warmed` steps of warm-up."""
        factors = np.ones(shape)
        if self.step_sd:
            factors *= np.exp(self.step_sd * rng.standard_normal(shape) - self.step_sd**2 / 2)
        if self.slow_step_sd:
            slow = autocorrelated(shape, self.slow_step_correlation, rng)
            factors *= np.exp(self.slow_step_sd * slow - self.slow_step_sd**2 / 2)
        if self.straggler_share:
            factors[rng.random(shape) < self.straggler_share] *= self.straggler_factor
        factors[..., : max(0, self.cold_steps - warmed)] *= self.cold_factor
        return factors

    def block_factors(self, launches: int, rounds: int, blocks: int, rng: np.random.Generator) -> np.ndarray:
        """Factors of an arm's blocks (launches, rounds, blocks): block noise and the launch's shift."""
        factors = np.ones((launches, rounds, blocks))
        if self.block_sd:
            noise = autocorrelated((launches, blocks, rounds), self.block_correlation, rng)
            factors *= np.exp(self.block_sd * np.swapaxes(noise, 1, 2))
        if self.launch_sd:
            factors *= np.exp(self.launch_sd * rng.standard_normal((launches, 1, 1)))
        return factors


def autocorrelated(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Standard normal numbers of which each depends on the one before along the last axis (AR(1), stationary)."""
    innovations = rng.standard_normal(shape)
    if correlation == 0:
        return innovations
    from scipy.signal import lfilter  # takes a second to import, and only draws need it

    innovations[..., 1:] *= math.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], innovations, axis=-1)
