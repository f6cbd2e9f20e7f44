"""The instrumented pass: phases of a step, when gradient buckets are ready, and memory. Never part of timed blocks.

Synchronising between phases costs what overlap would save, so the phases of a step add up to more than a step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from kanstudy.spec import PointSpec
from kanstudy.worker.arms import Replica
from kanstudy.worker.dataset import Dataset, global_index, local_index
from kanstudy.worker.ddp_counters import count_every_step, counted
from kanstudy.worker.injection import Injector
from kanstudy.worker.ranks import synchronise
from kanstudy.worker.timing import Batch


@dataclass
class Phases:
    """Seconds of each instrumented step on this rank; `bucket_ready_s[step][bucket]` from the start of backward.

    `ddp_counters` are DDP's own of the arm `ddp`, see `kanstudy.worker.ddp_counters`.
    """

    forward_s: list[float] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)
    optimizer_s: list[float] = field(default_factory=list)
    data_wait_s: list[float] = field(default_factory=list)
    bucket_ready_s: list[list[float]] = field(default_factory=list)
    bucket_bytes: list[int] = field(default_factory=list)
    ddp_counters: list[dict[str, float]] = field(default_factory=list)


def measure_phases(
    point: PointSpec,
    arm: str,
    device: torch.device,
    group: dist.ProcessGroup | None,
    data: Dataset,
    position: int,
    injector: Injector | None = None,
) -> Phases:
    """Phases of `point.phase_steps` steps after as many of warm-up, with each batch fetched from disk as a user does.

    `data_wait_s` is the time until that batch is on the device; of what a point has injected only a stall of its data
    belongs here. Buckets are watched in `ddp_noop`, whose hook is
    replaced by one that notes the time and does nothing else.
    """
    watch = _BucketWatch(device)
    replica = Replica(point, arm, device, group, watch.hook if arm == "ddp_noop" else None)
    if arm == "ddp":
        count_every_step(replica.module)
    phases = Phases()
    dtype = getattr(torch, point.dtype)
    warmup = max(point.warmup_steps, point.phase_steps)
    for step in range(warmup + point.phase_steps):
        start = time.perf_counter()
        index = global_index(point, step) if arm == "serial_global" else local_index(point, step, position)
        x, y = data.rows(index, dtype, device)
        synchronise(device)
        if injector is not None:
            injector.stall(arm)
        fetched = time.perf_counter()
        replica.optimizer.zero_grad()
        loss = functional.mse_loss(replica.module(x), y)
        synchronise(device)
        forward = time.perf_counter()
        watch.start()
        loss.backward()
        synchronise(device)
        backward = time.perf_counter()
        replica.optimizer.step()
        synchronise(device)
        end = time.perf_counter()
        if step < warmup:
            continue
        phases.data_wait_s.append(fetched - start)
        phases.forward_s.append(forward - fetched)
        phases.backward_s.append(backward - forward)
        phases.optimizer_s.append(end - backward)
        if watch.bytes:
            phases.bucket_ready_s.append(watch.ready_s())
            phases.bucket_bytes = [watch.bytes[bucket] for bucket in sorted(watch.bytes)]
        if arm == "ddp" and (counters := counted(replica.module)) is not None:
            phases.ddp_counters.append(counters)
    return phases


class _BucketWatch:
    """When each gradient bucket of one backward pass was complete: on CUDA by events on the stream that the all-reduce
    would wait for, so that nothing is held up."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.start()

    def start(self) -> None:
        self.bytes: dict[int, int] = {}
        self._marks: dict[int, float | torch.cuda.Event] = {}
        self._start = _mark(self.device)

    def hook(self, _state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations kept as strings
        """A communication hook that notes when the bucket came and does nothing else."""
        buffer = bucket.buffer()
        self._marks[bucket.index()] = _mark(self.device)
        self.bytes[bucket.index()] = buffer.numel() * buffer.element_size()
        return noop_hook(None, bucket)

    def ready_s(self) -> list[float]:
        """Seconds from the start, by bucket; on CUDA once the device has got there."""
        return [_seconds(self._start, self._marks[bucket]) for bucket in sorted(self._marks)]


def _mark(device: torch.device) -> float | torch.cuda.Event:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def _seconds(start: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(start, float) and isinstance(end, float):
        return end - start
    return 1e-3 * start.elapsed_time(end)  # type: ignore[union-attr, arg-type]  # both are of one kind


def measure_peak_memory(
    point: PointSpec, arm: str, device: torch.device, group: dist.ProcessGroup | None, batches: Sequence[Batch]
) -> int:
    """The most bytes that tensors held, from an empty start through three steps; the resident batch included.

    On CUDA the caching allocator's count, on CPU the sum over the profiler's allocation events. The process' own
    high-water mark would count what the C allocator keeps from earlier points, so it is not used.
    """
    batch = sum(tensor.numel() * tensor.element_size() for tensor in batches[0])
    if device.type == "cuda":
        synchronise(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        _three_steps(point, arm, device, group, batches)
        return torch.cuda.max_memory_allocated(device) - before + batch
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        _three_steps(point, arm, device, group, batches)
    return most_held(profiler) + batch


def most_held(profiler: Any) -> int:
    """The most bytes that tensors on the CPU held at once, of those made while this `torch.profiler.profile` ran."""
    held = peak = 0
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def _three_steps(
    point: PointSpec, arm: str, device: torch.device, group: dist.ProcessGroup | None, batches: Sequence[Batch]
) -> None:
    """Two steps until moments and final buckets are there, and one more that shows the peak."""
    replica = Replica(point, arm, device, group)
    for _ in range(3):
        replica.step(*batches[0])
    synchronise(device)
