from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from kanstudy.analysis.calibration.spread import RankSpread, StepSpread, TooFewSteps, ranks_of, spread_of

RNG = np.random.default_rng


def blocks(ranks: int, steps: int, count: int, common: float, own: float, seed: int = 0) -> list[np.ndarray]:
    rng = RNG(seed)
    drawn = common * rng.standard_normal((count, 1, steps)) + own * rng.standard_normal((count, ranks, steps))
    return list(np.exp(drawn))


@pytest.mark.parametrize(("common", "own", "share"), [(0.0, 0.1, 0.0), (0.1, 0.1, 0.5), (0.1, 0.0, 1.0)])
def test_what_ranks_have_in_common_is_told_apart(common: float, own: float, share: float) -> None:
    found = spread_of(blocks(3, 200, 40, common, own), 0.0)
    assert found.correlated_share == pytest.approx(share, abs=0.03)
    assert found.n_steps == 3 * 200 * 40


@pytest.mark.parametrize("p", [2, 16, 256])
def test_ranks_wait_for_the_slowest_of_their_own_steps_and_not_for_what_they_share(p: int) -> None:
    sd = 0.05
    spread = spread_of(blocks(4, 100, 60, 0.05, sd), 0.0)
    waits = spread.waits(np.ones((40, p)), 100, RNG(1))
    places = np.linspace(0.0005, 0.9995, 4000)
    slowest = np.mean(np.exp(sd * norm.ppf(places ** (1 / p))))  # the mean of the largest of p
    assert waits.every.mean() == pytest.approx(slowest, rel=0.01)
    assert (waits.block <= waits.every + 1e-12).all()
    assert waits.mean == pytest.approx(1.0)


def test_a_long_run_averages_out_and_a_slow_rank_does_not() -> None:
    spread = spread_of(blocks(2, 100, 60, 0.0, 0.1), 0.0)
    short, long = (spread.waits(np.ones((50, 8)), steps, RNG(0)).block.mean() for steps in (10, 1000))
    assert 1 < long < short
    slow = np.ones((50, 8))
    slow[:, 3] = 1.3
    assert spread.waits(slow, 1000, RNG(0)).block.mean() == pytest.approx(1.3, rel=0.01)


def test_blocks_of_one_rank_after_another_differ_as_blocks_do() -> None:
    spread = StepSpread(ratios=(1.0,) * 100, correlated_share=0.0, block_sd=0.02)
    waits = spread.waits(np.ones((400, 2)), 10, RNG(0))
    assert waits.block == pytest.approx(1.0)
    assert waits.alone.mean() == pytest.approx(1 + 0.02 / np.sqrt(np.pi), abs=0.003)


def test_so_many_ranks_need_ten_steps_each() -> None:
    def steps(n: int) -> StepSpread:
        return StepSpread(ratios=(1.0,) * n, correlated_share=0.0, block_sd=0.0)

    steps(10_240).check(1024)
    steps(0).check(1)
    with pytest.raises(TooFewSteps, match=r"world size 1024: .* needs 10240 step times .* 10000 are calibrated"):
        steps(10_000).check(1024)


def test_ranks_that_differ_by_noise_alone_are_called_equal() -> None:
    noise = [0.01 * RNG(seed).standard_normal((1, 4)) for seed in range(8)]
    found = ranks_of([logs - logs.mean() for logs in noise])
    assert max(found.slowness) < 1.005
    assert found.sd < 0.005


def test_slow_ranks_are_found_and_further_ones_are_drawn_as_different() -> None:
    true = np.array([0.05, -0.05, 0.02, -0.02])
    found = ranks_of([true[None] + 0.001 * RNG(seed).standard_normal((1, 4)) for seed in range(8)])
    assert np.log(found.slowness) == pytest.approx(true, abs=0.003)
    draws = found.draws(500, 50, RNG(0), is_certain=True)
    assert draws[:, :4] == pytest.approx(np.tile(found.slowness, (50, 1)))
    assert np.log(draws[:, 4:]).std() == pytest.approx(true.std(ddof=1), rel=0.05)
    uncertain = np.log(found.draws(500, 400, RNG(0))[:, 4:]).std(axis=1)
    assert uncertain.min() < 0.7 * true.std(ddof=1)
    assert uncertain.max() > 1.5 * true.std(ddof=1)


def test_without_ranks_side_by_side_all_are_alike() -> None:
    assert ranks_of([]) == RankSpread()
    assert (RankSpread().draws(3, 2, RNG(0)) == 1).all()
