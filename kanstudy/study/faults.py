"""Why a launch failed: which rank first, how, and the end of its log.

torchrun keeps `<log_dir>/*/attempt_0/<rank>/stderr.log`, beside it `error.json` with the exception where the worker
raised one, and prints the exit code of each rank that had failed by then.
"""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAIL_LINES, TAIL_CHARACTERS = 30, 4000
_REPORT = re.compile(r"rank\s*:\s*(\d+)\s*\(local_rank: \d+\)\s*\n\s*exitcode\s*:\s*(-?\d+)")
_STEP_REPORT = re.compile(
    r"srun: error: (?P<node>\S+): tasks? (?P<tasks>[\d,-]+): (?:Exited with exit code (?P<code>\d+)|(?P<how>[^\n(]+))"
)
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
_TIMEOUT = re.compile(r"timed out|time-?out", re.IGNORECASE)
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The first failure of a launch. `status` is the record's (`failed`, `timeout`), `log` the file of `log_tail`.

    `rank` is None where no rank is known to have failed.
    """

    status: str
    reason: str
    rank: int | None
    log: Path
    log_tail: str

    @property
    def is_port_taken(self) -> bool:
        """Whether another program held a port that the launch needed: the next try takes another port."""
        return bool(_PORT_TAKEN.search(self.reason) or _PORT_TAKEN.search(self.log_tail))

    def __str__(self) -> str:
        return f"{self.status}: {'' if self.rank is None else f'rank {self.rank}: '}{self.reason} (log: {self.log})"


def first_failure(log_dir: Path, launcher_log: Path, exit_code: int) -> Failure:
    """What went wrong first in a launch that ended with `exit_code`."""
    logs = {int(path.parent.name): path for path in log_dir.glob("*/attempt_*/*/stderr.log")}
    printed = _text(launcher_log)
    if failed := _NODE_FAILURE.search(printed):  # what its ranks and the others tell comes of that
        return _failure(f"node {failed[1]} failed", None, launcher_log)
    codes = {int(rank): int(code) for rank, code in _REPORT.findall(printed)} or step_codes(printed)
    rank = _first_rank(codes, logs)
    if rank is None or rank not in logs:
        return _failure(f"the launcher {_ended(exit_code)}{_last_words(printed)}", None, launcher_log)
    code = codes.get(rank, 1)
    if code < 0:
        return _failure(_ended(code), rank, logs[rank])
    raised = _raised(logs[rank].with_name("error.json"))
    return _failure(raised or f"{_ended(code)}{_last_words(_text(logs[rank]))}", rank, logs[rank])


def step_codes(printed: str) -> dict[int, int]:
    """The exit code of each task that srun says has failed, the first first; of a signal, its number less than 0."""
    signals = {signal.strsignal(number): -number for number in signal.valid_signals()}
    codes: dict[int, int] = {}
    for match in _STEP_REPORT.finditer(printed):
        how = (match["how"] or "").strip()
        code = int(match["code"]) if match["code"] else signals.get(how, -signal.SIGKILL if "Memory" in how else 1)
        for part in match["tasks"].split(","):
            first, _, last = part.partition("-")
            for task in range(int(first), int(last or first) + 1):
                codes.setdefault(task, code)
    return codes


def stalled(log_dir: Path, launcher_log: Path, silent_s: float) -> Failure:
    """The failure of a launch that was ended because nothing was heard of it; the log is rank 0's."""
    log = next(iter(sorted(log_dir.glob("*/attempt_*/0/stderr.log"))), launcher_log)
    return Failure(
        status="timeout", reason=f"no progress for {silent_s:.0f} s", rank=None, log=log, log_tail=tail(_text(log))
    )


def tail(text: str) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]


def _first_rank(codes: dict[int, int], logs: dict[int, Path]) -> int | None:
    errors = {rank: log.with_name("error.json") for rank, log in logs.items() if log.with_name("error.json").exists()}
    # by the file's time: the time inside is in whole seconds
    first = min(errors, key=lambda rank: errors[rank].stat().st_mtime_ns, default=None)
    # A rank that died of a signal comes before those that raised: they only noticed. Not so if they waited in vain:
    # then torchrun killed a rank that had stopped. SIGTERM is always torchrun ending the rest.
    killed = [rank for rank, code in codes.items() if code < 0 and code != -signal.SIGTERM]
    if killed and not (first is not None and _TIMEOUT.search(_raised(errors[first]) or "")):
        return killed[0]
    if first is not None:
        return first
    failed = [rank for rank, code in codes.items() if code != 0]
    by_itself = [rank for rank in failed if codes[rank] != -signal.SIGTERM]
    return min(by_itself or failed, key=lambda rank: logs[rank].stat().st_mtime_ns if rank in logs else 0, default=None)


def _failure(reason: str, rank: int | None, log: Path) -> Failure:
    end = tail(_text(log))
    is_timeout = _TIMEOUT.search(reason) or "collective operation timeout" in end
    return Failure(status="timeout" if is_timeout else "failed", reason=reason, rank=rank, log=log, log_tail=end)


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (" (possibly out of memory)" if -code == signal.SIGKILL else "")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" =-\t")]
    return f": {lines[-1][:300]}" if lines else ""


def _raised(path: Path) -> str | None:
    """The exception that a rank raised, in one line; None where there is no readable file of it."""
    try:
        content: Any = json.loads(_text(path))["message"]
        message = content["message"] if isinstance(content, dict) else content
        return str(message).strip().splitlines()[0][:300]
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
