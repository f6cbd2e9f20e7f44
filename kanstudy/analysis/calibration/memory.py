"""A rank's peak memory: the closed form, scaled to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.calibration import nonnegative
from kanstudy.analysis.machine_model.memory import peak_memory_bytes
from kanstudy.record import Record
from kanstudy.spec import PointSpec


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """Factors on the part that the parameters need and on the part that grows with the rows; `residual_sd` of the
    logarithm. 1 where nothing was measured."""

    fixed_scale: float = 1.0
    rows_scale: float = 1.0
    residual_sd: float = 0.0

    def peak_bytes(self, point: PointSpec) -> float:
        """The most that a rank's tensors hold in a step of DDP, bytes."""
        fixed, grows = _parts(point, "ddp")
        return self.fixed_scale * fixed + self.rows_scale * grows


def fit(records: Sequence[Record], points: Sequence[PointSpec]) -> MemoryFit:
    """The factors that measured peaks give."""
    design, measured = [], []
    for record, point in zip(records, points, strict=True):
        for name, arm in record.arms.items():
            if arm.peak_memory_bytes:
                design.append(_parts(point, name))
                measured.append(max(arm.peak_memory_bytes))
    if not measured:
        return MemoryFit()
    parts, peaks = np.array(design, dtype=float), np.array(measured, dtype=float)
    scales = nonnegative.linear(parts, peaks, peaks)
    residual = float(np.std(np.log(peaks / (parts @ scales))))
    return MemoryFit(fixed_scale=float(scales[0]), rows_scale=float(scales[1]), residual_sd=residual)


def _parts(point: PointSpec, arm: str) -> tuple[float, float]:
    """The closed form's part that does not grow with the rows, and the part that does."""
    once = peak_memory_bytes(point, arm)
    twice = peak_memory_bytes(point.with_batch(2 * point.global_batch_size), arm)
    return float(2 * once - twice), float(twice - once)
