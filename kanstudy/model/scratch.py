"""Scratch memory of the fused operator, a thread's own."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Chunk(NamedTuple):
    """Scratch memory for the expansion of some rows: `planes` (rows, columns) of the basis' type, the same as an array,
    its last plane, and `product`, what is multiplied: of the products' type, and where that is the basis', `planes`."""

    planes: Tensor
    array: np.ndarray[Any, Any]
    base: Tensor
    product: Tensor


class Scratch(threading.local):
    """A thread's scratch memory: kept, since fresh memory would cost a page fault every 4 KiB, and so are the views of
    it, since making them costs as much as a small product."""

    def __init__(self) -> None:
        self.buffers: dict[torch.dtype, Tensor] = {}
        self.chunks: dict[tuple[Any, ...], Chunk] = {}

    def chunk(self, rows: int, columns: int, features: int, dtype: torch.dtype, product_type: torch.dtype) -> Chunk:
        """Memory for the expansion (rows, columns) of so many features; whatever was in it before."""
        key = (rows, columns, features, dtype, product_type)
        found = self.chunks.get(key)
        if found is None:
            planes = self._buffer(dtype, rows * columns).view(rows, columns)
            product = planes
            if product_type != dtype:
                product = self._buffer(product_type, rows * columns).view(rows, columns)
            found = self.chunks[key] = Chunk(planes, planes.numpy(), planes[:, -features:], product)
        return found

    def _buffer(self, dtype: torch.dtype, elements: int) -> Tensor:
        buffer = self.buffers.get(dtype)
        if buffer is None or buffer.numel() < elements:
            self.chunks.clear()  # views of what is now too small
            buffer = self.buffers[dtype] = writable(dtype, elements)
        elif len(self.chunks) > 100:  # batches of ever other sizes
            self.chunks.clear()
        return buffer[:elements]


def writable(dtype: torch.dtype, *shape: int) -> Tensor:
    """New memory that every thread may write to at any time: one made in inference mode may not be outside it."""
    if not torch.is_inference_mode_enabled():
        return torch.empty(shape, dtype=dtype, device="cpu")
    with torch.inference_mode(False):
        return torch.empty(shape, dtype=dtype, device="cpu")
