"""What an injection spends: known amounts on a clock that does not run by itself, and two real ranks."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import tiny_point

from kanstudy.injection import OWN_FACTOR
from kanstudy.record_files import read_record, record_path
from kanstudy.spec import ARMS
from kanstudy.worker import injection
from kanstudy.worker.injection import Injector

Torchrun = Callable[..., subprocess.CompletedProcess[str]]
STEP_S = 2e-3
X = torch.zeros(1)


class Bucket:
    def __init__(self, last: bool) -> None:
        self.is_last = lambda: last


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Amounts, s, in place of spending them."""
    amounts: list[float] = []
    monkeypatch.setattr(injection, "spin", amounts.append)
    monkeypatch.setattr(injection, "touch_fresh_memory", amounts.append)
    return amounts


def steps_of(injector: Injector, arm: str, steps: int) -> None:
    """What a block does, as far as the injector sees it: two buckets a step in the arms of DDP, and the step's end."""
    hook = injector.within(lambda state, bucket: None, arm)
    step = injector.after(lambda x, y: x, arm)
    for _ in range(steps):
        if arm in ("ddp_noop", "ddp"):
            for last in (False, True):
                hook(None, Bucket(last))
        step(X, X)


@pytest.mark.parametrize("cause", OWN_FACTOR)
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("position", [0, 1])
def test_each_step_is_given_what_the_dose_says(cause: str, arm: str, position: int, spent: list[float]) -> None:
    point = tiny_point(comm_hook="allreduce", injection=f"{cause}:0.25")
    steps_of(injector := Injector(point, position, STEP_S), arm, 32)
    share = injector._injection.share(arm, position, 2)
    assert sum(spent) / 32 == pytest.approx(0.25 * STEP_S * share)
    if cause != "jitter":
        assert spent == pytest.approx([0.25 * STEP_S * share] * len(spent))


def test_jitter_differs_from_step_to_step_and_between_ranks(spent: list[float]) -> None:
    point = tiny_point(injection="jitter:0.25")
    steps_of(Injector(point, 0, STEP_S), "concurrent", 32)
    first = spent.copy()
    spent.clear()
    steps_of(Injector(point, 1, STEP_S), "concurrent", 32)
    assert len(set(first)) == 8
    assert first[:8] != first[8:16]
    assert first != spent
    assert sorted(first) == pytest.approx(sorted(spent))


def test_every_block_begins_with_a_whole_deck(spent: list[float]) -> None:
    injector = Injector(tiny_point(injection="jitter:0.25"), 0, STEP_S)
    steps_of(injector, "concurrent", 5)
    spent.clear()
    steps_of(injector, "concurrent", 8)
    assert sum(spent) == pytest.approx(8 * 0.25 * STEP_S)


def test_a_stall_is_in_the_data_path_alone(spent: list[float]) -> None:
    injector = Injector(tiny_point(injection="input_stall:0.5"), 0, STEP_S)
    for arm in ARMS:
        steps_of(injector, arm, 3)
    assert spent == []
    injector.stall("ddp")
    injector.stall("serial_global")
    assert spent == pytest.approx([0.5 * STEP_S, STEP_S])
    Injector(tiny_point(injection="jitter:0.5"), 0, STEP_S).stall("ddp")
    assert len(spent) == 2


def test_time_is_spun_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.1, 10.2, 10.3, 10.4])
    monkeypatch.setattr(injection.time, "perf_counter", lambda: next(now))
    injection.spin(0.25)
    assert next(now) == 10.4


def test_fresh_memory_is_paid_for_in_page_faults() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    injection.touch_fresh_memory(2e-3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before >= 16


@pytest.mark.slow
def test_two_real_ranks(torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path) -> None:
    """Doses so large that nothing else matters: each shows in the arms and steps that it strikes."""
    causes = ("fixed_work:4", "ddp_cost:4", "slow_link:4", "page_faults:4", "input_stall:10", "jitter:1")
    points = [tiny_point(comm_hook="allreduce", train_steps=0, phase_steps=4)]
    points += [tiny_point(comm_hook="allreduce", train_steps=0, phase_steps=4, injection=text) for text in causes]
    done = torchrun("-m", "kanstudy.worker", str(plan(*points, rounds=2)))
    assert done.returncode == 0, done.stderr[-3000:]
    records = [read_record(record_path(tmp_path / "results", point.experiment, point.point_id)) for point in points]
    assert [record.source for record in records] == ["measured", *["emulated"] * len(causes)]
    assert [record.injection for record in records] == ["", *causes]
    assert records[0].injection_step_s is None
    assert all(record.injection_step_s > 0 for record in records[1:])
    struck = {
        "fixed_work:4": set(ARMS),
        "ddp_cost:4": {"ddp_noop", "ddp"},
        "slow_link:4": {"ddp"},
        "page_faults:4": {"serial_global"},
        "input_stall:10": set(),
    }
    for record in records[1:-1]:
        for arm in struck[record.injection]:  # that a step lasts at least as long is no assertion on speed
            for item in record.arms[arm].rounds:
                assert min(map(min, item.rank_step_times_s)) >= 4 * record.injection_step_s * 0.999
    faults = {arm: records[4].arms[arm].rounds[0].minor_faults[0] for arm in ARMS}
    assert faults["serial_global"] >= 16 > faults["serial_local"]
    stalled = records[5]
    assert min(map(min, stalled.arms["ddp"].data_wait_s)) >= 10 * stalled.injection_step_s

    for arm in records[6].arms.values():
        assert all(len(times) % 8 == 0 for item in arm.rounds for times in item.rank_step_times_s)

    # another launch goes on with the same dose
    units = [record.injection_step_s for record in records[1:]]
    assert torchrun("-m", "kanstudy.worker", str(plan(*points, rounds=3))).returncode == 0
    again = [read_record(record_path(tmp_path / "results", point.experiment, point.point_id)) for point in points]
    assert [record.injection_step_s for record in again[1:]] == pytest.approx(units, rel=1e-6)
    assert all(record.rounds_of_launch(0) == 3 and record.attempt == 2 for record in again)
