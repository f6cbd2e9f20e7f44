"""When gradient buckets become ready within backward: as hooks saw it, beside the model's share of backward's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.calibration.readings import Reading
from kanstudy.analysis.machine_model.model import MachineModel


@dataclass(frozen=True, kw_only=True)
class ReadyBucket:
    """A bucket of a point of several: the share of backward after which the slowest rank has it, the median over
    instrumented steps of DDP without communication, and that of the model."""

    point_id: str
    bucket_bytes: int
    measured_share: float
    modelled_share: float


def ready_buckets(node: Sequence[Reading], machine: MachineModel) -> tuple[ReadyBucket, ...]:
    """The buckets of points that have several and watched as many as the model has."""
    found = []
    for reading in node:
        arm = reading.record.arms["ddp_noop"]
        if not arm.bucket_ready_s or not arm.backward_s or not arm.bucket_bytes or len(arm.bucket_bytes) < 2:
            continue
        modelled = machine.ready_shares(reading.point)
        ready, ends = np.max(arm.bucket_ready_s, axis=0), np.max(arm.backward_s, axis=0)  # (steps, buckets), (steps,)
        measured = np.median(ready / ends[:, None], axis=0)
        if len(measured) == len(modelled):
            found += [
                ReadyBucket(
                    point_id=reading.record.point_id,
                    bucket_bytes=size,
                    measured_share=float(share),
                    modelled_share=float(model),
                )
                for size, share, model in zip(arm.bucket_bytes, measured, modelled, strict=True)
            ]
    return tuple(found)
