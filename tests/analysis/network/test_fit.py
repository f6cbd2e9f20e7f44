"""Constants of a network are found again from its own all-reduces, with an interval that holds them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from kanstudy.analysis.network.fit import MESSAGES, fit_network
from kanstudy.analysis.network.network import Link, Network
from kanstudy.network_words import ALGORITHMS

SIZES = [2**power for power in range(10, 27, 2)]
BOTH = [(2,), (1, 1), (2, 2), (1, 1, 1, 1)]
TRUE = Network(
    inside=Link(latency_s=8e-6, bytes_per_s=11e9), between=Link(latency_s=2e-5, bytes_per_s=6e9), name="true"
)
CONSTANTS = [("inside", "latency_s"), ("inside", "bytes_per_s"), ("between", "latency_s"), ("between", "bytes_per_s")]


def messages(network: Network, layouts: list[tuple[int, ...]], noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        (size, layout, network.allreduce_s(size, layout) * np.exp(noise * rng.standard_normal()))
        for layout in layouts
        for size in SIZES
    ]
    return pd.DataFrame(rows, columns=list(MESSAGES))


def constants(network: Network) -> list[float]:
    return [getattr(getattr(network, tier), name) for tier, name in CONSTANTS]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_constants_of_both_tiers_are_found_again(algorithm):
    true = dataclasses.replace(TRUE, algorithm=algorithm)
    found = fit_network(messages(true, BOTH), Network(algorithm=algorithm, name="fitted", basis="measured"))
    assert found.reason == ""
    assert constants(found.network) == pytest.approx(constants(true), rel=1e-4)
    assert (found.network.name, found.network.basis) == ("fitted", "measured")
    assert found.tiers == ("inside", "between")


def test_intervals_and_draws_hold_the_truth_as_often_as_they_say():
    held, inside, bands = [], 0, []
    target = (2**20, (2, 2))
    for seed in range(60):
        found = fit_network(messages(TRUE, BOTH, noise=0.05, seed=seed), Network())
        estimates = [found.fit.parameters[f"{tier}_{name}"] for tier, name in CONSTANTS]
        held += [
            estimate.low <= value <= estimate.high for estimate, value in zip(estimates, constants(TRUE), strict=True)
        ]
        assert found.fit.residual_sd == pytest.approx(0.05, rel=0.6)
        times = [network.allreduce_s(*target) for network in found.draws(200)]
        low, high = np.quantile(times, [0.025, 0.975])
        inside += low <= TRUE.allreduce_s(*target) <= high
        bands.append(high / low)
    assert 0.88 <= np.mean(held) <= 0.995
    assert inside / 60 >= 0.85
    assert np.median(bands) < 1.2


def test_draws_are_the_same_each_time_and_differ_from_one_another():
    first, second, third = fit_network(messages(TRUE, BOTH, noise=0.1), Network()).draws(3)
    assert fit_network(messages(TRUE, BOTH, noise=0.1), Network()).draws(3) == [first, second, third]
    assert first != second != third


def test_a_tier_without_messages_stays_as_it_was():
    begin = Network(between=Link(latency_s=1e-3, bytes_per_s=1e8))
    found = fit_network(messages(TRUE, [(2,), (4,)]), begin)
    assert found.tiers == ("inside",)
    assert found.network.between == begin.between
    assert found.network.inside.bytes_per_s == pytest.approx(11e9, rel=1e-4)


def test_what_the_messages_do_not_determine_is_refused_and_says_what_to_measure():
    hidden = fit_network(messages(TRUE, [(2, 2), (4, 4)]), Network())
    assert "placements packed and spread" in hidden.reason
    with pytest.raises(ValueError, match="network 'network' was not fitted: "):
        hidden.draws(1)
    few = fit_network(messages(TRUE, [(2,)]).iloc[:3], Network())
    assert "2 parameters need at least 4" in few.reason
    one_size = messages(TRUE, [(2,)] * 3)
    assert fit_network(one_size[one_size["message_bytes"] == 1024], Network()).reason != ""
    assert "no all-reduce" in fit_network(messages(TRUE, [(1,)]).iloc[:0], Network()).reason
