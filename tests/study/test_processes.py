from __future__ import annotations

import os
import sys
import time

import psutil
import pytest

from kanstudy.study import processes
from kanstudy.study.processes import MARK, marked, started, terminate

IN_A_NEW_SESSION = (  # as torchrun starts its ranks: out of the reach of a process group's signal
    "import os, subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
    "while not os.path.exists({until!r}): time.sleep(0.02)"
)
SLEEP = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
)


def wait_for(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def mark_of(process) -> str:
    """The mark, once the process is there: between fork and exec its environment is empty or still its parent's."""
    wait_for(lambda: MARK in psutil.Process(process.pid).environ())
    return psutil.Process(process.pid).environ()[MARK]


def test_all_descendants_are_gone_whatever_session_they_are_in(tmp_path):
    code = IN_A_NEW_SESSION.format(child=SLEEP, until=str(tmp_path / "never"))
    with started([sys.executable, "-c", code], dict(os.environ), tmp_path / "log") as process:
        wait_for(lambda: len(marked(mark_of(process))) == 2)
        mark = mark_of(process)
    assert marked(mark) == []


def test_orphans_of_a_process_that_ended_are_found(tmp_path):
    code = IN_A_NEW_SESSION.format(child=SLEEP, until=str(tmp_path / "go"))
    with started([sys.executable, "-c", code], dict(os.environ), tmp_path / "log") as process:
        mark = mark_of(process)
        wait_for(lambda: len(marked(mark)) == 2)
        (tmp_path / "go").touch()
        process.wait()
        wait_for(lambda: len(marked(mark)) == 1)
    assert marked(mark) == []


def test_who_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    log = tmp_path / "log"
    with started([sys.executable, "-c", STUBBORN], dict(os.environ), log) as process:
        mark = mark_of(process)
        wait_for(lambda: log.read_text() != "")
    assert marked(mark) == []


def test_an_error_inside_ends_the_processes_too(tmp_path):
    marks = []

    def interrupted() -> None:
        with started([sys.executable, "-c", SLEEP], dict(os.environ), tmp_path / "log") as process:
            marks.append(mark_of(process))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert marked(marks[0]) == []


def test_other_processes_are_left_alone(tmp_path):
    with started([sys.executable, "-c", SLEEP], dict(os.environ), tmp_path / "log") as process:
        terminate("another mark")
        assert process.poll() is None
        with started([sys.executable, "-c", SLEEP], dict(os.environ), tmp_path / "log2"):
            pass
        assert process.poll() is None


def test_a_command_that_does_not_exist_leaves_no_watchdog(tmp_path):
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(FileNotFoundError), started(["/no/such/program"], dict(os.environ), tmp_path / "log"):
        pass
    assert {child.pid for child in psutil.Process().children()} <= before
