"""The reference operator against SciPy in float64 on the same stored knots."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from kanstudy.model import bspline_basis
from kanstudy.model.bspline import uniform_knots

ORDERS = range(6)
GRIDS = (1, 2, 5, 20, 200)
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=60)


def scipy_basis(x, knots, order, derivative=0):
    """All basis functions (points, n) inside and outside the grid range, zero outside the knots."""
    x, knots = np.asarray(x, dtype=np.float64), np.asarray(knots, dtype=np.float64)
    n = len(knots) - order - 1
    inside = (knots[order] <= x) & (x <= knots[n])
    values = np.zeros((len(x), n))
    values[inside] = BSpline(knots, np.eye(n), order)(x[inside], nu=derivative)
    # SciPy evaluates between knot `order` and knot n only: more knots at both ends widen that to all of ours
    wide = np.concatenate([knots[0] - np.arange(order, 0, -1), knots, knots[-1] + np.arange(1, order + 1)])
    beyond = ~inside & (knots[0] <= x) & (x <= knots[-1])
    every = BSpline(wide, np.eye(n + 2 * order), order)(x[beyond], nu=derivative)
    values[beyond] = every[:, order : order + n]
    return values


def one_feature(knots):
    return knots.unsqueeze(0)


def interesting_points(knots, order, dtype):
    """Random points, all knots and their neighbours in floating point, edges, far outside."""
    generator = torch.Generator().manual_seed(1)
    low, high = knots[0], knots[-1]
    points = [
        low + (high - low) * torch.rand(400, generator=generator, dtype=dtype),
        knots,
        torch.nextafter(knots, torch.full_like(knots, torch.inf)),
        torch.nextafter(knots, torch.full_like(knots, -torch.inf)),
        torch.tensor([low - 1, high + 1, -1e30, 1e30], dtype=dtype),
    ]
    return torch.cat(points)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("grid_size", GRIDS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("grid_range", [(-1.0, 1.0), (0.1, 0.7), (-3.0, 50.0)])
def test_equals_scipy(order, grid_size, dtype, grid_range):
    knots = uniform_knots(grid_range, grid_size, order, dtype)
    x = interesting_points(knots, order, dtype)
    basis = bspline_basis(x.unsqueeze(-1), one_feature(knots), order)
    assert basis.shape == (len(x), 1, grid_size + order)
    assert basis.dtype == dtype
    np.testing.assert_allclose(basis[:, 0].numpy(), scipy_basis(x, knots, order), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("grid_size", GRIDS)
@pytest.mark.parametrize("order", ORDERS)
def test_sums_to_one_at_both_edges_and_is_zero_outside_the_support(order, grid_size, dtype):
    low, high = -1.0, 0.3
    knots = uniform_knots((low, high), grid_size, order, dtype)
    edges = bspline_basis(torch.tensor([[low], [high]], dtype=dtype), one_feature(knots), order)
    np.testing.assert_allclose(edges.sum(-1), 1, rtol=0, atol=TOLERANCE[dtype])
    outside = torch.tensor([knots[0] - 1e-3, knots[-1] + 1e-3, -1e38, 1e38, -torch.inf, torch.inf], dtype=dtype)
    assert (bspline_basis(outside.unsqueeze(-1), one_feature(knots), order) == 0).all()


@LAWS
@example(-3.1, 0.3, 5, 3)  # low + (high - low) is not high
@given(st.floats(-10, 0), st.floats(0.1, 10), st.integers(1, 200), st.integers(0, 5))
def test_uniform_knots_hit_both_edges_exactly(low, high, grid_size, order):
    for dtype in TOLERANCE:
        knots = uniform_knots((low, high), grid_size, order, dtype)
        edges = torch.tensor([low, high], dtype=dtype)
        assert torch.equal(knots[[order, order + grid_size]], edges)
        np.testing.assert_allclose(knots.diff(), (high - low) / grid_size, rtol=0, atol=1e-5)


@pytest.mark.parametrize("grid_range", [(0.0, 1e-38), (0.0, 1e-44), (-1e38, 1e38), (1e4, 1e4 + 1e-3)])
def test_a_range_whose_knots_have_no_differences_in_the_type_is_refused(grid_range):
    with pytest.raises(ValueError, match=r"grid_range = .*too narrow or wide for torch.float32"):
        uniform_knots(grid_range, 5, 3, torch.float32)


@st.composite
def knots_and_points(draw):
    """Knots of any spacing, repeated ones among them, with points between, on and beyond them."""
    order = draw(st.integers(0, 5))
    steps = draw(st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0]), min_size=2 * order + 1, max_size=2 * order + 8))
    knots = np.concatenate([[-1.0], -1.0 + np.cumsum(steps)])
    points = draw(st.lists(st.floats(-2.0, knots[-1] + 1), min_size=1, max_size=12))
    return order, torch.tensor(knots), torch.tensor([*points, *knots])


@LAWS
@given(knots_and_points())
def test_laws_on_any_knots(case):
    order, knots, x = case
    basis = bspline_basis(x.unsqueeze(-1), one_feature(knots), order)[:, 0]
    assert (basis >= 0).all()
    n = len(knots) - order - 1
    low, high = knots[order], knots[n]
    if low < high:
        in_range = (low <= x) & (x <= high)
        np.testing.assert_allclose(basis[in_range].sum(-1), 1, rtol=0, atol=1e-12)
    assert (basis.sum(-1) <= 1 + 1e-12).all()
    assert ((basis > 0).sum(-1) <= order + 1).all()
    for j in range(n):  # each lives between its own first and last knot
        assert (basis[(x < knots[j]) | (x > knots[j + order + 1]), j] == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_clamped_and_repeated_knots_equal_scipy(order):
    interior = [-0.5, 0.0, *[0.25] * min(order, 2), 0.5]
    knots = torch.tensor([-1.0] * (order + 1) + interior + [1.0] * (order + 1), dtype=torch.float64)
    x = torch.cat([torch.linspace(-1, 1, 201, dtype=torch.float64), knots]).requires_grad_()
    basis = bspline_basis(x.unsqueeze(-1), one_feature(knots), order)[:, 0]
    np.testing.assert_allclose(basis.detach(), scipy_basis(x.detach(), knots, order), rtol=0, atol=1e-12)
    (basis**2).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("order", ORDERS)
def test_derivative_equals_scipy(order):
    knots = uniform_knots((-1.0, 1.0), 5, order, torch.float64)
    inside = torch.linspace(-1, 1, 101, dtype=torch.float64)
    x = torch.cat([inside, knots, torch.tensor([-9.0, 9.0, -1e200, 1e200], dtype=torch.float64)])
    truth = scipy_basis(x, knots, order, derivative=1)
    basis = bspline_basis(x.requires_grad_().unsqueeze(-1), one_feature(knots), order)[:, 0]
    for j in range(basis.shape[-1]):
        (derivative,) = torch.autograd.grad(basis[:, j].sum(), x, retain_graph=True)
        last_knot = (x == knots[-1]) & (order == 1)  # the outermost knot's one-sided derivative is a convention
        np.testing.assert_allclose(derivative[~last_knot], truth[~last_knot.numpy(), j], rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_gradcheck(order):
    knots = uniform_knots((-1.0, 1.0), 4, order, torch.float64).repeat(2, 1)
    generator = torch.Generator().manual_seed(order)
    x = (3 * torch.rand(6, 2, generator=generator, dtype=torch.float64) - 1.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: bspline_basis(x, knots, order), x)


@pytest.mark.parametrize("order", ORDERS)
def test_huge_inputs_have_zero_gradient_in_float32(order):
    knots = one_feature(uniform_knots((-1.0, 1.0), 5, order, torch.float32))
    x = torch.tensor([[1e30], [-1e30], [torch.inf], [-torch.inf]], requires_grad=True)
    bspline_basis(x, knots, order).sum().backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_nan_stays_nan_in_its_own_element_only(order):
    knots = uniform_knots((-1.0, 1.0), 5, order, torch.float32).repeat(2, 1)
    basis = bspline_basis(torch.tensor([[0.1, torch.nan], [0.2, 0.3]]), knots, order)
    assert basis[0, 1].isnan().all()
    assert basis[0, 0].isfinite().all()
    assert basis[1].isfinite().all()


def test_each_feature_has_its_own_knots():
    order = 3
    rows = [uniform_knots(edges, 4, order, torch.float64) for edges in [(-1.0, 1.0), (0.0, 5.0)]]
    x = torch.rand(3, 7, 2, dtype=torch.float64)
    basis = bspline_basis(x, torch.stack(rows), order)
    assert basis.shape == (3, 7, 2, 7)
    for i, knots in enumerate(rows):
        truth = scipy_basis(x[..., i].reshape(-1), knots, order)
        np.testing.assert_allclose(basis[..., i, :].reshape(21, 7), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [0, 3])
def test_any_leading_dimensions_and_strides(order):
    knots = uniform_knots((-1.0, 1.0), 5, order, torch.float32).repeat(4, 1)
    x = torch.rand(4, 6).t()  # not contiguous
    assert torch.equal(bspline_basis(x, knots, order), bspline_basis(x.contiguous(), knots, order))
    assert torch.equal(bspline_basis(x[0], knots, order), bspline_basis(x, knots, order)[0])
    assert bspline_basis(x.reshape(2, 3, 4), knots, order).shape[:2] == (2, 3)
    assert bspline_basis(torch.empty(0, 4), knots, order).shape == (0, 4, 5 + order)
    assert bspline_basis(torch.empty(2, 0, 4), knots, order).shape == (2, 0, 4, 5 + order)


def test_autocast_evaluates_in_float32():
    knots = one_feature(uniform_knots((-1.0, 1.0), 200, 3, torch.float32))
    x = torch.linspace(-1, 1, 99).unsqueeze(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        basis = bspline_basis(x, knots, 3)
        lowered = bspline_basis(x.bfloat16(), knots, 3)
    assert torch.equal(basis, bspline_basis(x, knots, 3))
    assert lowered.dtype == torch.float32
    np.testing.assert_allclose(lowered.sum(-1), 1, rtol=0, atol=1e-6)


KNOTS = uniform_knots((-1.0, 1.0), 5, 3, torch.float32).repeat(2, 1)
X = torch.zeros(4, 2)


@pytest.mark.parametrize(
    ("x", "knots", "order", "error", "message"),
    [
        (X.double(), KNOTS, 3, TypeError, "x is torch.float64"),
        (X.bfloat16(), KNOTS, 3, TypeError, "x is torch.bfloat16"),
        (X.long(), KNOTS, 3, TypeError, "x is torch.int64"),
        (X.bfloat16(), KNOTS.bfloat16(), 3, TypeError, "knots is torch.bfloat16"),
        (X.numpy(), KNOTS, 3, TypeError, "x is a ndarray"),
        (X, KNOTS.tolist(), 3, TypeError, "knots is a list"),
        (X[:, :1], KNOTS, 3, ValueError, "last dimension must be 2"),
        (torch.tensor(0.0), KNOTS, 3, ValueError, "x has shape"),
        (X, KNOTS[0], 3, ValueError, "knots have shape"),
        (X, KNOTS[:, :7], 3, ValueError, "at least 8"),
        (X, KNOTS.flip(-1), 3, ValueError, "must not decrease"),
        (X, KNOTS * torch.nan, 3, ValueError, "finite"),
        (X, KNOTS, -1, ValueError, "spline_order = -1"),
        (X, KNOTS, 6, ValueError, "spline_order = 6"),
        (X, KNOTS, 3.0, ValueError, "spline_order = 3.0"),
    ],
)
def test_bad_arguments_are_named(x, knots, order, error, message):
    with pytest.raises(error, match=message):
        bspline_basis(x, knots, order)
