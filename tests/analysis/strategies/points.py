"""A small KAN to share among ranks."""

from __future__ import annotations

from typing import Any

from kanstudy.spec import PointSpec


def kan_point(**changes: Any) -> PointSpec:
    values: dict[str, Any] = {
        "experiment": "strategies",
        "scaling": "strong",
        "world_size": 1,
        "global_batch_size": 24,
        "dataset": "synthetic:8:1",
        "n_samples": 24,
        "layer_widths": (5, 7, 6, 4),
        "arms": ("ddp",),
        "operator": "reference",
        "dtype": "float64",
    }
    return PointSpec(**(values | changes))
