from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_point

from kanstudy.worker.dataset import Dataset, ResidentBatches, global_index, local_index, map_arrays

CPU = torch.device("cpu")


def test_maps_what_numpy_loads(data_file: Path) -> None:
    mapped = map_arrays(data_file)
    with np.load(data_file) as loaded:
        for name in ("x_train", "y_train", "x_holdout", "y_holdout"):
            assert isinstance(mapped[name], np.memmap)
            np.testing.assert_array_equal(mapped[name], loaded[name])


def test_an_empty_hold_out_is_mapped(tmp_path: Path) -> None:
    rows = np.ones((4, 2), np.float32)
    np.savez(tmp_path / "a.npz", x_train=rows, y_train=rows, x_holdout=rows[:0], y_holdout=rows[:0])
    assert Dataset.open(tmp_path / "a.npz").x_holdout.shape == (0, 2)


def test_refuses_a_compressed_file(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x_train=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"x_train.npy is compressed"):
        map_arrays(tmp_path / "a.npz")


def test_names_a_missing_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.ones((4, 2), np.float32))
    with pytest.raises(ValueError, match="no array 'y_train'"):
        Dataset.open(tmp_path / "a.npz")


@given(
    world_size=st.sampled_from([1, 2, 4]),
    batch=st.sampled_from([4, 8, 12]),
    n_samples=st.integers(12, 60),
    step=st.integers(0, 40),
)
def test_slices_make_up_the_global_batch_whatever_the_world_size(
    world_size: int, batch: int, n_samples: int, step: int
) -> None:
    point = tiny_point(world_size=world_size, global_batch_size=batch, n_samples=n_samples)
    alone = tiny_point(world_size=1, global_batch_size=batch, n_samples=n_samples, arms=("ddp",))
    joined = np.concatenate([local_index(point, step, position) for position in range(world_size)])
    np.testing.assert_array_equal(joined, global_index(alone, step))
    assert len(set(joined)) == batch


def test_an_epoch_uses_each_row_once_and_the_next_another_order() -> None:
    point = tiny_point(n_samples=64, global_batch_size=16)
    epochs = [np.concatenate([global_index(point, 4 * epoch + step) for step in range(4)]) for epoch in (0, 1)]
    for rows in epochs:
        assert sorted(rows) == list(range(64))
    assert not np.array_equal(*epochs)


def test_resident_batches_are_the_first_global_batches(data_file: Path) -> None:
    point, data = tiny_point(), Dataset.open(data_file)
    resident = ResidentBatches(point, data, torch.float32, CPU)
    assert resident.count == 256 // 32
    for step, (x, y) in enumerate(resident.global_batches()):
        rows = global_index(point, step)
        np.testing.assert_array_equal(x.numpy(), data.x_train[rows])
        np.testing.assert_array_equal(y.numpy(), data.y_train[rows])
    for step, (x, _) in enumerate(resident.local_batches(1)):
        np.testing.assert_array_equal(x.numpy(), data.x_train[local_index(point, step, 1)])
