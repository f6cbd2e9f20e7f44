"""The processes of one launch: found by a mark in their environment, ended together, never left behind.

torchrun starts every rank in a session of its own, so that no process group holds them all, and a launcher that is
killed (a notebook kernel that is shut down) cannot clean up. Hence the mark, which every process of a launch
inherits, and a watchdog beside the launch, `python -m kanstudy.study.processes MARK`, that outlives the launcher.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil

MARK = "KANSTUDY_LAUNCH"
GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL; a rank has nothing to save, records are written a round."""
_POLL_S = 0.05


@contextmanager
def started(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all it starts, output to `log`; all of them are gone when the context is left, however.

    They also end if this process dies within the context.
    """
    mark = uuid4().hex
    watchdog = subprocess.Popen(
        [sys.executable, "-m", "kanstudy.study.processes", mark],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment | {MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            terminate(mark)
            process.poll()
    finally:
        if watchdog.stdin is not None:
            watchdog.stdin.close()
        watchdog.wait()


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry a mark."""
    return [process for process in psutil.process_iter() if _carries(process, mark)]


def terminate(mark: str) -> None:
    """End all processes that carry a mark: SIGTERM, and SIGKILL for what is left after a grace period."""
    for kill in (False, True, True):  # once more, for what was started meanwhile
        end = time.monotonic() + GRACE_S
        for process in (left := marked(mark)):
            _send(process, kill)
        while left and time.monotonic() < end:
            time.sleep(_POLL_S)
            left = marked(mark)


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark
    except (psutil.Error, OSError):  # of another user, or just gone
        return False


def _send(process: psutil.Process, kill: bool) -> None:
    with suppress(psutil.NoSuchProcess):
        if kill:
            process.kill()
        else:
            process.terminate()


def main() -> None:
    """The watchdog: wait until the launcher closes the pipe or dies, then end what is left of its launch."""
    sys.stdin.buffer.read()
    terminate(sys.argv[1])


if __name__ == "__main__":
    os.environ.pop(MARK, None)
    main()
