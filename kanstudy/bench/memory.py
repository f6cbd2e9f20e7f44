"""The most memory that one training step takes, as the operating system sees it. To be asked in a fresh process.

Counted: what is resident at the highest point of a step, above what was resident before the model's first step, when
parameters, data and optimizer were there already. So: gradients, the optimizer's moments, activations and all that is
kept for backward, temporaries, and scratch memory that stays allocated between steps. Not counted: parameters and the
batch; and code, compiled or imported, since a first model of the same shape has trained and gone before.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kanstudy.bench.candidates import Trained

WARMUP_STEPS, MEASURED_STEPS = 3, 3
_SELF = Path("/proc/self")


@dataclass
class Step:
    """Bytes of the peak, None with the reason where they cannot be had; times of the first model's steps, s."""

    peak_bytes: int | None = None
    reason: str | None = None
    first_step_s: float = 0.0
    step_times_s: list[float] = field(default_factory=list)
    n_params: int = 0


def first_step(start: Callable[[], Trained]) -> float:
    """Seconds from before a model is built to the end of its first training step."""
    began = time.perf_counter()
    start().step()
    return time.perf_counter() - began


def measure(start: Callable[[], Trained]) -> Step:
    """The peak of one training step; raises what the candidate raises."""
    result = Step()
    _in_a_thread(lambda: _first_model(start, result))
    _forget()
    trained = start()
    try:
        _forget()
        before = _status_bytes("VmRSS")
        for _ in range(WARMUP_STEPS):  # moments, gradients and kept scratch are there after them
            trained.step()
        (_SELF / "clear_refs").write_text("5")  # the high-water mark starts again from what is resident now
        for _ in range(MEASURED_STEPS):
            trained.step()
        result.peak_bytes = _status_bytes("VmHWM") - before
    except OSError as error:
        result.reason = f"this system does not tell a process' peak: {error.strerror} ({error.filename})"
    return result


def _first_model(start: Callable[[], Trained], result: Step) -> None:
    began = time.perf_counter()
    trained = start()
    trained.step()
    result.first_step_s, result.n_params = time.perf_counter() - began, trained.n_params
    for _ in range(2):
        began = time.perf_counter()
        trained.step()
        result.step_times_s.append(time.perf_counter() - began)


def _in_a_thread(work: Callable[[], None]) -> None:
    """Do it in a thread of its own: scratch memory that belongs to a thread goes with it."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error.with_traceback(None))  # whose frames would keep the model

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _forget() -> None:
    """Give back to the system what is free."""
    fused = sys.modules.get("kanstudy.model.fused")
    if fused is not None:
        fused._pool.cache_clear()  # its threads end, and their scratch memory with them
    gc.collect()
    if fused is not None:
        time.sleep(0.05)
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # another C library than glibc
        return


def _status_bytes(name: str) -> int:
    for line in (_SELF / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(0, f"no {name}", str(_SELF / "status"))
