"""The worker, watched for what is compiled where: run by torchrun with a folder to write to and a plan.

`<folder>/<rank>.json` holds when this rank took its first steps [start, end], what it compiled in them, and what it
compiled in all the rest of the launch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from numba.core import event
from torch._dynamo.utils import counters

import kanstudy.worker.first_steps as first_steps
import kanstudy.worker.measure as measure
from kanstudy.worker.__main__ import main

folder, rank = Path(sys.argv.pop(1)), os.environ["RANK"]
watched: dict[str, Any] = {"times": [], "first_steps": Counter(), "rest": Counter()}
listener = event.RecordingListener()
event.register("numba:compile", listener)
_first_steps, _measure = first_steps._first_steps, measure.Measurement.measure


def compiled() -> Counter[str]:
    """Kernels that numba compiled, graphs that torch traced, and those of them that it did not find in its cache."""
    numba_kernels = sum(item.is_start for _, item in listener.buffer)
    missed = counters["inductor"]["fxgraph_cache_miss"]
    return Counter(numba=numba_kernels, traced=counters["stats"]["unique_graphs"], missed=missed)


def watch_first_steps(*arguments: Any) -> None:
    before, start = compiled(), time.time()
    _first_steps(*arguments)
    watched["times"].append([start, time.time()])
    watched["first_steps"].update(compiled() - before)


def watch_measure(self: Any) -> None:
    _measure(self)
    watched["rest"] = compiled() - watched["first_steps"]
    (folder / f"{rank}.json").write_text(json.dumps(watched))


first_steps._first_steps = watch_first_steps
measure.Measurement.measure = watch_measure  # type: ignore[method-assign]
main()
