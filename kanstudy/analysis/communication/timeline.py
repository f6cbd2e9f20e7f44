"""How much of a step's all-reduce hides behind backward: what follows from when buckets are ready and how long each
takes, if nothing else slows it.

DDP starts the all-reduces of its buckets in their order, each when its gradients are complete; a stream carries one at
a time (NCCL: one communication stream, which is the default).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Timeline:
    """Seconds from the start of backward: `starts_s` and `arrived_s` (buckets,) of each all-reduce; `backward_end_s`,
    when the gradients would be complete without communication; `total_s`, what the all-reduces take one by one."""

    starts_s: np.ndarray
    arrived_s: np.ndarray
    backward_end_s: float
    total_s: float

    @property
    def exposed_s(self) -> float:
        """How much later than backward the last bucket arrives: 0 where backward outlasts it."""
        return max(0.0, float(self.arrived_s.max()) - self.backward_end_s)

    @property
    def hidden_s(self) -> float:
        """The total less what is exposed: behind backward or, on several streams, behind one another. Negative where
        the last bucket is ready so late that the step waits for it more than for communication."""
        return self.total_s - self.exposed_s


def timeline(
    ready_s: Sequence[float] | np.ndarray,
    durations_s: Sequence[float] | np.ndarray,
    backward_end_s: float,
    streams: int = 1,
) -> Timeline:
    """The timeline of buckets in the order in which they leave: when each is ready, how long its all-reduce takes.

    Raises `ValueError` unless there is a duration for each of at least one bucket, none of them negative, and a stream.
    """
    ready, durations = np.asarray(ready_s, dtype=float), np.asarray(durations_s, dtype=float)
    if ready.ndim != 1 or not len(ready) or ready.shape != durations.shape:
        raise ValueError(f"durations_s of shape {durations.shape}: must be one for each of at least one ready_s")
    if not (durations >= 0).all():
        raise ValueError(f"durations_s = {durations.tolist()}: must be >= 0")
    if streams < 1:
        raise ValueError(f"streams = {streams}: must be at least 1")
    free, launched = np.zeros(streams), 0.0
    starts, arrived = np.empty_like(ready), np.empty_like(ready)
    for bucket, (complete, duration) in enumerate(zip(ready, durations, strict=True)):
        launched = max(launched, complete)
        stream = int(free.argmin())
        starts[bucket] = max(launched, free[stream])
        arrived[bucket] = free[stream] = starts[bucket] + duration
    return Timeline(starts, arrived, float(backward_end_s), float(durations.sum()))
