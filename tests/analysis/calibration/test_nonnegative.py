from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis.calibration import nonnegative


@given(
    costs=st.lists(st.floats(0, 1e3) | st.just(0.0), min_size=2, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_costs_that_explain_everything_are_found(costs: list[float], seed: int) -> None:
    design = np.random.default_rng(seed).uniform(0.1, 1, (12, len(costs)))
    y = design @ costs + 1e-9
    assert nonnegative.linear(design, y, y) == pytest.approx(costs, abs=1e-6 * (1 + max(costs)))


def test_no_cost_is_below_zero() -> None:
    design = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    falling = np.array([3.0, 2.0, 1.0])
    found = nonnegative.linear(design, falling, np.ones(3))
    assert found == pytest.approx([2.0, 0.0])


def test_deviations_count_relative_to_their_scale() -> None:
    one = np.ones((2, 1))
    measured = np.array([1.0, 100.0])
    assert nonnegative.linear(one, measured, np.ones(2))[0] == pytest.approx(50.5)
    assert nonnegative.linear(one, measured, measured)[0] == pytest.approx((1 + 1e-2) / (1 + 1e-4))


def test_a_curve_that_is_not_linear_in_its_costs_is_found_too() -> None:
    sizes = np.geomspace(1, 1e3, 20)

    def curve(costs: np.ndarray) -> np.ndarray:
        return np.sqrt(costs[0] ** 2 + (costs[1] * sizes) ** 2)

    def jacobian(costs: np.ndarray) -> np.ndarray:
        return np.stack([costs[0] / curve(costs), costs[1] * sizes**2 / curve(costs)], axis=1)

    y = curve(np.array([20.0, 0.3]))
    found = nonnegative.homogeneous(curve, jacobian, np.array([1.0, 1.0]), y, y)
    assert found == pytest.approx([20.0, 0.3], rel=1e-4)
