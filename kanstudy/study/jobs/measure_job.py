"""`python -m kanstudy.study.jobs.measure_job RUN -- SRUN ...`: measure a run folder inside its allocation, on node 0.

The batch script gives the command that starts one process a rank. SIGUSR1 ends the launch in progress after its
round. Exit codes as of `kanstudy run`: 4 where something is left to measure, which submitting again goes on with; 2
where the nodes do not carry the study.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.study import batch, folder, launch, provenance
from kanstudy.study.datasets.rows import DataError
from kanstudy.study.jobs import preflight, slurm, submission
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.profile import ProfileError
from kanstudy.study.run_spec import environment

MARGIN_S = 45.0
"""Seconds before the time limit by which everything is written."""
LOCK_S = 120.0
"""How long the lock of a job that was just taken away may last on a network file system."""


def measure(run: submission.Submission, step: list[str], job: str) -> int:
    """Measure what the run's plans still lack, in job number `job`, with `step` in front of each rank's command; the
    exit code of `kanstudy run`. What cannot be measured is told, and the rest goes on."""
    allocation = Allocation(run.cluster, step, lambda: slurm.state(job))
    signal.signal(signal.SIGUSR1, allocation.ask_to_end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that the step ends too
    start = int(os.environ.get("SLURM_RESTART_COUNT", "0")) + 1
    _say(f"job {job}, start {start}, on {os.environ.get('SLURM_JOB_NODELIST', '?')}")
    if (now := provenance.git_state(Path(kanstudy.__file__).resolve().parent)) != run.code:
        _say(f"the code has changed since the job was submitted: {_code(run.code)} then, {_code(now)} now")
    left_s = slurm.time_left_s(job)
    end_s = None if left_s is None else time.monotonic() + left_s - MARGIN_S
    left = submission.unfinished(run.plans, run.results)
    if left:
        own = environment(run.profile.machine.threads_per_rank, is_here=False)
        found = run.folder / f"preflight-{job}-{start}"
        try:
            wait_for_lock(run.results)
            allocation.provenance = preflight.check(allocation, run.profile, run.results, found, own)
        except (preflight.PreflightError, folder.FolderError) as error:
            if not allocation.is_ending():
                _say(str(error))
                return batch.BAD_INPUT
        if allocation.provenance.get("flag"):
            _say(allocation.provenance["flag"])
    failures: list[str] = []
    for name in left:
        if allocation.is_asked_to_end or (end_s is not None and time.monotonic() >= end_s):
            break
        minutes = 0.0 if end_s is None else (end_s - time.monotonic()) / 60
        try:
            launch.run(run.plans[name], run.results, "local", minutes, allocation=allocation)
        except (launch.LaunchError, folder.FolderError, DataError, OSError) as error:
            _say(str(error))
            failures.append(name)
    states = batch.point_states(run.plans, run.results)
    _say(batch.summary(states))
    stopped = allocation.is_ending() or (end_s is not None and time.monotonic() >= end_s)
    return batch.exit_code(states, failures, stopped)


def _code(state: dict[str, Any] | None) -> str:
    return f"{state['commit'][:12]}{' with changes' if state['dirty'] else ''}" if state else "no commit"


def wait_for_lock(results: Path) -> None:
    """Wait until nothing else writes the results; `FolderBusyError` where that lasts longer than `LOCK_S`."""
    end = time.monotonic() + LOCK_S
    while True:
        try:
            with folder.opened(results):
                return
        except folder.FolderBusyError:
            if time.monotonic() > end:
                raise
            time.sleep(5)


def main() -> None:
    """Read the command line, which the batch script writes."""
    place, _, *step = sys.argv[1:]
    try:
        run = submission.read(Path(place))
    except (OSError, ProfileError) as error:
        print(f"{place}: not the folder of a run: {error}", file=sys.stderr)
        sys.exit(batch.BAD_INPUT)
    sys.exit(measure(run, step, os.environ["SLURM_JOB_ID"]))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
