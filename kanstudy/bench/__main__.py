"""`python -m kanstudy.bench REQUEST`: one measurement in a process of its own. REQUEST is a `Request` as JSON.

The answer goes to the request's file, faults of the candidate included; exit code 1 and a traceback for all others.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from kanstudy.bench_record import ACCURACY_GRIDS, Request, shape_of
from kanstudy.files import write_atomically
from kanstudy.strict_json import build_strictly, without_nan

MEMORY_SHARE = 0.8
"""Of what is available: beyond it an allocation fails here, before the system ends some other process."""
LOSS_STEPS = 20
LOSS_OF = ("fused", "fused_bf16")
"""Candidates that differ in the precision of their products: their losses are put side by side."""


def prepare(request: Request) -> None:
    """Cores and memory limit before torch is imported, so that its threads inherit them; then its settings."""
    if request.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, request.cores)
    limit = psutil.Process().memory_info().rss + int(MEMORY_SHARE * psutil.virtual_memory().available)
    given = [value for value in resource.getrlimit(resource.RLIMIT_DATA) if value != resource.RLIM_INFINITY]
    limit = min([limit, *given])  # a limit cannot be raised
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import torch

    torch.set_num_threads(request.threads)
    torch.set_flush_denormal(True)  # as in the study: Adam's moments without gradient would slow every step


def perform(request: Request) -> dict[str, Any]:
    """The answer to a request; `fault` with status and reason where the candidate cannot do it."""
    if request.task == "timing":
        return _timing(request)
    (name,) = request.candidates
    tasks = {"first_step": _first_step, "memory": _memory, "accuracy": _accuracy}
    try:
        return tasks[request.task](request, name)
    except Exception as error:  # another package may raise anything: that is a result
        return fault(error)


def fault(error: Exception) -> dict[str, Any]:
    """The status and the reason of a part whose candidate raised."""
    text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    if isinstance(error, MemoryError) or "allocate memory" in text:
        return {"fault": {"status": "oom", "reason": f"out of memory: {text}"}}
    return {"fault": {"status": "absent" if isinstance(error, ImportError) else "failed", "reason": text}}


def _starter(request: Request, name: str) -> Callable[[], Any]:
    from kanstudy.bench.candidates import start

    return partial(start, name, shape_of(request.shape or ""), request.seed, request.added)


def _first_step(request: Request, name: str) -> dict[str, Any]:
    from kanstudy.bench.memory import first_step

    return {"first_step_s": first_step(_starter(request, name))}


def _memory(request: Request, name: str) -> dict[str, Any]:
    from kanstudy.bench import memory

    starter = _starter(request, name)
    measured = dataclasses.asdict(memory.measure(starter))
    if name in LOSS_OF:
        trained = starter()
        measured["losses"] = [float(trained.step()) for _ in range(LOSS_STEPS)]
    return measured


def _accuracy(request: Request, name: str) -> dict[str, Any]:
    from kanstudy.bench.accuracy import NoBasis, max_error

    try:
        return {"max_errors": [max_error(name, grid_size, request.added) for grid_size in ACCURACY_GRIDS]}
    except NoBasis as none:
        return {"max_errors": None, "reason": str(none)}


def _timing(request: Request) -> dict[str, Any]:
    from kanstudy.bench.timing import time_interleaved

    with Path(request.progress).open("a", encoding="utf-8") as events:

        def tell(name: str, done: int, total: int) -> None:
            event = {"event": "block", "point_id": request.shape, "arm": name, "done": done, "total": total}
            events.write(json.dumps(event) + "\n")
            events.flush()

        starters = {name: _starter(request, name) for name in request.candidates}
        results = time_interleaved(starters, request.rounds, request.block_s, request.seed, tell)
    return {name: fault(result["fault"]) if "fault" in result else result for name, result in results.items()}


def main() -> None:
    """Do what the command line asks for."""
    request: Request = build_strictly(Request, json.loads(sys.argv[1]), "request")
    sys.path.sort(key=lambda folder: folder == os.getcwd())  # last: a file kan.py of the user's is not the package kan
    os.chdir(Path(request.answer).parent)  # other packages may write files where they are
    prepare(request)
    write_atomically(Path(request.answer), json.dumps(without_nan(perform(request))))
    sys.stdout.flush()
    os._exit(0)  # threads of other packages must not keep the process, nor what they do at exit undo it


if __name__ == "__main__":
    main()
