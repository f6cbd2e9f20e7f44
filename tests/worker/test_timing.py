from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch

from kanstudy.worker import timing
from kanstudy.worker.timing import ForeignLoad, time_block

CPU = torch.device("cpu")
BATCHES = [(torch.tensor([float(index)]), torch.zeros(1)) for index in range(3)]


def test_counts_warm_up_but_does_not_time_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        now[0] += 50.0 if len(seen) < 2 else 1.0
        seen.append(float(x))
        return torch.zeros(())

    block = time_block(step, BATCHES, 2, 4, CPU, lambda: None, None)
    assert seen == [0, 1, 2, 0, 1, 2]
    assert block.step_times_s == pytest.approx([1.0] * 4)
    assert block.block_time_s == pytest.approx(4.0)
    assert block.nan_step is None
    assert block.foreign_cpu_share is None


def test_ranks_meet_after_warm_up() -> None:
    calls: list[str] = []

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append("step")
        return torch.zeros(())

    time_block(step, BATCHES, 1, 2, CPU, lambda: calls.append("meet"), None)
    assert calls == ["step", "meet", "step", "step"]


@pytest.mark.parametrize("bad", [1, 4])
def test_names_the_first_step_whose_loss_is_not_finite(bad: int) -> None:
    losses = iter(float("nan") if index >= bad else 1.0 for index in range(6))
    block = time_block(lambda x, y: torch.tensor(next(losses)), BATCHES, 2, 4, CPU, lambda: None, None)
    assert block.nan_step == bad


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="needs /proc/stat")
def test_sees_another_process_on_the_same_core() -> None:
    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # inherits the core
    try:
        share, end = None, time.monotonic() + 60
        while (
            share is None or share <= 0.3
        ) and time.monotonic() < end:  # until it runs, and gets its part of the core
            load = ForeignLoad([core])
            time.sleep(0.5)
            share = load.share()
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, before)
    assert share is not None
    assert share > 0.3
