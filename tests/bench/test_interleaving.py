"""Interleaved timing: every candidate once a round, in changing order; who raises takes no part."""

from __future__ import annotations

import time

import pytest
import torch

from kanstudy.bench import timing
from kanstudy.bench.timing import time_interleaved


class Sleeper:
    n_params = 1

    def __init__(self, seconds: float, fails_at: int = 10**9) -> None:
        self.seconds, self.fails_at, self.steps = seconds, fails_at, 0

    def step(self) -> torch.Tensor:
        self.steps += 1
        if self.steps >= self.fails_at:
            raise RuntimeError("boom")
        time.sleep(self.seconds)
        return torch.zeros(())


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch):
    monkeypatch.setattr(timing, "WARMUP_S", 0.01)


def quiet(*_: object) -> None:
    pass


def test_each_round_holds_every_candidate_once_in_shuffled_order():
    told: list[tuple[str, int, int]] = []
    starters = {name: lambda: Sleeper(0.002) for name in "abcd"}
    results = time_interleaved(starters, 6, 0.01, 0, lambda *event: told.append(event))
    places = [[results[name]["places"][index] for name in "abcd"] for index in range(6)]
    assert all(sorted(row) == [0, 1, 2, 3] for row in places)
    assert len({tuple(row) for row in places}) > 1
    assert [event for event in told if event[1] == 23] == [
        (next(n for n in "abcd" if results[n]["places"][5] == 3), 23, 24)
    ]
    for name in "abcd":
        assert len(results[name]["block_times_s"]) == 6
        assert min(results[name]["block_times_s"]) >= 0.002 * results[name]["steps_per_block"]


def test_the_order_follows_from_the_seed():
    def places(seed: int) -> list[int]:
        return time_interleaved({n: lambda: Sleeper(0.0001) for n in "abc"}, 5, 1e-5, seed, quiet)["a"]["places"]

    assert places(1) == places(1)
    assert places(1) != places(2)


def test_quick_steps_share_a_block_and_slow_ones_have_their_own():
    starters = {"quick": lambda: Sleeper(0.001), "slow": lambda: Sleeper(0.3)}
    results = time_interleaved(starters, 1, 0.2, 0, quiet)
    assert results["slow"]["steps_per_block"] == 1
    assert 2 <= results["quick"]["steps_per_block"] <= 200


def test_who_raises_while_warmed_up_is_a_fault_and_the_others_are_timed():
    def missing() -> Sleeper:
        raise ImportError("no module")

    starters = {"bad": missing, "dies": lambda: Sleeper(0, fails_at=2), "good": lambda: Sleeper(0.001)}
    results = time_interleaved(starters, 2, 0.002, 0, quiet)
    assert isinstance(results["bad"]["fault"], ImportError)
    assert isinstance(results["dies"]["fault"], RuntimeError)
    assert len(results["good"]["block_times_s"]) == 2


def test_who_raises_within_the_rounds_ends_them():
    with pytest.raises(RuntimeError, match="boom"):
        time_interleaved({"dies": lambda: Sleeper(0.001, fails_at=60)}, 100, 0.001, 0, quiet)
