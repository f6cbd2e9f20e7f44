from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kanstudy.study.faults import TAIL_CHARACTERS, TAIL_LINES, first_failure, stalled, step_codes, tail

REPORT = """
============================================================
{stub} FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_00:00:01
  host      : node
  rank      : 1 (local_rank: 1)
  exitcode  : {code1} (pid: 102)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:01
  host      : node
  rank      : 0 (local_rank: 0)
  exitcode  : {code0} (pid: 101)
  error_file: <N/A>
============================================================
"""


class Logs:
    """The files that torchrun leaves of a launch of two ranks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = folder / "launcher.log"
        self.launcher.write_text("")
        for rank in range(2):
            self.stderr(rank).parent.mkdir(parents=True)
            self.stderr(rank).write_text(f"words of rank {rank}\n")

    def stderr(self, rank: int) -> Path:
        return self.folder / "none_abc" / "attempt_0" / str(rank) / "stderr.log"

    def exit_codes(self, code0: int, code1: int) -> None:
        self.launcher.write_text(REPORT.format(stub="kanstudy.worker", code0=code0, code1=code1))

    def raised(self, rank: int, message: str, at_s: float) -> None:
        path = self.stderr(rank).with_name("error.json")
        path.write_text(json.dumps({"message": {"message": message, "extraInfo": {"timestamp": "1"}}}))
        os.utime(path, (at_s, at_s))

    def failure(self, exit_code: int = 1):
        return first_failure(self.folder, self.launcher, exit_code)


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)


def test_the_first_to_raise_is_the_first_failure_within_one_second_too(logs):
    logs.exit_codes(1, 1)
    logs.raised(0, "RuntimeError: Connection closed by peer", at_s=100.9)
    logs.raised(1, "ValueError: the cause\nand more", at_s=100.2)
    failure = logs.failure()
    assert (failure.rank, failure.reason, failure.status) == (1, "ValueError: the cause", "failed")
    assert failure.log == logs.stderr(1)
    assert failure.log_tail == "words of rank 1"
    assert str(failure) == f"failed: rank 1: ValueError: the cause (log: {logs.stderr(1)})"


@pytest.mark.parametrize(
    ("code", "reason"),
    [(-9, "killed by SIGKILL (possibly out of memory)"), (-11, "killed by SIGSEGV"), (-99, "killed by signal 99")],
)
def test_a_killed_rank_is_the_cause_whoever_raised(logs, code, reason):
    logs.exit_codes(1, code)
    logs.raised(0, "RuntimeError: Connection closed by peer", at_s=100)
    failure = logs.failure()
    assert (failure.rank, failure.reason) == (1, reason)


def test_a_rank_that_torchrun_ended_is_not_the_cause(logs):
    logs.exit_codes(1, -15)
    assert logs.failure().rank == 0


def test_without_an_exception_the_exit_code_and_last_words_are_the_reason(logs):
    logs.exit_codes(0, 3)
    failure = logs.failure()
    assert (failure.rank, failure.reason) == (1, "ended with exit code 3: words of rank 1")


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 120000ms for recv operation to complete",
        "torch.distributed.DistBackendError: Watchdog caught collective operation timeout: WorkNCCL",
    ],
)
def test_a_collective_that_timed_out_is_a_timeout(logs, message):
    logs.exit_codes(1, 1)
    logs.raised(0, message, at_s=1)
    assert logs.failure().status == "timeout"


def test_a_stopped_rank_that_torchrun_had_to_kill_is_not_out_of_memory(logs):
    logs.exit_codes(1, -9)
    logs.raised(0, "RuntimeError: Timed out waiting 5000ms for recv operation to complete", at_s=1)
    failure = logs.failure()
    assert (failure.rank, failure.status) == (0, "timeout")


def test_a_watchdog_that_aborts_the_rank_is_a_timeout(logs):
    logs.exit_codes(-6, -15)
    logs.stderr(0).write_text("[rank0]: Watchdog caught collective operation timeout: WorkNCCL(...)\n")
    failure = logs.failure()
    assert (failure.status, failure.reason) == ("timeout", "killed by SIGABRT")


def test_a_launcher_that_fails_by_itself(logs):
    logs.launcher.write_text("Traceback\nOSError: [Errno 98] EADDRINUSE: address already in use\n")
    failure = logs.failure(exit_code=1)
    assert (failure.rank, failure.is_port_taken) == (None, True)
    assert (
        failure.reason == "the launcher ended with exit code 1: OSError: [Errno 98] EADDRINUSE: address already in use"
    )
    assert logs.failure(exit_code=-9).reason.startswith("the launcher killed by SIGKILL")


def test_an_unreadable_error_file_is_no_obstacle(logs):
    logs.exit_codes(1, 0)
    logs.stderr(0).with_name("error.json").write_text("{")
    assert logs.failure().reason == "ended with exit code 1: words of rank 0"


def test_nothing_at_all_is_said_so(tmp_path):
    failure = first_failure(tmp_path / "absent", tmp_path / "absent.log", 4)
    assert (failure.reason, failure.log_tail, failure.rank) == ("the launcher ended with exit code 4", "", None)


def test_a_stall_is_a_timeout_with_the_log_of_rank_0(logs):
    failure = stalled(logs.folder, logs.launcher, 65.3)
    assert (failure.status, failure.reason, failure.rank) == ("timeout", "no progress for 65 s", None)
    assert failure.log == logs.stderr(0)


def test_the_tail_is_bounded():
    assert tail("\n".join(map(str, range(100)))).splitlines() == [str(n) for n in range(100 - TAIL_LINES, 100)]
    assert len(tail("x" * 100_000)) == TAIL_CHARACTERS


@pytest.mark.parametrize(
    ("printed", "codes"),
    [
        ("srun: error: node1: task 1: Exited with exit code 1", {1: 1}),
        (
            "srun: error: node2: tasks 2-3: Killed\nsrun: error: node1: tasks 0,5: Terminated",
            {2: -9, 3: -9, 0: -15, 5: -15},
        ),
        ("srun: error: n: task 0: Segmentation fault (core dumped)", {0: -11}),
        ("srun: error: n: task 0: Out Of Memory", {0: -9}),
        ("srun: error: n: tasks 0-1: Aborted\nsrun: error: n: task 0: Exited with exit code 1", {0: -6, 1: -6}),
        ("srun: Job step aborted: Waiting up to 7 seconds for job step to finish.", {}),
    ],
)
def test_exit_codes_in_the_words_of_srun(printed, codes):
    assert step_codes(printed) == codes


def test_a_rank_that_srun_lost_is_named(tmp_path):
    logs = Logs(tmp_path)
    logs.launcher.write_text(
        "srun: error: node1: task 1: Killed\nsrun: Terminating StepId=3.1\n"
        "srun: error: node1: task 0: Exited with exit code 1\n"
    )
    logs.raised(0, "RuntimeError: Connection closed by peer", 1.0)
    failure = logs.failure(137)
    assert (failure.rank, failure.reason) == (1, "killed by SIGKILL (possibly out of memory)")


def test_a_node_that_failed_is_the_reason(tmp_path):
    logs = Logs(tmp_path)
    logs.launcher.write_text(
        "srun: error: Node failure on node2\nsrun: error: node1: task 0: Exited with exit code 1\n"
    )
    logs.raised(0, "RuntimeError: Connection closed by peer", 1.0)
    assert (logs.failure().rank, logs.failure().reason) == (None, "node node2 failed")


def test_a_rank_that_srun_ended_is_not_the_cause(tmp_path):
    logs = Logs(tmp_path)
    os.utime(logs.stderr(0), (1.0, 1.0))
    logs.launcher.write_text("srun: error: n1: task 1: Exited with exit code 3\nsrun: error: n1: task 0: Terminated\n")
    assert (logs.failure(143).rank, logs.failure(143).reason) == (1, "ended with exit code 3: words of rank 1")
