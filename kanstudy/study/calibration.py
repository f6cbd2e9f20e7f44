"""The points of the calibration: what one rank and one node tell, so that more ranks can be predicted.

| points          | arms                                              | for                                            |
|-----------------|---------------------------------------------------|------------------------------------------------|
| one rank alone  | `serial_global`                                   | step time over rows, operations and parameters |
| ranks of a node | `serial_local`, `concurrent`, `ddp_noop`, `ddp`   | contention, DDP's own cost, spread of steps,   |
|                 |                                                   | overlap; all-reduces on the first of them      |

Where a node has one rank, its points have the plain module and DDP without communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kanstudy.spec import PointSpec
from kanstudy.study.datasets.prepare import DatasetInfo
from kanstudy.study.models import models
from kanstudy.study.profile import Profile
from kanstudy.study.series import Calibration

EXPERIMENT = "calibration"


def node_ranks(profile: Profile) -> int:
    """Ranks that the profile puts on one node, as far as it measures so many."""
    if profile.cluster is None:
        return profile.world_sizes[-1]
    return max((size for size in profile.world_sizes if size <= profile.cluster.ranks_per_node), default=1)


def points(series: Calibration, data: DatasetInfo, ranks: int, settings: dict[str, Any]) -> Iterator[PointSpec]:
    """The points of a series, those of one rank alone first; `settings` are the points' other fields.

    Raises `ValueError` naming the key for what cannot calibrate.
    """
    if series.phase_steps < 1:
        raise ValueError(
            f"phase_steps = {series.phase_steps}: must be at least 1, phases tell the optimizer's part of a step"
        )
    if len(series.models) > 1:
        raise ValueError(f"models = {list(series.models)!r}: must be one, a calibration is of one kind of model")
    settings = settings | {"experiment": EXPERIMENT, "train_steps": 0}
    for hidden_widths in series.hidden_widths_sweep:
        for grid_size in series.grid_sizes:
            for model in models(series, data, hidden_widths, grid_size):
                for rows in series.local_batch_sizes:
                    yield PointSpec(
                        scaling="strong",
                        world_size=1,
                        global_batch_size=rows,
                        arms=("serial_global",),
                        **model,
                        **settings,
                    )
    yield from _node_points(series, data, ranks, settings)


def _node_points(series: Calibration, data: DatasetInfo, ranks: int, settings: dict[str, Any]) -> Iterator[PointSpec]:
    arms = ("serial_local", "concurrent", "ddp_noop", "ddp") if ranks > 1 else ("serial_local", "ddp_noop")
    sizes = series.allreduce_bytes if ranks > 1 else ()
    for hidden_widths in series.hidden_widths_sweep:
        for model in models(series, data, hidden_widths, series.grid_sizes[0]):
            for rows in series.node_batch_sizes:
                widest = hidden_widths == series.hidden_widths_sweep[-1]
                for cap in series.bucket_caps_mb if widest and ranks > 1 else series.bucket_caps_mb[:1]:
                    yield PointSpec(
                        scaling="weak",
                        world_size=ranks,
                        global_batch_size=rows * ranks,
                        arms=arms,
                        allreduce_bytes=sizes,
                        **model,
                        **(settings | {"bucket_cap_mb": cap}),
                    )
                    sizes = ()
