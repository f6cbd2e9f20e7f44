"""The smallest point worth measuring."""

from __future__ import annotations

from typing import Any

from kanstudy.spec import ARMS, PointSpec

ROWS = 256


def tiny_point(**changes: Any) -> PointSpec:
    values: dict[str, Any] = {
        "experiment": "strong_scaling",
        "scaling": "strong",
        "world_size": 2,
        "global_batch_size": 32,
        "dataset": "synthetic:3:2",
        "n_samples": ROWS,
        "layer_widths": (3, 4, 2),
        "arms": ARMS,
        "block_s": 0.01,
        "warmup_steps": 2,
        "warmup_s": 0.0,
        "phase_steps": 2,
        "train_steps": 5,
    }
    return PointSpec(**(values | changes))
