"""One timed block on one rank: warm-up, steps timed one by one, and what else the machine did meanwhile."""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from kanstudy.worker.ranks import synchronise

Batch = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_REFERENCE_SIZE = 256
_REFERENCE_REPEATS = 25


@dataclass
class Block:
    """What one rank saw in one block; times in seconds, faults a step, the first step with a loss that is not
    finite (from 0, warm-up included) or None."""

    step_times_s: list[float]
    block_time_s: float
    reference_kernel_s: float
    foreign_cpu_share: float | None
    minor_faults: float
    started_utc: str
    nan_step: int | None


def time_block(
    step: Step,
    batches: Sequence[Batch],
    warmup: int,
    steps: int,
    device: torch.device,
    align: Callable[[], None],
    cores: Sequence[int] | None,
) -> Block:
    """Run `warmup` and then `steps` timed steps over the batches in turn.

    `align` lets the active ranks begin the timed steps together. `cores` are this rank's own cores; None where it
    shares them with other ranks, and then no foreign share can be told. On CUDA the steps are timed by events and
    the device is synchronised only at both ends, so that launches overlap as they do for a user.
    """
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    losses = torch.zeros(warmup + steps, device=device)
    reference = time_reference_kernel(device)
    for index in range(warmup):
        losses[index] = step(*batches[index % len(batches)])
    synchronise(device)
    align()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    load = ForeignLoad(cores)
    clock = _CudaClock(steps) if device.type == "cuda" else _CpuClock(steps)
    clock.mark(0)
    for index in range(steps):
        losses[warmup + index] = step(*batches[(warmup + index) % len(batches)])
        clock.mark(index + 1)
    step_times, block_time = clock.read()
    share = load.share()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    bad = torch.nonzero(~torch.isfinite(losses))
    return Block(
        step_times_s=step_times,
        block_time_s=block_time,
        reference_kernel_s=reference,
        foreign_cpu_share=share,
        minor_faults=faults / steps,
        started_utc=started,
        nan_step=int(bad[0]) if len(bad) else None,
    )


class _CpuClock:
    def __init__(self, steps: int) -> None:
        self._marks = [0.0] * (steps + 1)

    def mark(self, index: int) -> None:
        self._marks[index] = time.perf_counter()

    def read(self) -> tuple[list[float], float]:
        marks = self._marks
        return [after - before for before, after in itertools.pairwise(marks)], marks[-1] - marks[0]


class _CudaClock:
    def __init__(self, steps: int) -> None:
        self._marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]

    def mark(self, index: int) -> None:
        self._marks[index].record()

    def read(self) -> tuple[list[float], float]:
        self._marks[-1].synchronize()
        times = [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(self._marks)]
        return times, self._marks[0].elapsed_time(self._marks[-1]) / 1e3


def time_reference_kernel(device: torch.device) -> float:
    """Seconds of a fixed kernel, a product of 256 x 256 float32 matrices: it moves only if the machine does.

    The median of several: a single interruption is no drift of the machine.
    """
    matrix = torch.full((_REFERENCE_SIZE, _REFERENCE_SIZE), 1.0 / _REFERENCE_SIZE, device=device)
    times = []
    for _ in range(_REFERENCE_REPEATS):
        start = time.perf_counter()
        matrix @ matrix
        synchronise(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class ForeignLoad:
    """The share of some cores' time that other processes used since this object was made.

    From /proc/stat, which counts in ticks of 10 ms: shares of blocks under a second are coarse. A host that steals
    time from a virtual machine shows up only as far as the kernel is told.
    """

    def __init__(self, cores: Sequence[int] | None) -> None:
        self._cores = cores
        self._busy = _busy_s(cores) if cores else None
        self._own = time.process_time()
        self._wall = time.perf_counter()

    def share(self) -> float | None:
        """Foreign busy time over elapsed time, a core; within the clock's grain it may be below 0. None: not known."""
        if not self._cores or self._busy is None:
            return None
        busy, wall = _busy_s(self._cores), time.perf_counter() - self._wall
        if busy is None or wall <= 0:
            return None
        own = time.process_time() - self._own
        return (busy - self._busy - own) / (wall * len(self._cores))


def _busy_s(cores: Sequence[int]) -> float | None:
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    wanted = {f"cpu{core}" for core in cores}
    busy = 0
    for line in lines:
        name, *ticks = line.split()
        if name in wanted:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(tick) for tick in ticks[:8])
            busy += user + nice + system + irq + softirq + steal
    return busy / os.sysconf("SC_CLK_TCK")
