from __future__ import annotations

import warnings

import numpy as np
import pytest

from kanstudy.study.datasets import feynman
from kanstudy.study.datasets.feynman import FORMULAS
from kanstudy.study.datasets.rows import DataError, standardise


def test_there_are_enough_of_them():
    assert len(FORMULAS) >= 15


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_finite_over_the_whole_range_and_have_no_singular_corner(name):
    formula = FORMULAS[name]
    low, high = np.array(list(formula.variables.values())).T
    assert (low < high).all()
    corners = np.stack(np.meshgrid(*zip(low, high, strict=True), indexing="ij"), axis=-1).reshape(-1, len(low))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_corners = formula.function(**dict(zip(formula.variables, corners.T, strict=True)))
        x, y = formula.draw(20_000, np.random.default_rng(0))
    assert np.isfinite(at_corners).all()
    assert np.isfinite(y).all()
    assert y.shape == (20_000, 1)
    assert ((x >= low) & (x <= high)).all()
    assert np.abs(y - y.mean()).max() < 60 * y.std()  # a pole within the range would stand out


@pytest.mark.parametrize("name", FORMULAS)
def test_the_target_depends_on_every_variable(name):
    formula = FORMULAS[name]
    x, y = formula.draw(200, np.random.default_rng(0))
    for column in range(x.shape[1]):
        moved = x.copy()
        moved[:, column] = x[::-1, column]
        assert not np.allclose(formula.function(*moved.T), y[:, 0])


def test_known_values():
    value = {name: formula.function for name, formula in FORMULAS.items()}
    assert value["I.8.14"](x1=1, x2=4, y1=1, y2=5) == 5
    assert value["I.10.7"](m_0=4.0, v=3.0, c=5.0) == pytest.approx(5)
    assert value["I.18.4"](m1=1, m2=3, r1=2, r2=6) == 5
    assert value["I.27.6"](d1=2, d2=4, n=2) == 1
    assert value["I.6.2"](sigma=1.0, theta=0.0) == pytest.approx(0.39894228)
    assert value["I.12.11"](q=2.0, Ef=1.0, B=3.0, v=1.0, theta=np.pi / 2) == pytest.approx(8)
    assert value["I.44.4"](n=1, kb=2, T=3, V1=1.0, V2=np.e) == pytest.approx(6)
    assert value["III.9.52"](p_d=1, Ef=1, t=2, h=2 * np.pi, omega=2.0, omega_0=2.0) == pytest.approx(2)
    assert value["III.9.52"](p_d=1, Ef=1, t=2, h=2 * np.pi, omega=2.0, omega_0=1.0) == pytest.approx(2 * np.sin(1) ** 2)


def test_variables_keep_the_order_and_the_ranges_of_the_function():
    assert FORMULAS["I.10.7"].variables == {"m_0": (1, 5), "v": (1, 2), "c": (3, 10)}
    rows = feynman.source("feynman:I.10.7").rows(1000, 0)
    assert rows.feature_names == ("m_0", "v", "c")
    assert rows.x_train[:, 2].min() >= 3 > 2 >= rows.x_train[:, 1].max()
    np.testing.assert_allclose(
        rows.y_train[:, 0], rows.x_train[:, 0] / np.sqrt(1 - (rows.x_train[:, 1] / rows.x_train[:, 2]) ** 2)
    )


@pytest.mark.parametrize("name", FORMULAS)
def test_named_ranges_are_of_variables_that_are_there(name):
    assert set(dict(FORMULAS[name].ranges)) <= set(FORMULAS[name].variables)


@pytest.mark.parametrize("name", FORMULAS)
def test_every_formula_can_be_standardised(name):
    source = feynman.source(f"feynman:{name}")
    arrays, scales = standardise(source.rows(500, 0), name)
    assert arrays["x_train"].shape == (500, source.n_features)
    assert scales["constant_features"] == []


def test_training_and_hold_out_are_drawn_separately():
    rows = feynman.source("feynman:I.12.11").rows(4096, 0)
    assert not np.isin(rows.x_train[:, 0], rows.x_holdout[:, 0]).any()


@pytest.mark.parametrize("name", ["", "I.12.1", "lorentz", "I.12.11:2"])
def test_an_unknown_formula_lists_those_there_are(name):
    with pytest.raises(DataError) as caught:
        feynman.source(f"feynman:{name}")
    for known in FORMULAS:
        assert known in str(caught.value)
    assert repr(name) in str(caught.value)


def test_an_almost_right_name_is_recognised():
    with pytest.raises(DataError, match=r"did you mean 'I\.12\.11'"):
        feynman.source("feynman:I.12.1")
