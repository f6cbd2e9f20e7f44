"""What this rank spends on a step beyond its work: the cause of lost efficiency that a point has injected.

Times are spun away, not slept: on CPUs sleeps overshoot by more than a small dose. So a delay keeps its rank's core
busy, as waiting for a message does on gloo.
"""

from __future__ import annotations

import mmap
import random
import time
from collections.abc import Callable
from typing import Any

import torch

from kanstudy.injection import DATA_PATH, DECK, IN_HOOK, parse
from kanstudy.spec import PointSpec

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_PAGES = 16
"""Pages of one fresh mapping: few, so that the time asked for is overshot by microseconds."""


class Injector:
    """A point's injection (`kanstudy.injection`) on rank number `position` of its group; `step_s` is what a dose of 1
    takes, s. Jitter is drawn from the point's seed and the position, so that it repeats."""

    def __init__(self, point: PointSpec, position: int, step_s: float) -> None:
        injection = parse(point.injection)
        self.cause, self.step_s = injection.cause, step_s
        self._point, self._position, self._injection = point, position, injection
        self._spend = touch_fresh_memory if self.cause == "page_faults" else spin
        self._shuffle = random.Random(f"{point.seed}/{position}")  # goes on from block to block
        self._deck: list[float] = []

    def seconds(self, arm: str) -> float:
        """What the next step of an arm is to be given, s."""
        mean = self._injection.share(arm, self._position, self._point.world_size) * self._injection.dose * self.step_s
        if self.cause != "jitter":
            return mean
        if not self._deck:
            self._deck = self._shuffle.sample(DECK, len(DECK))
        return mean * self._deck.pop()

    def after(self, step: Step, arm: str) -> Step:
        """The step of a new block, followed by what is not spent in a hook."""
        self._deck.clear()
        if self.cause in IN_HOOK or self.cause == DATA_PATH:
            return step

        def longer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = step(x, y)
            self._spend(self.seconds(arm))
            return loss

        return longer

    def within(self, hook: Callable[..., Any], arm: str) -> Callable[..., Any]:
        """The communication hook, on a step's last bucket preceded by what is spent there."""
        if self.cause not in IN_HOOK:
            return hook

        def later(state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations kept as strings
            if bucket.is_last():
                self._spend(self.seconds(arm))
            return hook(state, bucket)

        return later

    def stall(self, arm: str) -> None:
        """Let a batch that was just fetched arrive late, as many times as the arm's batch is a rank's."""
        if self.cause == DATA_PATH:
            batches = self._point.world_size if arm == "serial_global" else 1
            self._spend(batches * self._injection.dose * self.step_s)


def spin(seconds: float) -> None:
    """Keep this thread busy, without touching memory."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def touch_fresh_memory(seconds: float) -> None:
    """Take page faults, in memory that is mapped anew each time, until the time is over."""
    size = _PAGES * mmap.PAGESIZE
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:
            fresh[0 : size : mmap.PAGESIZE] = bytes(_PAGES)
