"""All launches of one plan: each followed to its end; what fails becomes a record, the rest goes on without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kanstudy.record import Fault, Record, blank_record
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, to_json
from kanstudy.spec import PointSpec
from kanstudy.strict_json import RecordError
from kanstudy.study import folder
from kanstudy.study.emulation import ranks as emulation
from kanstudy.study.faults import Failure, first_failure, stalled
from kanstudy.study.folder import FolderError
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.processes import started
from kanstudy.study.progress import Progress, duration
from kanstudy.study.provenance import collect, settings
from kanstudy.study.run_spec import data_files, environment, run_spec
from kanstudy.wanted import wanted_of

Command = Callable[[RunSpec, Path, Path], list[str]]
"""What starts all ranks of a launch, from its specification, the file that holds it, and its folder of logs."""
_POLL_S = 0.1


class Launches:
    """All launches of one plan. `failures` are the points that failed, which are not tried again in this call."""

    def __init__(
        self,
        plan: ExperimentPlan,
        results: Path,
        deadline: float | None,
        command: Command,
        allocation: Allocation | None,
        say: Callable[[str], None],
    ) -> None:
        self.plan, self.results, self.deadline, self.command = plan, results, deadline, command
        self.allocation, self.say = allocation, say
        self.failures: dict[str, Failure] = {}
        self.data_files: dict[str, str] = {}
        self.environment = environment(plan.profile.machine.threads_per_rank, is_here=allocation is None)
        self.provenance = collect(self.environment) | plan.provenance
        if allocation:
            self.provenance["preflight"] = allocation.provenance

    def measure(self) -> None:
        """Measure what the plan still lacks; `FolderError` where the results cannot be written."""
        plan = self.plan
        folder.check_measured(plan, self.results)
        try:
            folder.write_plan(plan, self.results)
        except OSError as error:
            raise FolderError(f"results folder {self.results}: cannot be written: {error.strerror}") from error
        missing = [p for p in plan.points if any(self._lacks(p, launch) for launch in range(plan.launches))]
        if not missing:
            if plan.points:
                self.say(f"{plan.experiment}: all {len(plan.points)} points are measured already")
            return
        about = duration(plan.estimated_s() * len(missing) / len(plan.points))
        head = f"{plan.experiment}: {len(missing)} of {len(plan.points)} points to measure"
        about = f"{'at most ' if plan.target_width else ''}about {about}"
        self.say(f"{head} on up to {plan.world_size} ranks, {about}; results in {self.results}")
        self.data_files = data_files(missing, self.results)
        lacked = []
        for launch in range(plan.launches):
            pending = [point for point in missing if self._lacks(point, launch)]
            lacked.append(set(pending))
            self._measure_links(launch, pending)
        for launch in range(plan.launches):  # a record that could not go on here (other nodes) lost launches it had
            again = [point for point in missing if point not in lacked[launch] and self._lacks(point, launch)]
            self._measure_links(launch, again)

    def _measure_links(self, launch: int, pending: list[PointSpec]) -> None:
        """A launch of its own for the points of each link."""
        for link in self.plan.links:
            self._measure_launch(launch, [point for point in pending if point.link == link])

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
                self._take_another_port()
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
            self.say(f"  {failure}\n  not all nodes answer any more, so nothing else is measured: {said}")
        return bool(said)

    def _is_over(self) -> bool:
        if self.allocation and self.allocation.is_asked_to_end:
            return True
        return self.deadline is not None and time.time() >= self.deadline

    def _launch(self, spec: RunSpec, log_dir: Path) -> tuple[Progress, Failure | None]:
        """Start all ranks and follow them to their end, which is in time, whatever they do."""
        log = log_dir / "launcher.log"
        progress = Progress(Path(spec.progress_file), len(spec.points), self.say)
        timeout_s = self.plan.profile.stall_timeout_s
        command = self.command(spec, log_dir / "run.json", log_dir)
        with started(command, self._environment(spec.points), log) as process:
            while (code := process.poll()) is None and progress.silent_s <= timeout_s:
                time.sleep(_POLL_S)
                progress.poll()
                if self.allocation:
                    self.allocation.pass_on(process)
        progress.poll()
        if code is None:
            return progress, stalled(log_dir, log, progress.silent_s)
        return progress, None if code == 0 else first_failure(log_dir, log, code)

    def _environment(self, points: Sequence[PointSpec]) -> dict[str, str]:
        """The environment of the ranks that measure these points."""
        if not points[0].link:
            return self.environment
        return self.environment | emulation.environment(max(point.world_size for point in points))

    def _take_another_port(self) -> None:
        """For a job's ranks, which meet at a port that is given; torchrun looks for a free one by itself."""
        if self.allocation and "MASTER_PORT" in self.environment:
            self.environment["MASTER_PORT"] = str(int(self.environment["MASTER_PORT"]) + 1)

    def _lacks(self, point: PointSpec, launch: int) -> bool:
        """Whether something of the point is to be measured in a launch; what is not timed in rounds is, in the last."""
        if point.point_id in self.failures:
            return False
        try:
            record = folder.find_record(self.results, point)
        except RecordError:  # the worker sets it aside
            return True
        if record is None or not self._is_of_this_machine(record):
            return True
        wanted = wanted_of(self.plan, point.point_id)
        if wanted.is_final(record):
            return False
        is_last = launch == wanted.launches - 1
        return not wanted.has_launch(record, launch) or (is_last and wanted.has_rounds(record))

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
            provenance=self.provenance | {"settings": settings(self._environment(points))},
            deadline=self.deadline,
        )
        log_dir.mkdir(parents=True)
        (log_dir / "run.json").write_text(to_json(spec), encoding="utf-8")
        return spec, log_dir

    def _fail(self, points: Iterable[PointSpec], spec: RunSpec, failure: Failure, arm: str | None) -> None:
        """A record for each, which keeps the complete rounds that are there."""
        for point in points:
            try:
                record = folder.find_record(self.results, point)
            except RecordError:
                record = None
            if record is not None and not self._is_of_this_machine(record):
                self.failures[point.point_id] = failure  # what was measured with other ranks did not fail: it stays
                self.say(f"  {point.point_id}: {failure}")
                continue
            record = record or blank_record(point, spec)
            record.status = failure.status
            record.error = Fault(reason=failure.reason, arm=arm, rank=failure.rank, log_tail=failure.log_tail)
            write_record(record, self.results)
            self.failures[point.point_id] = failure
            self.say(f"  {point.point_id}: {failure}")
