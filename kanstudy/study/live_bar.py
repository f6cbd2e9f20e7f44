"""A bar on a terminal that shows how far the running launch is; in a file or a pipe there is none, only the lines.

The launch may be that of a notebook's kernel, whose output reaches the terminal line by line: the bar follows the file
of events that rank 0 writes below the results folder, and makes room for every line.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from kanstudy.study.progress import Progress

_EVERY_S = 0.5
_WIDTH = 30
_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def live_bar(results: Path) -> Iterator[None]:
    """Show the bar of whatever is launched into the results folder meanwhile, where stdout is a terminal."""
    if not sys.stdout.isatty():
        yield
        return
    bar, ended = Bar(sys.stdout, results), threading.Event()

    def follow() -> None:
        while not ended.wait(_EVERY_S):
            bar.draw()

    thread = threading.Thread(target=follow, daemon=True)
    with contextlib.redirect_stdout(bar):
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            bar.clear()


class Bar:
    """A stream in place of `out`, which takes the bar away before anything is written."""

    def __init__(self, out: TextIO, results: Path) -> None:
        self._out, self._results = out, results
        self._began_s = time.time() - 1  # files' times may be of a coarser clock
        self._lock, self._drawn = threading.Lock(), False
        self._path: Path | None = None
        self._progress: Progress | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)

    def write(self, text: str) -> int:
        """As the stream does; a bar is drawn again at its next turn."""
        with self._lock:
            self._take_away()
            return self._out.write(text)

    def draw(self) -> None:
        """Show where the newest launch stands, nothing before its first block or after its end."""
        newest = max(self._results.glob("logs/*/*/progress.jsonl"), key=_changed_s, default=None)
        if newest is None or _changed_s(newest) < self._began_s:
            return
        if newest != self._path:
            self._path, self._progress = newest, Progress(newest, 0, lambda _line: None)
        assert self._progress is not None
        self._progress.poll()
        with self._lock:
            self._take_away()
            if self._progress.total and not self._progress.is_finished:
                self._out.write(_text(self._progress))
                self._out.flush()
                self._drawn = True

    def clear(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._take_away()
            self._out.flush()

    def _take_away(self) -> None:
        if self._drawn:
            self._out.write(_CLEAR)
            self._drawn = False


def _text(progress: Progress) -> str:
    full = _WIDTH * progress.done // progress.total
    return f"  [{'#' * full}{'.' * (_WIDTH - full)}] {progress.done} of {progress.total} blocks{progress.left}"


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0
