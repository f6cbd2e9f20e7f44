"""Measuring a plan here: one torchrun a launch, followed to its end; what fails becomes a record, the rest goes on.

Finished points are skipped, so that the same call may be made again at any time. When a launch dies, the point in
progress is marked with the first failing rank and its log, and the other points are launched again without it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from kanstudy.record import FINAL_FAULTS
from kanstudy.run_spec import RunSpec
from kanstudy.study import folder, places
from kanstudy.study.emulation import ranks as emulation
from kanstudy.study.faults import Failure
from kanstudy.study.folder import FolderError
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.jobs.submit import submit
from kanstudy.study.launches import Command, Launches
from kanstudy.study.pilot import forecasts
from kanstudy.study.plan import ExperimentPlan

__all__ = ["FolderError", "LaunchError", "LaunchOutcome", "run"]

LAUNCHERS = ("local", "slurm", "none")


class LaunchError(RuntimeError):
    """Points failed or timed out; the message lists each with its reason, rank and log."""


@dataclass(frozen=True, kw_only=True)
class LaunchOutcome:
    """What there is of a plan: `statuses[point_id]` is a record's status, `missing` or `unreadable`."""

    results_dir: Path
    statuses: dict[str, str]

    @property
    def left(self) -> list[str]:
        """Points that are not measured yet."""
        return [point for point, state in self.statuses.items() if state not in ("ok", *FINAL_FAULTS)]


def run(
    plan: ExperimentPlan,
    results_dir: Path | str = "",
    launcher: str = "local",
    max_minutes: float = 0.0,
    *,
    allocation: Allocation | None = None,
    _command: Command | None = None,
) -> LaunchOutcome:
    """Measure what a plan still lacks, and tell what there is; "slurm" submits that, "none" only tells.

    `results_dir` defaults to the profile's; with `max_minutes` (0: no limit) no round begins that would end later.
    In a job `allocation` is where the ranks run, instead of this machine.
    Raises `ValueError` on a bad argument, `ProfileError` if this machine cannot carry the plan, `FolderError` if the
    results cannot be written, all before anything starts; `LaunchError` at the end if points failed.
    """
    if launcher not in LAUNCHERS:
        raise ValueError(f"launcher = {launcher!r}: must be one of {', '.join(LAUNCHERS)}")
    if isinstance(max_minutes, str) or not max_minutes >= 0:
        raise ValueError(f"max_minutes = {max_minutes!r}: must be a number >= 0, 0 for no limit")
    results = places.results_dir(plan.profile, results_dir)
    if plan.note:
        _say(plan.note)
    for remark in plan.remarks:
        _say(f"Note: {remark}")
    for line in forecasts(plan, results):
        _say(line)
    failures: dict[str, Failure] = {}
    if launcher == "local":
        if allocation is None:
            plan.profile.check_machine()
        if any(plan.links):
            emulation.check()
        deadline = time.time() + 60 * max_minutes if max_minutes else None
        with folder.opened(results):  # also without points: what is there can then be read
            command = allocation.command if allocation else _command or here
            launches = Launches(plan, results, deadline, command, allocation, _say)
            launches.measure()
            failures = launches.failures
    elif launcher == "slurm" and plan.points:
        figures = results / "figures" if str(results_dir) else places.figures_dir(plan.profile)
        submit({plan.experiment: plan}, plan.profile, results, figures, _say)
    outcome = LaunchOutcome(results_dir=results, statuses=folder.states(plan, results))
    for point_id, state in outcome.statuses.items():
        if state in FINAL_FAULTS:
            _say(f"  {point_id}: {state}; this is its result, it is not tried again")
    if outcome.left:
        _say(f"{plan.experiment}: {len(outcome.left)} of {len(plan.points)} points are not measured yet")
    if failures:
        lines = [f"  {point_id}: {failure}" for point_id, failure in failures.items()]
        raise LaunchError("\n".join([f"{plan.experiment}: {len(lines)} of {len(plan.points)} points failed:", *lines]))
    return outcome


def here(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """The command that starts all ranks of a launch on this machine, over the launch's link if it has one."""
    return (emulation.command if run.link else torchrun)(run, plan_file, log_dir)


def torchrun(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """The command that starts them where they reach each other as they lie."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        # a free port each time, and no look-up of this machine's name, which may lead elsewhere
        *("--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(run.world_size), "--max-restarts", "0"),
        *("--log-dir", str(log_dir), "--redirects", "3"),
        *("-m", "kanstudy.worker", str(plan_file)),
    ]


def _say(line: str) -> None:
    print(line, flush=True)
