"""The compiled basis against SciPy on exact knots and against the reference operator's basis on any knots."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from test_bspline import interesting_points, knots_and_points, scipy_basis

from kanstudy.model.bspline import basis_reference, uniform_knots
from kanstudy.model.kernels import Basis

ORDERS = range(1, 6)
DTYPES = (torch.float32, torch.float64)


def rounding(dtype, grid_size):
    if dtype == torch.float64:
        return 1e-12
    return 1e-6 if grid_size <= 20 else 1e-5


def expanded(basis, x, functions):
    """x (rows, in) to (rows, functions, in); asserts that the base term's plane stays as it was."""
    rows, features = x.shape
    planes = torch.full((rows, (functions + 1) * features), 7, dtype=x.dtype)
    basis.expand(x.contiguous().numpy(), planes.numpy())
    planes = planes.view(rows, functions + 1, features)
    assert (planes[:, -1] == 7).all()
    return planes[:, :-1]


def contracted(basis, x, gradient):
    """gradient (rows, functions, in) to (rows, in); asserts that it is added to what is there."""
    padded = torch.cat([gradient, torch.full_like(gradient[:, :1], torch.nan)], dim=1).flatten(1)
    results = []
    for start in (0.0, 2.0):
        result = torch.full_like(x, start)
        basis.contract(x.contiguous().numpy(), padded.numpy(), result.numpy())
        results.append(result)
    finite = results[0].isfinite()
    torch.testing.assert_close(results[1][finite], results[0][finite] + 2, rtol=1e-6, atol=1e-6)
    return results[0]


def compiled_basis(knots, order):
    basis = Basis(knots.numpy(), order)
    basis.compile()
    return basis


def check_against_reference(knots, order, x, atol, slope_atol):
    basis = compiled_basis(knots, order)
    x = x.clone().requires_grad_()
    truth = basis_reference(x, knots, order)
    np.testing.assert_allclose(expanded(basis, x.detach(), truth.shape[1]), truth.detach(), rtol=0, atol=atol)
    gradient = torch.randn(truth.shape, generator=torch.Generator().manual_seed(2), dtype=x.dtype)
    (slope,) = torch.autograd.grad(truth, x, gradient)
    np.testing.assert_allclose(contracted(basis, x.detach(), gradient), slope, rtol=0, atol=slope_atol)
    return basis


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grid_size", [1, 5, 20, 200])
@pytest.mark.parametrize("order", ORDERS)
def test_equals_scipy_on_the_exact_uniform_knots(order, grid_size, dtype):
    knots = uniform_knots((-1.0, 1.0), grid_size, order, dtype)
    exact = -1 + np.arange(-order, grid_size + order + 1) * (2 / grid_size)
    x = interesting_points(knots, order, dtype)
    basis = compiled_basis(knots.unsqueeze(0), order)
    assert basis.is_uniform == (order >= 2)
    values = expanded(basis, x.unsqueeze(-1), grid_size + order)[..., 0]
    np.testing.assert_allclose(values, scipy_basis(x, exact, order), rtol=0, atol=rounding(dtype, grid_size))
    # between the knots, where every order has a derivative; of size 1 / spacing
    x = x[np.abs(x.numpy()[:, None] - exact).min(1) > 1e-5]
    slopes = scipy_basis(x, exact, order, derivative=1)
    for j in range(grid_size + order):
        unit = torch.zeros(len(x), grid_size + order, 1, dtype=dtype)
        unit[:, j] = 1
        found = contracted(basis, x.unsqueeze(-1), unit)[:, 0]
        allowed = 10 * rounding(dtype, grid_size) * grid_size
        np.testing.assert_allclose(found, slopes[:, j], rtol=0, atol=allowed)


def different_knots(kind, order, dtype):
    """Knots of three features, (3, m), of one kind."""
    ranges = [(-1.0, 1.0), (0.0, 0.3), (-3.0, 50.0)]
    uniform = torch.stack([uniform_knots(edges, 6, order, dtype) for edges in ranges])
    if kind == "uniform":
        return uniform
    inside = torch.linspace(0, 1, 7, dtype=dtype)
    if kind == "uneven":
        return torch.cat([uniform[:1], uniform[1:2].sort().values ** 3, uniform[2:].exp().clamp(max=9).cumsum(1)])
    warped = inside**2
    if kind == "repeated":
        warped[2:4] = warped[2]
    row = torch.cat([warped[:1].expand(order), warped, warped[-1:].expand(order)])
    return torch.stack([row, row - 1, 2 * row - 2])  # a right edge at zero among them


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["uniform", "uneven", "clamped", "repeated"])
@pytest.mark.parametrize("order", ORDERS)
def test_equals_the_reference_on_knots_of_each_feature(order, kind, dtype):
    knots = different_knots(kind, order, dtype)
    x = torch.stack([interesting_points(row, order, dtype) for row in knots], dim=1)
    narrowest = knots.diff()[knots.diff() > 0].min().item()
    atol = 5e-6 if dtype == torch.float32 else 1e-12
    if dtype == torch.float32 and kind != "uniform":
        # two orders of the same float32 operations, next to knots where a basis function is steep
        atol *= max(1.0, 0.05 / narrowest)
    if order == 1 or kind != "uniform":  # one-sided derivatives are a matter of convention, which is the reference's
        basis = check_against_reference(knots, order, x, atol, atol * 100 / narrowest)
    else:
        at_a_knot = (x.unsqueeze(-1) == knots).any(-1).any(-1)
        basis = check_against_reference(knots, order, x[~at_a_knot], atol, atol * 100 / narrowest)
    assert basis.is_uniform == (kind == "uniform" and order >= 2)


