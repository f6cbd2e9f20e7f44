"""`python -m kanstudy.study.job RUN -- SRUN ...`: measure a run folder inside its allocation, on its first node.

The batch script gives the command that starts one process a rank. SIGUSR1 ends the launch in progress after its
round. Exit codes as of `kanstudy run`: 4 where something is left to measure, which submitting again goes on with.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from kanstudy.study import batch, launch, provenance, slurm, submission
from kanstudy.study.allocation import Allocation

MARGIN_S = 45.0
"""Seconds before the time limit by which everything is written."""


def measure(run: submission.Submission, step: list[str], job: str) -> int:
    """Measure what the run's plans still lack; the exit code."""
    allocation = Allocation(run.cluster, step, lambda: slurm.state(job))
    signal.signal(signal.SIGUSR1, allocation.ask_to_end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that the step ends too
    attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
    _say(f"job {job}, start {int(attempt) + 1}, on {os.environ.get('SLURM_JOB_NODELIST', '?')}")
    if (now := provenance.git_state(Path(__file__).parent)) != run.code:
        _say(f"the code has changed since the job was submitted: {run.code} then, {now} now; the records tell")
    left_s = slurm.time_left_s(job)
    end_s = None if left_s is None else time.monotonic() + left_s - MARGIN_S
    failures: list[str] = []
    for plan in run.plans.values():
        if allocation.is_asked_to_end or (end_s is not None and time.monotonic() >= end_s):
            break
        minutes = 0.0 if end_s is None else (end_s - time.monotonic()) / 60
        try:
            launch.run(plan, run.results, "local", minutes, allocation=allocation)
        except (launch.LaunchError, launch.FolderError) as error:
            _say(str(error))
            failures.append(plan.experiment)
    states = batch.point_states(run.plans, run.results)
    _say(batch.summary(states))
    stopped = allocation.is_asked_to_end or allocation.is_ending() or (end_s is not None and time.monotonic() >= end_s)
    return batch.exit_code(states, failures, stopped)


def main() -> None:
    """Read the command line, which the batch script writes."""
    folder, _, *step = sys.argv[1:]
    try:
        run = submission.read(Path(folder))
    except (OSError, ValueError, KeyError) as error:
        print(f"{folder}: not the folder of a run: {error}", file=sys.stderr)
        sys.exit(batch.BAD_INPUT)
    sys.exit(measure(run, step, os.environ["SLURM_JOB_ID"]))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
