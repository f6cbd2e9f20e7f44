"""Measuring a plan here: one torchrun a launch, followed to its end; what fails becomes a record, the rest goes on.

Finished points are skipped, so that the same call may be made again at any time. When a launch dies, the point in
progress is marked with the first failing rank and its log, and the other points are launched again without it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kanstudy.record import FINAL_FAULTS, Fault, Record, RecordError, blank_record, write_record
from kanstudy.spec import PointSpec, RunSpec, to_json
from kanstudy.study import folder
from kanstudy.study.allocation import Allocation
from kanstudy.study.faults import Failure, first_failure, stalled
from kanstudy.study.folder import FolderError
from kanstudy.study.pilot import forecasts
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.processes import started
from kanstudy.study.profile import figures_dir as default_figures_dir
from kanstudy.study.profile import results_dir as default_results_dir
from kanstudy.study.progress import Progress, duration
from kanstudy.study.provenance import collect
from kanstudy.study.run_spec import data_files, environment, run_spec
from kanstudy.study.submit import submit

__all__ = ["FolderError", "LaunchError", "LaunchOutcome", "run"]

LAUNCHERS = ("local", "slurm", "none")
_POLL_S = 0.1

Command = Callable[[RunSpec, Path, Path], list[str]]


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
    if not max_minutes >= 0:
        raise ValueError(f"max_minutes = {max_minutes!r}: must be a number >= 0, 0 for no limit")
    results = default_results_dir(plan.profile, results_dir)
    if plan.note:
        _say(plan.note)
    for line in forecasts(plan, results):
        _say(line)
    failures: dict[str, Failure] = {}
    if launcher == "local":
        if allocation is None:
            plan.profile.check_machine()
        deadline = time.time() + 60 * max_minutes if max_minutes else None
        with folder.opened(results):  # also without points: what is there can then be read
            command = allocation.command if allocation else _command or torchrun
            launches = _Launches(plan, results, deadline, command, allocation)
            launches.measure()
            failures = launches.failures
    elif launcher == "slurm" and plan.points:
        submit({plan.experiment: plan}, plan.profile, results, default_figures_dir(plan.profile), _say)
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


def torchrun(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """The command that starts all ranks of a launch on this machine."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        # a free port each time, and no look-up of this machine's name, which may lead elsewhere
        *("--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(run.world_size), "--max-restarts", "0"),
        *("--log-dir", str(log_dir), "--redirects", "3"),
        *("-m", "kanstudy.worker", str(plan_file)),
    ]


