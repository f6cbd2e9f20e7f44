"""What happens to real ranks: the point in progress says so, the others go on, and the next run completes it all."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from trial import Trial, wait_until

from kanstudy.study.launch import LaunchError

pytestmark = pytest.mark.faults


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, "ranks")


def failure(trial: Trial) -> str:
    """What a run says in which one point fails and the others do not."""
    with pytest.raises(LaunchError, match="1 of 4 points failed") as raised:
        trial.run()
    assert {trial.record(name).status for name in trial.ids()[:-1]} == {"ok"}
    return str(raised.value)


def test_a_rank_that_raises(trial):
    trial.fault("raise")
    assert "failed: rank 1: ValueError: this rank was told to fail" in failure(trial)
    struck = trial.is_struck()[trial.last]
    assert (struck.status, struck.error.rank, struck.error.arm) == ("failed", 1, "ddp")
    assert "told to fail" in struck.error.log_tail
    trial.is_whole_after_another_run()


def test_a_rank_that_leaves_as_if_all_were_done(trial):
    trial.fault("leave")
    assert "failed: rank 0: RuntimeError" in failure(trial)
    assert trial.is_struck()[trial.last].status == "failed"
    trial.is_whole_after_another_run()


def test_rank_0_which_writes_the_records_is_killed(trial):
    trial.fault("wait", rank=0)
    with trial.started() as study:
        trial.struck_rank().kill()
        said, _ = study.communicate(timeout=300)
    assert "failed: rank 0: killed by SIGKILL (possibly out of memory)" in said
    assert study.returncode == 1
    assert trial.is_struck()[trial.last].status == "failed"
    trial.no_process_is_left()
    trial.is_whole_after_another_run()


def test_a_rank_that_takes_more_memory_than_there_is(trial):
    with memory_of(200 << 20) as group:
        trial.fault("memory", cgroup=str(group))
        assert "failed: rank 1: killed by SIGKILL (possibly out of memory)" in failure(trial)
    trial.is_struck()
    trial.is_whole_after_another_run()


@contextlib.contextmanager
def memory_of(limit_bytes: int) -> Iterator[Path]:
    """A control group that may hold so many bytes; skips where this user can make none."""
    root = Path("/sys/fs/cgroup")
    for parent, limit in ((root / "memory", "memory.limit_in_bytes"), (root, "memory.max")):
        group = parent / f"kanstudy-{uuid.uuid4().hex}"
        try:
            if parent != root or (root / "cgroup.controllers").exists():
                group.mkdir()
                (group / limit).write_text(str(limit_bytes))
                break
        except OSError:
            if group.is_dir():
                group.rmdir()
    else:
        pytest.skip("no control group for memory can be made here")
    try:
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text().strip())
        group.rmdir()


def test_a_rank_that_stops_is_ended_after_the_time_out(tmp_path):
    trial = Trial(tmp_path, "ranks", machine="collective_timeout_s = 20\n")
    trial.fault("wait")
    with trial.started() as study:
        stopped = trial.struck_rank()
        os.kill(stopped.pid, signal.SIGSTOP)
        said, _ = study.communicate(timeout=300)
    assert f"{trial.last}: timeout: rank 0: " in said
    assert trial.is_struck()[trial.last].status == "timeout"
    assert {trial.record(name).status for name in trial.ids()[:-1]} == {"ok"}
    trial.no_process_is_left()
    trial.is_whole_after_another_run()
