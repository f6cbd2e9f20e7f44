"""DDP's gradient buckets: which tensors travel together, and when in backward each bucket is ready.

After torch's reducer (Li et al. 2020, "PyTorch Distributed", arXiv 2006.15704): a tensor is never split, and a bucket
is full with the tensor that reaches its cap, so that one with a large spline tensor is larger than the cap. A cap that
is given, as it always is here, holds for the first bucket, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from kanstudy.analysis.machine_model.work import tensor_bytes
from kanstudy.spec import PointSpec


def gradient_buckets(point: PointSpec) -> list[int]:
    """Bytes of each bucket, in the order in which they leave: layers from the output on."""
    return [sum(size for _, size in bucket) for bucket in _buckets(point)]


def last_layers(point: PointSpec) -> list[int]:
    """The layer (0 at the input) whose gradients complete each bucket, in the same order."""
    return [bucket[-1][0] for bucket in _buckets(point)]


def assign(sizes: Sequence[int], cap_bytes: int) -> list[list[int]]:
    """Places of the tensors of each bucket, for tensors of these bytes in the order in which their gradients come."""
    buckets: list[list[int]] = [[]]
    held = 0
    for place, size in enumerate(sizes):
        if held >= cap_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(place)
        held += size
    return buckets


def _buckets(point: PointSpec) -> list[list[tuple[int, int]]]:
    """(layer, bytes) of the tensors of each bucket."""
    layers = list(enumerate(tensor_bytes(point)))
    coming = [(layer, size) for layer, sizes in reversed(layers) for size in reversed(sizes)]
    places = assign([size for _, size in coming], int(point.bucket_cap_mb * 2**20))
    return [[coming[place] for place in bucket] for bucket in places]
