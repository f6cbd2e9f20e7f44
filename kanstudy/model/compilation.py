"""numba's compiler and its cache: kernels are compiled once a machine, not by every rank at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

Kernel = Callable[..., None]
LONGEST_WAIT_S = 60.0
"""How long to wait for another process that compiles; several times what it needs."""

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set while it is imported
    raise ImportError("NUMBA_DISABLE_JIT is set, and kernels that are not compiled take a thousand times as long")


class _Cache(FunctionCache):
    """numba's, but neither a damaged file nor a full disk stops who can compile for itself."""

    def load_overload(self, *signature_and_target: Any) -> Any:
        try:
            return super().load_overload(*signature_and_target)
        except Exception:  # what reading a damaged file raises depends on the damage
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *signature_and_code: Any) -> None:
        with contextlib.suppress(Exception):
            super().save_overload(*signature_and_code)


def compiled(function: Kernel) -> Kernel:
    """`function` without the GIL, compiled at its first call or loaded from an earlier process' cache."""
    # NaN keeps its meaning: only these two liberties are taken with floating-point numbers
    kernel: Any = numba.njit(function, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
    with contextlib.suppress(RuntimeError):  # no folder that could hold it, as in a read-only installation without home
        kernel._cache = _Cache(function)
    return kernel


@contextlib.contextmanager
def one_process_at_a_time(kernel: Kernel) -> Iterator[None]:
    """Inside, no other process that shares the kernel's cache is inside; waits at most `LONGEST_WAIT_S`.

    Where the cache cannot be locked it does not wait: compiling twice costs seconds and does no harm.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            folder = Path(kernel.stats.cache_path or os.devnull)  # type: ignore[attr-defined]  # numba's dispatcher
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / "kanstudy.lock", os.O_RDWR | os.O_CREAT, 0o644)
            stack.callback(os.close, handle)  # which unlocks
            _wait_for(handle)
        yield


def _wait_for(handle: int) -> None:
    """Lock the file; `OSError` where that cannot be, among others because it takes too long."""
    give_up = time.monotonic() + LONGEST_WAIT_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)
