from __future__ import annotations

import numpy as np
import pytest

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.launches import between_launches
from kanstudy.analysis.statistics.simultaneous import simultaneous


def test_one_bound_alone_is_the_symmetric_bootstrap_interval() -> None:
    draws = np.exp(np.random.default_rng(0).normal(0, 0.1, 4000))
    ((low, high),) = simultaneous([intervals.of_draws(1.0, draws, 20)])
    assert low == pytest.approx(1 / high, rel=0.03)
    assert 0.95 <= np.mean((draws >= low) & (draws <= high)) < 0.97
    assert simultaneous([]).shape == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [12, 13, 20, 40])
@pytest.mark.parametrize("tail", ["normal", "t of 3 degrees"])
def test_the_bounds_hold_for_all_factors_at_once(rounds: int, tail: str) -> None:
    """Simulated log times of the chain without any loss: all six factors lie within their bounds in 95 % of figures."""
    rng, figures, resamples = np.random.default_rng(rounds), 2000, 800
    held = 0
    for _ in range(figures):
        noise = rng.standard_normal((7, rounds)) if tail == "normal" else rng.standard_t(3, (7, rounds))
        log_times = 0.02 * (noise - noise[:5].mean(axis=0))
        drawn = np.sort(log_times[:, rng.integers(rounds, size=(resamples, rounds))], axis=-1)
        middle = (drawn[..., (rounds - 1) // 2] + drawn[..., rounds // 2]) / 2
        factors = np.exp(np.diff(np.median(log_times, axis=1)))
        draws = np.exp(np.diff(middle, axis=0))
        bounds = simultaneous([intervals.of_draws(*pair, rounds) for pair in zip(factors, draws, strict=True)])
        held += bool((bounds[:, 0] <= 1).all() and (bounds[:, 1] >= 1).all())
    assert held / figures >= 0.93


@pytest.mark.parametrize("launches", [5, 8])
def test_bounds_of_several_factors_hold_for_all_at_once(launches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "RESAMPLES", 10)  # of which the bounds over launches make no use
    rng = np.random.default_rng(launches)
    held = []
    for seed in range(2000):
        logs = rng.standard_normal((launches, 6)) * [1, 1, 2, 2, 5, 5] / 100
        logs[:, 1] += logs[:, 0]
        bounds = simultaneous([between_launches(column, seed) for column in logs.T])
        held.append(bool(((bounds[:, 0] <= 1) & (bounds[:, 1] >= 1)).all()))
    assert 0.94 <= np.mean(held) <= 0.985
