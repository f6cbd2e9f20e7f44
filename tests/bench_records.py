"""Fabricated records of operator benchmarks, whose times are known."""

from __future__ import annotations

import numpy as np

from kanstudy.bench_record import PEERS, Accuracy, BenchRecord, Cell, Memory, Timing

SHAPES = ["64,64,1:256", "128,64,1:512"]
TIMES_MS = {"floor": 2.0, "fused": 2.2, "reference": 20.0, "pykan": 50.0}
"""Of a step; the second shape takes three times as long."""


def bench_record(rounds: int = 12, **changes: object) -> BenchRecord:
    """Four candidates at two shapes; every round has a drift of its own, common to all, and flashkan is not there."""
    drift = np.random.default_rng(0).uniform(1, 3, rounds)
    cells = []
    for factor, shape in zip((1, 3), SHAPES, strict=True):
        for place, (name, step_ms) in enumerate(TIMES_MS.items()):
            times = list(5 * factor * step_ms / 1e3 * drift)
            timing = Timing(status="ok", steps_per_block=5, block_times_s=times, places=[place] * rounds)
            memory = Memory(status="ok", peak_bytes=2**20 * (place + 1) * factor, step_times_s=[step_ms / 1e3])
            cell = Cell(shape=shape, candidate=name, n_params=100, memory=memory, timing=timing)
            cell.first_step_warm_s, cell.first_step_cold_s = 1.0, 5.0
            cells.append(cell)
        gone = {"status": "absent", "reason": "is not installed"}
        cells.append(Cell(shape=shape, candidate="flashkan", memory=Memory(**gone), timing=Timing(**gone)))
    cells[1].losses = [0.5, 0.25]
    names = [*TIMES_MS, "flashkan"]
    accuracy = [
        Accuracy(candidate="floor", status="ok", reason="has no basis functions"),
        *[Accuracy(candidate=name, status="ok", max_errors=[1.25e-7, 3e-7, 1e-6]) for name in names[1:-1]],
        Accuracy(candidate="flashkan", status="absent", reason="is not installed"),
    ]
    values: dict = {
        "profile": "laptop", "status": "ok", "seed": 0, "threads": 1, "cores": [0], "rounds_planned": rounds,
        "block_s": 0.05, "shapes": SHAPES, "candidates": {name: name for name in names}, "added": {},
        "versions": {name: "1.2" for name in names if name in PEERS}, "cells": cells, "accuracy": accuracy,
        "provenance": {"cpu_model": "A processor"},
    }  # fmt: skip
    return BenchRecord(**(values | changes))
