"""A study to which something happens, and what must hold when it is simply run again.

`python trial.py FOLDER WORKER` measures the trial of a folder in a process of its own, which can be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from profiles_for_tests import MACHINE, STRONG, write

from kanstudy.record import Record
from kanstudy.record_files import read_record
from kanstudy.run_spec import RunSpec
from kanstudy.study.experiments import plan
from kanstudy.study.launch import FolderError, LaunchError, LaunchOutcome, run, torchrun
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import ProfileError, load_profile

HERE = Path(__file__).resolve().parent
STUB = HERE.parent / "study" / "stub_worker.py"
QUICK = "block_s = 0.01\nwarmup_s = 0.0\nwarmup_steps = 1\nphase_steps = 1\ntrain_steps = 2\n"
SERIES = f"{STRONG}rounds = 1\n", f"{STRONG.replace('[3]', '[4]')}rounds = 3\n"
"""Two points that are complete after one round, and two, of one rank and of two, that want three."""


def stub(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """One process that measures nothing, quickly."""
    return [sys.executable, str(STUB), str(plan_file)]


def ranks(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """Real ranks, of which one may have a fault."""
    command = torchrun(run, plan_file, log_dir)
    return [*command[: command.index("kanstudy.worker") - 1], str(HERE / "faulty_worker.py"), str(plan_file)]


WORKERS = {"stub": stub, "ranks": ranks}


class Trial:
    """A study of four points in a folder of its own."""

    def __init__(self, folder: Path, worker: str = "stub", machine: str = "", series: tuple[str, ...] = SERIES) -> None:
        self.folder, self.worker = folder, worker
        self.results = folder / "results"
        self.results.mkdir(parents=True, exist_ok=True)
        self.profile = folder / "tiny.toml"
        if not self.profile.exists():
            write(folder, *series, MACHINE + machine, study=QUICK)

    @property
    def plan(self) -> ExperimentPlan:
        return plan(load_profile(self.profile), "strong_scaling")

    @property
    def last(self) -> str:
        """The point of two ranks that wants three rounds, to which faults happen in the second."""
        return self.plan.points[-1].point_id

    def fault(self, how: str, rank: int = 1, **details: object) -> None:
        """What is to go wrong in the next run."""
        if self.worker == "stub":
            (self.results / "stub.json").write_text(json.dumps({self.last: how}))
        else:
            (self.results / "fault.json").write_text(json.dumps({"rank": rank, "how": how, **details}))

    def run(self, **options: Any) -> LaunchOutcome:
        return run(self.plan, self.results, _command=WORKERS[self.worker], **options)

    @contextlib.contextmanager
    def started(
        self, *before: str, package: Path = HERE.parents[1], **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """The study, run by a process of its own, which the words `before` start; `package` is where kanstudy lies."""
        command = [*before, sys.executable, str(HERE / "trial.py"), str(self.folder), self.worker]
        path = os.pathsep.join([str(STUB.parent), str(package)])
        process = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": path} | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def struck_rank(self) -> psutil.Process:
        """The rank that waits for what happens to it, once it does."""
        here = self.results / ("hanging" if self.worker == "stub" else "here")
        wait_until(lambda: here.exists() and here.read_text() != "")
        process = psutil.Process(int(here.read_text()))
        here.unlink()
        return process

    def processes(self) -> list[psutil.Process]:
        """The living processes that work on this trial, this one aside."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            named = any(str(self.folder) in word for word in process.cmdline())
            return named and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # just gone
            return False

    def no_process_is_left(self) -> None:
        wait_until(lambda: not self.processes())

    def record(self, point_id: str) -> Record:
        return read_record(self.results / "strong_scaling" / f"{point_id}.json")

    def records(self) -> dict[str, Record]:
        return {path.stem: read_record(path) for path in self.results.glob("strong_scaling/*.json")}

    def is_struck(self) -> Mapping[str, Record]:
        """What there is after the fault: two complete points, and a complete round of those that want three."""
        records = self.records()
        assert {name for name, record in records.items() if record.status == "ok"} >= set(self.ids()[:2])
        assert 1 <= records[self.last].rounds_of_launch(0) < 3
        return records

    def ids(self) -> list[str]:
        return [point.point_id for point in self.plan.points]

    def is_whole_after_another_run(self, **options: Any) -> LaunchOutcome:
        """Run it again, plainly: it ends complete, `ok` records keep every byte, complete rounds every time."""
        for name in ("stub.json", "fault.json"):
            (self.results / name).unlink(missing_ok=True)
        before = self.records()
        finished = {path: path.read_bytes() for path in self.results.glob("strong_scaling/*.json")}
        finished = {path: text for path, text in finished.items() if before[path.stem].status == "ok"}
        outcome = self.run(**options)
        assert set(outcome.statuses.values()) == {"ok"}, outcome
        for path, text in finished.items():
            assert path.read_bytes() == text
        after = self.records()
        assert set(after) == set(self.ids())
        for name, record in before.items():
            for arm, measured in record.arms.items():
                assert after[name].arms[arm].rounds[: len(measured.rounds)] == measured.rounds
        for name, rounds in self.plan.rounds.items():
            assert {len(arm.rounds) for arm in after[name].arms.values()} == {rounds}
        return outcome


def wait_until(is_so: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


if __name__ == "__main__":
    try:
        Trial(Path(sys.argv[1]), sys.argv[2]).run()
    except (LaunchError, FolderError, ProfileError) as error:
        sys.exit(str(error))