class _Launches:
    """All launches of one plan. `failures` are the points that failed, which are not tried again in this call."""

    def __init__(
        self,
        plan: ExperimentPlan,
        results: Path,
        deadline: float | None,
        command: Command,
        allocation: Allocation | None,
    ) -> None:
        self.plan, self.results, self.deadline, self.command = plan, results, deadline, command
        self.allocation = allocation
        self.failures: dict[str, Failure] = {}
        self.data_files: dict[str, str] = {}
        self.environment = environment(plan.profile.machine.threads_per_rank, is_here=allocation is None)
        self.provenance = collect(self.environment)
        if allocation:
            self.provenance["preflight"] = allocation.provenance

    def measure(self) -> None:
        plan = self.plan
        try:
            folder.write_plan(plan, self.results)
        except OSError as error:
            raise FolderError(f"results folder {self.results}: cannot be written: {error.strerror}") from error
        missing = [p for p in plan.points if any(self._lacks(p, launch) for launch in range(plan.launches))]
        if not missing:
            if plan.points:
                _say(f"{plan.experiment}: all {len(plan.points)} points are measured already")
            return
        about = duration(plan.estimated_s() * len(missing) / len(plan.points))
        head = f"{plan.experiment}: {len(missing)} of {len(plan.points)} points to measure"
        about = f"{'at most ' if plan.target_width else ''}about {about}"
        _say(f"{head} on up to {plan.world_size} ranks, {about}; results in {self.results}")
        self.data_files = data_files(missing, self.results)
        lacked = []
        for launch in range(plan.launches):
            pending = [point for point in missing if self._lacks(point, launch)]
            lacked.append(set(pending))
            self._measure_launch(launch, pending)
        for launch in range(plan.launches):  # a record that could not go on here (other nodes) lost launches it had
            again = [point for point in missing if point not in lacked[launch] and self._lacks(point, launch)]
            self._measure_launch(launch, again)

    def _measure_launch(self, launch: int, pending: list[PointSpec]) -> None:
        """All of `pending` in one torchrun, and, each time that one dies, the others again in another."""
        port_was_taken = False
        while pending and not self._is_over():
            spec, log_dir = self._spec(launch, pending)
            progress, failure = self._launch(spec, log_dir)
            left = [point for point in pending if self._lacks(point, launch)]
            if self.allocation and self._is_taken_away(self.allocation, failure):
                return  # nothing failed: what is left stays as it is
            if failure is None and left and (self.deadline is None or progress.is_finished):
                reason = "the worker ended early, without a word"
                failure = Failure(status="failed", reason=reason, rank=None, log=log_dir / "launcher.log", log_tail="")
                self._fail(left, spec, failure, None)
            if failure is None or not left:
                return
            if failure.is_port_taken and progress.point_id is None and not port_was_taken:
                port_was_taken = True
                continue
            if progress.point_id is None:  # nothing was begun: the others would fail in the same way
                self._fail(left, spec, failure, None)
            else:
                self._fail([p for p in left if p.point_id == progress.point_id], spec, failure, progress.arm)
            pending = [point for point in left if point.point_id not in self.failures]

    def _is_taken_away(self, allocation: Allocation, failure: Failure | None) -> bool:
        """Whether a launch in a job ended because the job does, or because a node is dead."""
        if allocation.is_asked_to_end or failure is None:
            return allocation.is_asked_to_end
        if allocation.is_ending():
            return True
        if said := allocation.broken():
            _say(f"  {failure}\n  not all nodes answer any more, so nothing else is measured: {said}")
        return bool(said)

    def _is_over(self) -> bool:
        if self.allocation and self.allocation.is_asked_to_end:
            return True
        return self.deadline is not None and time.time() >= self.deadline

    def _launch(self, spec: RunSpec, log_dir: Path) -> tuple[Progress, Failure | None]:
        """Start all ranks and follow them to their end, which is in time, whatever they do."""
        log = log_dir / "launcher.log"
        progress = Progress(Path(spec.progress_file), len(spec.points), _say)
        timeout_s = self.plan.profile.stall_timeout_s
        with started(self.command(spec, log_dir / "run.json", log_dir), self.environment, log) as process:
            while (code := process.poll()) is None and progress.silent_s <= timeout_s:
                time.sleep(_POLL_S)
                progress.poll()
                if self.allocation:
                    self.allocation.pass_on(process)
        progress.poll()
        if code is None:
            return progress, stalled(log_dir, log, progress.silent_s)
        return progress, None if code == 0 else first_failure(log_dir, log, code)

    def _lacks(self, point: PointSpec, launch: int) -> bool:
        """Whether something of the point is to be measured in a launch; what is not timed in rounds is, in the last."""
        if point.point_id in self.failures:
            return False
        try:
            record = folder.find_record(self.results, point.experiment, point.point_id)
        except RecordError:  # the worker sets it aside
            return True
        rounds, launches = self.plan.rounds[point.point_id], self.plan.launches
        target = self.plan.target_width.get(point.point_id)
        if record is None or not self._is_of_this_machine(record):
            return True
        if record.is_final(rounds, launches, target):
            return False
        has = [record.has_launch(index, rounds, target) for index in range(launches)]
        return not has[launch] or (launch == launches - 1 and all(has))

    def _is_of_this_machine(self, record: Record) -> bool:
        """Whether a record was measured with the profile's ranks; one that was not is measured anew, not passed off."""
        profile = self.plan.profile
        wanted = (profile.machine.threads_per_rank, profile.device, profile.backend)
        return (record.threads_per_rank, record.device_type, record.backend) == wanted

    def _spec(self, launch: int, points: list[PointSpec]) -> tuple[RunSpec, Path]:
        """The launch's specification, written to a log folder of its own."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        log_dir = self.results / "logs" / self.plan.experiment / stamp
        spec = run_spec(
            self.plan,
            points,
            launch=launch,
            results=self.results,
            files=self.data_files,
            progress=log_dir / "progress.jsonl",
            provenance=self.provenance,
            deadline=self.deadline,
        )
        log_dir.mkdir(parents=True)
        (log_dir / "run.json").write_text(to_json(spec), encoding="utf-8")
        return spec, log_dir

    def _fail(self, points: Iterable[PointSpec], spec: RunSpec, failure: Failure, arm: str | None) -> None:
        """A record for each, which keeps the complete rounds that are there."""
        for point in points:
            try:
                record = folder.find_record(self.results, point.experiment, point.point_id)
            except RecordError:
                record = None
            if record is not None and not self._is_of_this_machine(record):
                self.failures[point.point_id] = failure  # what was measured with other ranks did not fail: it stays
                _say(f"  {point.point_id}: {failure}")
                continue
            record = record or blank_record(point, spec)
            record.status = failure.status
            record.error = Fault(reason=failure.reason, arm=arm, rank=failure.rank, log_tail=failure.log_tail)
            write_record(record, self.results)
            self.failures[point.point_id] = failure
            _say(f"  {point.point_id}: {failure}")


def _say(line: str) -> None:
    print(line, flush=True)
