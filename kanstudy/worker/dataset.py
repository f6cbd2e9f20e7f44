"""The data set file, memory-mapped, and the batches that a rank trains on."""

from __future__ import annotations

import functools
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from kanstudy.spec import PointSpec

RESIDENT_BATCHES = 16
"""Global batches that stay on the device in timed blocks: enough that a batch has left the caches when it returns,
few enough to leave the memory to the model."""


def map_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed `.npz`, memory-mapped read-only (`numpy.load` cannot map inside an archive).

    Raises `ValueError` where a member is compressed or not in C order, `OSError` where the file cannot be read.
    """
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{path}: {member.filename} is compressed and cannot be mapped")
            file.seek(member.header_offset + 26)  # the local header's own name and extra lengths
            name_length, extra_length = struct.unpack("<HH", file.read(4))
            file.seek(member.header_offset + 30 + name_length + extra_length)
            version = np.lib.format.read_magic(file)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, fortran_order, dtype = read_header(file)
            if dtype.kind != "f":
                continue  # the description, text that ranks do not need
            if fortran_order:
                raise ValueError(f"{path}: {member.filename} is not in C order, so its rows cannot be mapped")
            name = Path(member.filename).stem
            if 0 in shape:
                arrays[name] = np.empty(shape, dtype)  # an empty file region cannot be mapped
            else:
                arrays[name] = np.memmap(str(path), dtype, mode="r", offset=file.tell(), shape=shape)
    return arrays


@dataclass
class Dataset:
    """Training and hold-out rows: x (n, inputs), y (n, targets), float32, mapped from disk."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_holdout: np.ndarray
    y_holdout: np.ndarray

    @classmethod
    def open(cls, path: Path | str) -> Dataset:
        """Map a data set file; `ValueError` where one of the four arrays is missing."""
        arrays = map_arrays(path)
        names = ("x_train", "y_train", "x_holdout", "y_holdout")
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ValueError(f"{path}: no array {missing[0]!r}")
        return cls(*(arrays[name] for name in names))

    def rows(self, index: np.ndarray, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The training rows of an index, x (len, inputs) and y (len, targets), on the device."""
        x, y = torch.from_numpy(self.x_train[index]), torch.from_numpy(self.y_train[index])
        return x.to(device, dtype), y.to(device, dtype)


def global_order(point: PointSpec, epoch: int) -> np.ndarray:
    """The order of all training rows in an epoch. It depends on the seed alone, never on the world size."""
    return _permutation(point.seed, epoch, point.n_samples)


@functools.lru_cache(maxsize=2)  # a step asks for its epoch's order anew
def _permutation(seed: int, epoch: int, n_samples: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch)).permutation(n_samples)


def global_index(point: PointSpec, step: int) -> np.ndarray:
    """The rows of a step's global batch; an epoch's last rows that fill no batch are left out."""
    epoch, batch = divmod(step, point.n_samples // point.global_batch_size)
    start = batch * point.global_batch_size
    return global_order(point, epoch)[start : start + point.global_batch_size]


def local_index(point: PointSpec, step: int, position: int) -> np.ndarray:
    """Rows that rank number `position` of the group trains in a step: its slice of the global batch."""
    start = position * point.local_batch_size
    return global_index(point, step)[start : start + point.local_batch_size]


class ResidentBatches:
    """The first global batches of epoch 0, on the device; batch k is a view, so a timed step copies no data."""

    def __init__(self, point: PointSpec, data: Dataset, dtype: torch.dtype, device: torch.device) -> None:
        self.count = min(point.n_samples // point.global_batch_size, RESIDENT_BATCHES)
        self._global, self._local = point.global_batch_size, point.local_batch_size
        self._x, self._y = data.rows(global_order(point, 0)[: self.count * self._global], dtype, device)

    def global_batches(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """x (B, inputs), y (B, targets) of each batch."""
        return self._views(0, self._global)

    def local_batches(self, position: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The slice of each batch that rank number `position` of the group trains: B/p rows."""
        return self._views(position * self._local, self._local)

    def _views(self, offset: int, rows: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        starts = [batch * self._global + offset for batch in range(self.count)]
        return [(self._x[start : start + rows], self._y[start : start + rows]) for start in starts]
