"""Training steps of all candidates at one shape, interleaved: rounds of one block each, in shuffled order."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from kanstudy.bench.candidates import Trained

WARMUP_S, WARMUP_STEPS, PILOT_STEPS = 0.2, 3, 5
Starter = Callable[[], Trained]


def time_interleaved(
    starters: Mapping[str, Starter], rounds: int, block_s: float, seed: int, tell: Callable[[str, int, int], object]
) -> dict[str, dict[str, Any]]:
    """One block a candidate and round, each of the steps that fill about `block_s`, after one step that is not timed.

    Returns, by candidate, `steps_per_block`, `block_times_s` and `places` (see `bench_record.Timing`), or `fault` with
    what it raised while it was warmed up; such a candidate takes no part in the rounds. `tell(candidate, done, total)`
    is called before each block. What a candidate raises within the rounds is raised.
    """
    results: dict[str, dict[str, Any]] = {}
    running: dict[str, Trained] = {}
    total = rounds * len(starters)
    for name, starter in starters.items():
        tell(name, 0, total)
        try:
            running[name] = starter()
            results[name] = {"steps_per_block": _warm_up(running[name], block_s), "block_times_s": [], "places": []}
        except Exception as error:
            running.pop(name, None)
            results[name] = {"fault": error}
    order = list(running)
    shuffler = random.Random(seed)
    gc.collect()
    gc.freeze()  # so that collecting between rounds is quick
    gc.disable()  # a collection within a block would be charged to whoever runs
    try:
        for index in range(rounds):
            shuffler.shuffle(order)
            for place, name in enumerate(order):
                tell(name, index * len(order) + place, rounds * len(order))
                results[name]["block_times_s"].append(_block(running[name], results[name]["steps_per_block"]))
                results[name]["places"].append(place)
            gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()
    return results


def _warm_up(trained: Trained, block_s: float) -> int:
    """Steps until caches, moments and compiled code are there; how many of them fill a block."""
    end = time.perf_counter() + WARMUP_S
    for _ in range(WARMUP_STEPS):
        trained.step()
    times: list[float] = []
    while len(times) < PILOT_STEPS or time.perf_counter() < end:
        times.append(_block(trained, 1, lead_in=0))
        if sum(times) > 10 * max(WARMUP_S, block_s):
            break
    return math.ceil(block_s / median(times))


def _block(trained: Trained, steps: int, lead_in: int = 1) -> float:
    """Seconds of some steps in a row."""
    for _ in range(lead_in):
        trained.step()  # brings its own data back into the caches
    start = time.perf_counter()
    for _ in range(steps):
        trained.step()
    return time.perf_counter() - start
