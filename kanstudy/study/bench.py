"""Measuring operators: a process for each measurement; what fails is a row with its reason, and the rest goes on.

Of each candidate at each shape the first step with empty compiler caches and, in another process, with filled ones, and
peak memory; then the accuracy of each candidate; last the timing, all candidates of a shape interleaved in one process,
without those that failed before or whose single step takes too long.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kanstudy.bench_record import (
    OPERATORS,
    PEERS,
    Accuracy,
    BenchRecord,
    Cell,
    Memory,
    Part,
    Request,
    Timing,
    write_bench,
)
from kanstudy.machine import core_order
from kanstudy.study import folder
from kanstudy.study.bench_plan import NOT_INSTALLED, BenchPlan, is_installed
from kanstudy.study.processes import started
from kanstudy.study.progress import Progress, duration
from kanstudy.study.provenance import collect
from kanstudy.study.run_spec import environment

BLOCK_S = 0.05
SILENT_S = 600.0
"""A process that says nothing for so long is ended."""
SLOWEST_STEP_S = 10.0
"""A candidate with a slower step is not timed: its blocks would take longer than all others' together."""
_POLL_S = 0.05
_WHOLE_TENSORS = {"MALLOC_MMAP_MAX_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""For memory: a freed tensor goes back to the system at once, so that what is resident is what is held."""

Say = Callable[[str], None]


def run(plan: BenchPlan, results: Path, say: Say = print) -> BenchRecord:
    """Measure a plan; the record in `results` is rewritten after each part, and returned.

    Raises `FolderError` before anything starts if the results cannot be written.
    """
    with folder.opened(results), tempfile.TemporaryDirectory(prefix="kanstudy-bench-") as scratch:
        bench = _Bench(plan, results, Path(scratch), say)
        bench.measure()
        return bench.record


def command(request: Request) -> list[str]:
    """The process that answers a request."""
    return [sys.executable, "-m", "kanstudy.bench", json.dumps(dataclasses.asdict(request))]


class _Bench:
    def __init__(self, plan: BenchPlan, results: Path, scratch: Path, say: Say) -> None:
        self.plan, self.results, self.scratch, self.say = plan, results, scratch, say
        self.logs = results / "logs" / "bench" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        self.logs.mkdir(parents=True)
        self.environment = environment(plan.threads)
        # compilers beside what is timed would disturb it
        self.environment |= {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self.asked, self.parts_done = 0, 0
        self.record = self._blank()

    def measure(self) -> None:
        write_bench(self.record, self.results)
        for shape in self.plan.shapes:
            for name in self.plan.candidates:
                self._first_steps_and_memory(self.record.cell(shape, name))
        for accuracy in self.record.accuracy:
            self._accuracy(accuracy)
        for shape in self.plan.shapes:
            self._timing(shape)
        self.record.status = "ok"
        write_bench(self.record, self.results)

    def _first_steps_and_memory(self, cell: Cell) -> None:
        name, caches = cell.candidate, self.scratch / f"caches{self.asked}"
        if name in PEERS and not is_installed(name):
            answer: dict[str, Any] = {"fault": {"status": "absent", "reason": NOT_INSTALLED}}
        else:
            answer = self._ask("first_step", [name], cell.shape, caches)
        if not _take_fault(answer, cell.memory):
            cell.first_step_cold_s = answer["first_step_s"]
            answer = self._ask("memory", [name], cell.shape, caches)
        if not _take_fault(answer, cell.memory):
            cell.memory = Memory(status="ok", reason=answer["reason"], peak_bytes=answer["peak_bytes"])
            cell.memory.step_times_s = answer["step_times_s"]
            cell.first_step_warm_s, cell.n_params = answer["first_step_s"], answer["n_params"]
            cell.losses = answer.get("losses")
        if cell.memory.status != "ok":
            cell.timing = Timing(status=cell.memory.status, reason=cell.memory.reason)
        elif min(cell.memory.step_times_s) > SLOWEST_STEP_S:
            reason = f"a step takes {min(cell.memory.step_times_s):.0f} s, more than {SLOWEST_STEP_S:g} s"
            cell.timing = Timing(status="slow", reason=reason)
        said = "" if cell.memory.peak_bytes is None else f"peak {cell.memory.peak_bytes / 2**20:.1f} MiB, "
        if cell.first_step_warm_s is not None and cell.first_step_cold_s is not None:
            said += f"first step {cell.first_step_warm_s:.1f} s (compiler caches empty: {cell.first_step_cold_s:.1f} s)"
        self._done(f"{cell.shape} {name}", said or _told(cell.memory))

    def _accuracy(self, accuracy: Accuracy) -> None:
        faults = [cell.memory for cell in self.record.cells if cell.candidate == accuracy.candidate]
        if all(part.status == "absent" for part in faults):
            accuracy.status, accuracy.reason = "absent", faults[0].reason
        else:
            answer = self._ask("accuracy", [accuracy.candidate], None)
            if not _take_fault(answer, accuracy):
                accuracy.status, accuracy.reason = "ok", answer.get("reason")
                accuracy.max_errors = answer["max_errors"]
        errors = ", ".join(f"{error:.1e}" for error in accuracy.max_errors or [])
        self._done(f"accuracy of {accuracy.candidate}", errors or _told(accuracy))

    def _timing(self, shape: str) -> None:
        cells = {cell.candidate: cell for cell in self.record.cells if cell.shape == shape}
        names = [name for name, cell in cells.items() if cell.timing.status == "not measured"]
        while names:
            answer = self._ask("timing", names, shape)
            fault = Part()
            if not _take_fault(answer, fault):
                for name in names:
                    timing = cells[name].timing
                    if not _take_fault(answer[name], timing):
                        cells[name].timing = Timing(status="ok", **answer[name])
                break
            # whoever ran when the process ended; the others once more without it
            culprit = answer["arm"] if answer["arm"] in names else names[0]
            cells[culprit].timing = Timing(status=fault.status, reason=fault.reason)
            names.remove(culprit)
        timed = sum(cell.timing.status == "ok" for cell in cells.values())
        self._done(f"{shape} timing", f"{self.plan.rounds} rounds of {timed} candidates")

    def _ask(self, task: str, names: list[str], shape: str | None, caches: Path | None = None) -> dict[str, Any]:
        """The answer of a process; `fault` and the candidate `arm` that ran last where it gives none."""
        self.asked += 1
        stem = f"{self.asked:03d}-{task}" + (f"-{names[0]}" if len(names) == 1 else "")
        folder = self.scratch / stem
        folder.mkdir()
        request = Request(
            task=task,
            candidates=names,
            added=self.plan.added,
            shape=shape,
            threads=self.plan.threads,
            cores=self.record.cores,
            seed=self.plan.seed,
            rounds=self.plan.rounds,
            block_s=BLOCK_S,
            answer=str(folder / "answer.json"),
            progress=str(folder / "progress.jsonl"),
        )
        own = self.environment
        if caches is not None:
            own = own | {"NUMBA_CACHE_DIR": str(caches), "TORCHINDUCTOR_CACHE_DIR": str(caches)}
        if task == "memory":
            own = own | _WHOLE_TENSORS
        log = self.logs / f"{stem}.log"
        progress = Progress(Path(request.progress), 1, self.say)
        with started(command(request), own, log) as process:
            while (code := process.poll()) is None and progress.silent_s <= SILENT_S:
                time.sleep(_POLL_S)
                progress.poll()
        progress.poll()
        try:
            answer: dict[str, Any] = json.loads(Path(request.answer).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            answer = {"fault": _death(code, log), "arm": progress.arm}
        return answer

    def _done(self, what: str, said: str) -> None:
        """Tell of a part and keep it."""
        self.parts_done += 1
        total = len(self.record.cells) + len(self.record.accuracy) + len(self.plan.shapes)
        self.say(f"[{self.parts_done}/{total}] {what}: {said}")
        write_bench(self.record, self.results)

    def _blank(self) -> BenchRecord:
        plan = self.plan
        cores = core_order()[: plan.threads] if hasattr(os, "sched_setaffinity") else None
        return BenchRecord(
            profile=plan.profile,
            seed=plan.seed,
            threads=plan.threads,
            cores=cores,
            rounds_planned=plan.rounds,
            block_s=BLOCK_S,
            shapes=list(plan.shapes),
            candidates={name: OPERATORS.get(name, name) for name in plan.candidates},
            added=plan.added,
            versions={name: _version(name) for name in plan.candidates if name in PEERS},
            cells=[Cell(shape=shape, candidate=name) for shape in plan.shapes for name in plan.candidates],
            accuracy=[Accuracy(candidate=name) for name in plan.candidates],
            provenance=collect(self.environment),
        )


def _take_fault(answer: dict[str, Any], part: Part) -> bool:
    """Whether an answer is a fault; the part then says so."""
    if "fault" not in answer:
        return False
    part.status, part.reason = answer["fault"]["status"], answer["fault"]["reason"]
    return True


def _told(part: Part) -> str:
    return ": ".join(filter(None, [part.status if part.status != "ok" else "", part.reason]))


def _death(code: int | None, log: Path) -> dict[str, str]:
    """Why a process gave no answer; `code` None: it was silent for too long."""
    if code is None:
        return {"status": "timeout", "reason": f"no sign of life for {duration(SILENT_S)}; log: {log}"}
    if code < 0:
        return {"status": "failed", "reason": f"ended by {signal.Signals(-code).name}; log: {log}"}
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return {"status": "failed", "reason": f"{lines[-1][:300] if lines else 'no word'} (exit code {code}); log: {log}"}


def _version(peer: str) -> str | None:
    try:
        return importlib.metadata.version(peer)
    except importlib.metadata.PackageNotFoundError:
        return None
