"""Being asked to end: SIGUSR1, which a batch job sends some time before its limit, ends a launch after the round."""

from __future__ import annotations

import signal
from types import FrameType

_asked = False


def listen() -> None:
    """From now on note the signal, which otherwise ends a process, instead of dying of it."""
    signal.signal(signal.SIGUSR1, _note)


def is_asked() -> bool:
    """Whether this process has been asked to end."""
    return _asked


def _note(signum: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
