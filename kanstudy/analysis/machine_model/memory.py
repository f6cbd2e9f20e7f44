"""A rank's memory in a step, in closed form."""

from __future__ import annotations

from kanstudy.analysis.machine_model.work import layer_bytes, rows, terms, word_bytes
from kanstudy.spec import PointSpec

_COPIES = {"adam": 4, "sgd": 2}
"""Tensors of the parameters' size that a rank holds: parameters, gradients, the optimizer's moments."""


def peak_memory_bytes(point: PointSpec, arm: str) -> int:
    """A rank's memory: parameters, gradients and moments, DDP's buckets, and for each row what backward needs
    (the layers' inputs and expanded bases) with its gradients."""
    parameters = sum(layer_bytes(point)) * (_COPIES[point.optimizer] + arm.startswith("ddp"))
    expanded = terms(point) if point.model == "kan" else 1
    row = 2 * word_bytes(point) * sum(before * (1 + expanded) + after for before, after in point.layer_shapes)
    return parameters + row * rows(point, arm)