@settings(max_examples=150)
@given(knots_and_points())
def test_equals_the_reference_on_any_knots(case):
    order, knots, x = case
    if order == 0:
        return
    check_against_reference(knots.unsqueeze(0), order, x.unsqueeze(-1), 1e-12, 1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hats_have_the_right_hand_derivative_at_knots_and_the_left_hand_one_at_the_right_edge(dtype):
    knots = uniform_knots((-1.0, 1.0), 4, 1, dtype).unsqueeze(0)
    basis = compiled_basis(knots, 1)
    x = knots.t().contiguous()  # -1.5, -1, ..., 1, 1.5
    slopes = torch.stack(
        [contracted(basis, x, torch.eye(5, dtype=dtype)[j].expand(7, 5).unsqueeze(-1)) for j in range(5)], dim=1
    )[..., 0]
    expected = torch.zeros(7, 5, dtype=dtype)
    for cell, first in enumerate([-1, 0, 1, 2, 3, 3]):  # at the right edge, row 5, the interval before it
        for j, slope in ((first, -2), (first + 1, 2)):
            if 0 <= j < 5:
                expected[cell, j] = slope
    assert torch.equal(slopes, expected)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_nan_stays_in_its_own_element_and_infinities_give_zeros(order, uniform):
    for dtype in DTYPES:
        knots = uniform_knots((-1.0, 1.0), 5, order, dtype).repeat(2, 1)
        if not uniform:
            knots[:, order + 1] += 0.1
        basis = compiled_basis(knots, order)
        x = torch.tensor([[0.1, torch.nan], [torch.inf, 0.2], [-torch.inf, 1e38], [-1e38, 0.3]], dtype=dtype)
        values = expanded(basis, x, 5 + order)
        assert values[0, :, 1].isnan().all()
        assert values[0, :, 0].isfinite().all()
        assert (values[1:][~torch.tensor([[0, 1], [0, 0], [0, 1]]).bool()[:, None].expand(3, 5 + order, 2)] == 0).all()
        assert (values.sum(1)[[1, 3], 1] - 1).abs().max() < 1e-6
        slopes = contracted(basis, x, torch.ones(4, 5 + order, 2, dtype=dtype))
        assert (slopes[[1, 2, 2, 3], [0, 0, 1, 0]] == 0).all()


def test_the_right_edge_belongs_to_the_grid_where_denormals_are_zero():
    knots = torch.tensor([[-1.0] * 4 + [-0.5, -0.2] + [0.0] * 4])
    basis = compiled_basis(knots, 3)
    torch.set_flush_denormal(True)
    try:
        values = expanded(basis, torch.zeros(1, 1), 6)
    finally:
        torch.set_flush_denormal(False)
    assert values[0, -1, 0] == 1


def test_is_of_compares_type_order_and_every_value():
    knots = uniform_knots((-1.0, 1.0), 5, 3, torch.float32).repeat(2, 1).numpy()
    basis = Basis(knots, 3)
    assert basis.is_of(knots.copy(), 3)
    assert not basis.is_of(knots, 2)
    assert not basis.is_of(knots.astype(np.float64), 3)
    assert not basis.is_of(knots[:1], 3)
    knots[1, 4] = np.nextafter(knots[1, 4], np.float32(9))
    assert not basis.is_of(knots, 3)
    assert basis.knots[1, 4] != knots[1, 4]  # a copy


def test_knots_off_a_straight_line_take_the_recurrence():
    knots = uniform_knots((-1.0, 1.0), 5, 3, torch.float64)
    for index in range(len(knots)):
        moved = knots.clone()
        moved[index] += 1e-9
        basis = check_against_reference(
            moved.unsqueeze(0), 3, torch.linspace(-3, 3, 301, dtype=torch.float64).unsqueeze(-1), 1e-12, 1e-10
        )
        assert not basis.is_uniform


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("grid_range", [(1e4, 1e4 + 1), (-1e3, -1e3 + 0.1), (0.0, 1e-30), (-1e30, 1e30)])
def test_equals_the_reference_where_rounded_knots_are_not_uniform_any_more(grid_range, order):
    knots = uniform_knots(grid_range, 5, order, torch.float32)
    x = interesting_points(knots, order, torch.float32).unsqueeze(-1)
    basis = compiled_basis(knots.unsqueeze(0), order)
    found = expanded(basis, x, 5 + order)
    np.testing.assert_allclose(found, basis_reference(x, knots.unsqueeze(0), order), rtol=0, atol=1e-5)
