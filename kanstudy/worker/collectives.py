"""The blocking all-reduce benchmark: total communication, with nothing to hide behind.

How to read it: `algbw = bytes / time`, `busbw = algbw * 2(p-1)/p` (the definition of nccl-tests), both derived from
the times kept here. On gloo much of the time is CPU work, copies and reductions, not the link.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from kanstudy.worker.ranks import align, synchronise

_WARMUP = 5
_BUDGET_S = 1.0  # a message size; slow links get fewer repeats, never fewer than _LEAST
_MOST, _LEAST = 50, 7


def time_allreduce(message_bytes: int, device: torch.device, group: dist.ProcessGroup) -> list[float]:
    """Seconds of each blocking float32 all-reduce of `message_bytes` (rounded up to 4), on the slowest rank.

    Every repeat starts aligned. Collective over the group; all ranks do the same number of repeats.
    """
    message = torch.zeros(max(1, -(-message_bytes // 4)), device=device)
    for _ in range(_WARMUP):
        start = time.perf_counter()
        dist.all_reduce(message, group=group)
        synchronise(device)
    pilot = _slowest([time.perf_counter() - start], group)[0]
    times = []
    for _ in range(max(_LEAST, min(_MOST, int(_BUDGET_S / max(pilot, 1e-9))))):
        align(group)
        start = time.perf_counter()
        dist.all_reduce(message, group=group)
        synchronise(device)
        times.append(time.perf_counter() - start)
    return _slowest(times, group)


def _slowest(times: list[float], group: dist.ProcessGroup) -> list[float]:
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    return [float(value) for value in slowest]
