from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kanstudy.study.datasets.rows import DataError, Rows, standardise


def rows_of(x_train, y_train, x_holdout=None, y_holdout=None) -> Rows:
    x_train, y_train = np.array(x_train, np.float64), np.array(y_train, np.float64)
    return Rows(
        x_train=x_train,
        y_train=y_train,
        x_holdout=x_train[:1] if x_holdout is None else np.array(x_holdout, np.float64),
        y_holdout=y_train[:1] if y_holdout is None else np.array(y_holdout, np.float64),
        feature_names=tuple("abcdef"[: x_train.shape[1]]),
        target_names=tuple("yz"[: y_train.shape[1]]),
        origin="test",
    )


finite = st.floats(-1e100, 1e100, allow_subnormal=True)


@given(arrays(np.float64, (6, 3), elements=finite))
def test_training_values_lie_in_the_grid_and_reach_both_ends_of_it(x):
    standardised, scales = standardise(rows_of(x, np.arange(6.0)[:, None]), "test")
    x_train = standardised["x_train"]
    for column, name in enumerate("abc"):
        ends = (x_train[:, column].min(), x_train[:, column].max())
        assert ends == ((-1, -1) if name in scales["constant_features"] else (-1, 1))


@given(arrays(np.float64, (8, 2), elements=st.floats(-1e6, 1e6)))
def test_scales_give_the_values_back(values):
    values = values + np.linspace(0, 10, 16).reshape(8, 2) * 1e6  # never constant
    rows = rows_of(values[:5], values[:5], values[5:], values[5:])
    standardised, scales = standardise(rows, "test")
    for part in ("train", "holdout"):
        x = (standardised[f"x_{part}"].astype(float) + 1) / 2 * scales["feature_width"] + scales["feature_low"]
        y = standardised[f"y_{part}"].astype(float) * scales["target_scale"] + scales["target_mean"]
        np.testing.assert_allclose(x, getattr(rows, f"x_{part}"), rtol=1e-5, atol=100)
        np.testing.assert_allclose(y, getattr(rows, f"y_{part}"), rtol=1e-5, atol=100)


def test_statistics_are_of_the_training_part_and_the_hold_out_is_not_clipped():
    x, y = [[0.0], [1.0], [2.0]], [[1.0], [2.0], [6.0]]
    near, _ = standardise(rows_of(x, y, [[1.0]], [[3.0]]), "test")
    far, _ = standardise(rows_of(x, y, [[100.0]], [[-300.0]]), "test")
    np.testing.assert_array_equal(near["x_train"], far["x_train"])
    np.testing.assert_array_equal(near["y_train"], far["y_train"])
    assert far["x_holdout"].item() == 99.0
    assert far["y_holdout"].item() < -100


def test_a_constant_feature_is_named_and_its_scale_is_not_zero():
    standardised, scales = standardise(rows_of([[0, 7], [1, 7]], [[0], [1]], [[0, 8]], [[0]]), "test")
    assert scales["constant_features"] == ["b"]
    assert scales["feature_width"] == [1.0, 1.0]
    np.testing.assert_array_equal(standardised["x_train"][:, 1], -1)
    assert standardised["x_holdout"][0, 1] == 1


@pytest.mark.parametrize("value", [5.0, 0.1, 1e90])
def test_refuses_a_constant_target(value):
    with pytest.raises(DataError, match=r"mine: target 'z' is .* in every training row"):
        standardise(rows_of([[0], [1], [2]], [[0, value], [1, value], [2, value]]), "mine")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e101])
@pytest.mark.parametrize("part", ["x_train", "y_train", "x_holdout", "y_holdout"])
def test_refuses_values_that_cannot_be_standardised(part, value):
    parts = {"x_train": [[0.0], [1.0]], "y_train": [[0.0], [1.0]], "x_holdout": [[0.0]], "y_holdout": [[0.0]]}
    parts[part][-1][0] = value
    with pytest.raises(DataError, match=rf"mine: '{'a' if part[0] == 'x' else 'y'}' has the value .*: must be finite"):
        standardise(rows_of(**parts), "mine")


def test_refuses_a_hold_out_value_beyond_single_precision():
    with pytest.raises(DataError, match=r"hold-out value of 'a' lies further outside"):
        standardise(rows_of([[0], [1e-3]], [[0], [1]], [[1e60]], [[0]]), "mine")


def test_large_but_usable_values_give_finite_numbers():
    standardised, _ = standardise(rows_of([[-1e100], [1e100]], [[1e99], [-1e99]]), "test")
    np.testing.assert_array_equal(standardised["x_train"], [[-1], [1]])
    np.testing.assert_allclose(standardised["y_train"], [[1], [-1]])


@given(n_samples=st.integers(1, 20), seed=st.integers(0, 5))
def test_a_sample_has_different_training_rows_that_stay_pairs_and_the_whole_hold_out(n_samples, seed):
    values = np.arange(20.0)[:, None]
    sample = rows_of(values, values * 10).sample(n_samples, seed)
    assert len(np.unique(sample.x_train)) == len(sample.x_train) == n_samples
    np.testing.assert_array_equal(sample.x_train * 10, sample.y_train)
    assert len(sample.x_holdout) == 1


def test_the_seed_chooses_the_sample():
    values = np.arange(100.0)[:, None]
    chosen = [rows_of(values, values).sample(10, seed).x_train.tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
