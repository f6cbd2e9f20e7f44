from __future__ import annotations

import numpy as np
import pytest

from kanstudy.study.datasets import synthetic
from kanstudy.study.datasets.rows import DataError


def draw(dataset: str, n_samples: int, seed: int = 0):
    return synthetic.source(dataset).rows(n_samples, seed)


def test_has_the_dimensions_asked_for():
    source = synthetic.source("synthetic:5:3")
    rows = source.rows(100, 0)
    assert (source.n_features, source.n_targets, source.n_available) == (5, 3, None)
    assert rows.x_train.shape == (100, 5)
    assert rows.y_train.shape == (100, 3)
    assert len(rows.x_holdout) == len(rows.y_holdout) == source.n_holdout
    assert np.abs(rows.x_train).max() <= 1
    assert np.linalg.matrix_rank(rows.y_train) == 3


def test_the_function_and_the_hold_out_depend_on_the_seed_alone():
    few, many = draw("synthetic:4:1", 50), draw("synthetic:4:1", 150_000)
    np.testing.assert_array_equal(few.x_holdout, many.x_holdout)
    np.testing.assert_array_equal(few.y_holdout, many.y_holdout)
    np.testing.assert_array_equal(few.x_train, many.x_train[:50])
    np.testing.assert_allclose(few.y_train, many.y_train[:50], rtol=0, atol=1e-12)
    other = draw("synthetic:4:1", 50, seed=1)
    assert not np.array_equal(few.x_holdout, other.x_holdout)


def test_training_and_hold_out_are_drawn_separately():
    rows = draw("synthetic:4:1", 4096)
    assert not np.isin(rows.x_train[:, 0], rows.x_holdout[:, 0]).any()


def test_the_target_is_one_smooth_function_without_noise():
    rows = draw("synthetic:1:1", 50_000)
    order = np.argsort(rows.x_train[:, 0])
    x, y = rows.x_train[order, 0], rows.y_train[order, 0]
    at_holdout = np.interp(rows.x_holdout[:, 0], x, y)
    inside = (rows.x_holdout[:, 0] > x[0]) & (rows.x_holdout[:, 0] < x[-1])
    assert np.abs(at_holdout - rows.y_holdout[:, 0])[inside].max() < 1e-4 * y.std()


@pytest.mark.parametrize(
    "sizes", ["", ":3", ":3:1:2", ":0:1", ":3:0", ":-3:1", ":3.0:1", ":a:1", ":²:1", ":4097:1", "::"]
)
def test_refuses_other_dimensions(sizes):
    with pytest.raises(DataError, match="must be synthetic:IN:OUT with whole numbers from 1 to 4096"):
        synthetic.source(f"synthetic{sizes}")
