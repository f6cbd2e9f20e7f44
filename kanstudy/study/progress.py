"""How far a launch is: the events that rank 0 appends to a file, followed and told in few lines.

One JSON object a line: `started`, `block` (before each block: point_id, arm, done, total), `round`, `point` (point_id,
status) and `finished`. Half-written and foreign lines are passed over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TELL_EVERY_S = 30.0
_FORETELL_FROM_S = 2.0
"""What is heard all at once, or in less time, tells nothing of how long the rest takes."""


class Progress:
    """What is known of one launch, whose events come in `path`; `say` gets each line to show.

    `point_id` and `arm` are in progress, None before the first block; `done` of `total` blocks are behind;
    `is_finished` tells that the worker came to its end; `silent_s` is the time since the last event.
    """

    def __init__(self, path: Path, n_points: int, say: Callable[[str], None]) -> None:
        self.point_id: str | None = None
        self.arm: str | None = None
        self.done, self.total = 0, 0
        self.is_finished = False
        self._path, self._n_points, self._say = path, n_points, say
        self._offset = 0
        self._points_ended = 0
        self._first: tuple[float, int] | None = None  # when a block was heard of first, and how many were done by then
        self._heard_s = self._told_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since anything was heard."""
        return time.monotonic() - self._heard_s

    @property
    def left_s(self) -> float | None:
        """About how long the blocks that are left take; None before one is done, and in the first seconds."""
        if self._first is None or self.done <= self._first[1]:
            return None
        heard_for_s = time.monotonic() - self._first[0]
        if heard_for_s < _FORETELL_FROM_S:
            return None
        return heard_for_s / (self.done - self._first[1]) * (self.total - self.done)

    @property
    def left(self) -> str:
        """The same in words, for behind others; empty where it is None."""
        return "" if self.left_s is None else f", about {duration(self.left_s)} left"

    def poll(self) -> None:
        """Read what is new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines, _, _ = file.read().rpartition(b"\n")  # the rest is still being written
        except FileNotFoundError:
            return
        if not lines:
            return
        self._offset += len(lines) + 1
        self._heard_s = time.monotonic()
        for line in lines.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "block":
            self.point_id, self.arm = event.get("point_id"), event.get("arm")
            self._tell_block(event.get("done"), event.get("total"))
        elif kind == "point":
            self._points_ended += 1
            self._told_s = time.monotonic()
            self._say(f"  {event.get('point_id')}: {event.get('status')} ({self._points_ended} of {self._n_points})")
        elif kind == "finished":
            self.is_finished = True

    def _tell_block(self, done: object, total: object) -> None:
        now = time.monotonic()
        if not isinstance(done, int) or not isinstance(total, int):
            return
        self.done, self.total = done, total
        self._first = self._first or (now, done)
        if now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._say(f"  block {done} of {total}: {self.point_id} {self.arm}{self.left}")


def duration(seconds: float) -> str:
    """Seconds for reading, such as `40 s` or `12 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
