"""What may be injected, and whom it strikes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kanstudy.injection import DECK, OWN_FACTOR, Injection, parse, whole_periods
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import ARMS, PointSpec, SpecError, point_from_dict


def make(**changes: Any) -> PointSpec:
    values: dict[str, Any] = {
        "experiment": "dose_response",
        "scaling": "strong",
        "world_size": 2,
        "global_batch_size": 64,
        "dataset": "synthetic:4:1",
        "n_samples": 128,
        "layer_widths": (4, 8, 1),
        "arms": ARMS,
        "comm_hook": "allreduce",
    }
    return PointSpec(**(values | changes))


@pytest.mark.parametrize("cause", OWN_FACTOR)
def test_a_cause_and_its_dose(cause: str) -> None:
    assert parse(f"{cause}:0.05") == Injection(cause, 0.05)
    assert str(parse(f"{cause}:0.050")) == f"{cause}:0.05"


@pytest.mark.parametrize(
    "text", ["jitter", "jitter:", "jitter:0", "jitter:-1", "jitter:nan", "jitter:inf", "jitter:11"]
)
def test_a_dose_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"injection = .*: must be CAUSE:DOSE, a dose above 0 and at most 10"):
        make(injection=text)


@pytest.mark.parametrize("value", ["slow_disk:0.1", ":0.1", " ", 3, None])
def test_what_is_no_cause_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"^injection = "):
        make(injection=value)


def test_an_injection_needs_ranks_that_can_differ() -> None:
    with pytest.raises(SpecError, match="empty at world size 1"):
        make(world_size=1, arms=("serial_global", "ddp_noop", "ddp"), injection="jitter:0.1")


@pytest.mark.parametrize("cause", ["ddp_cost", "slow_link"])
def test_what_is_spent_in_a_hook_needs_one(cause: str) -> None:
    with pytest.raises(SpecError, match="comm_hook = 'none': must be allreduce"):
        make(comm_hook="none", injection=f"{cause}:0.1")
    assert make(comm_hook="none", injection="fixed_work:0.1").injection == "fixed_work:0.1"


def test_it_belongs_to_the_identity_and_its_absence_does_not() -> None:
    plain, some, other = make(), make(injection="jitter:0.1"), make(injection="jitter:0.2")
    assert len({plain.point_id, some.point_id, other.point_id}) == 3
    assert make(injection="jitter:0.10").point_id == some.point_id
    assert point_from_dict({"injection": "", **{name: getattr(plain, name) for name in ("experiment", "scaling")}} | {
        name: getattr(plain, name)
        for name in ("world_size", "global_batch_size", "dataset", "n_samples", "layer_widths", "arms", "comm_hook")
    }).point_id == plain.point_id  # fmt: skip


def test_only_on_cpus() -> None:
    point = make(injection="jitter:0.1")
    values: dict[str, Any] = {"points": (point,), "data_files": {data_key(point): "x"}, "rounds": {point.point_id: 1}}
    values |= {"profile": "p", "experiment": "e", "results_dir": "r", "progress_file": "p"}
    assert RunSpec(**values)
    with pytest.raises(SpecError, match="device = 'cuda': must be cpu w"):
        RunSpec(**values, device="cuda", backend="nccl")


def shares(cause: str, arm: str) -> list[float]:
    return [Injection(cause, 0.1).share(arm, position, 2) for position in (0, 1)]


def test_whom_each_cause_strikes() -> None:
    """On two ranks: doses on rank 0 and on rank 1 in each arm, in the order of the chain."""
    expected = {
        "page_faults": [[2, 2], [0, 0], [0, 0], [0, 0], [0, 0]],
        "fixed_work": [[1, 1]] * 5,
        "slow_rank": [[0, 2], [0, 1], [0, 1], [0, 1], [0, 1]],
        "contention": [[0, 0], [0, 0], [1, 1], [1, 1], [1, 1]],
        "ddp_cost": [[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]],
        "jitter": [[2, 2], [1, 1], [1, 1], [1, 1], [1, 1]],
        "slow_link": [[0, 0], [0, 0], [0, 0], [0, 0], [1, 1]],
        "input_stall": [[0, 0]] * 5,
    }
    assert {cause: [shares(cause, arm) for arm in ARMS] for cause in OWN_FACTOR} == expected


def test_the_deck_has_a_mean_of_one_and_is_far_from_even() -> None:
    assert sum(DECK) / len(DECK) == pytest.approx(1)
    assert min(DECK) >= 0
    spread = math.sqrt(sum((value - 1) ** 2 for value in DECK) / len(DECK))
    assert spread > 0.8  # of an exponential distribution it is 1


@pytest.mark.parametrize("steps", range(1, 40))
def test_blocks_of_jitter_are_whole_decks(steps: int) -> None:
    whole = whole_periods(steps, "jitter:0.1")
    assert whole % len(DECK) == 0
    assert steps <= whole < steps + len(DECK)
    assert whole_periods(steps, "slow_link:0.1") == whole_periods(steps, "") == steps
