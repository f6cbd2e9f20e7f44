from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch

from kanstudy.worker.timing import ForeignLoad, time_block

CPU = torch.device("cpu")
BATCHES = [(torch.tensor([float(index)]), torch.zeros(1)) for index in range(3)]


def test_counts_warm_up_but_does_not_time_it() -> None:
    seen: list[float] = []

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05 if len(seen) < 2 else 0.001)
        seen.append(float(x))
        return torch.zeros(())

    block = time_block(step, BATCHES, 2, 4, CPU, lambda: None, None)
    assert seen == [0, 1, 2, 0, 1, 2]
    assert len(block.step_times_s) == 4
    assert block.block_time_s == pytest.approx(sum(block.step_times_s))
    assert max(block.step_times_s) < 0.05, "a warm-up step was timed"
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
        time.sleep(0.3)
        load = ForeignLoad([core])
        time.sleep(1.0)
        share = load.share()
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, before)
    assert share is not None
    assert share > 0.3
