"""B-spline bases on per-feature knots: knots, and the basis functions in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from kanstudy.sizes import MAX_SPLINE_ORDER, whole_number

FLOAT_TYPES = (torch.float32, torch.float64)


def bspline_basis(x: Tensor, knots: Tensor, spline_order: int) -> Tensor:
    """All B-spline basis functions of degree `spline_order`, one knot vector a feature.

    x is (..., in), knots (in, grid_size + 2·spline_order + 1), non-decreasing along a row; the result is
    (..., in, grid_size + spline_order). Cox-de Boor recurrence; the grid range runs from knot `spline_order` to knot
    `spline_order + grid_size`, and there the basis sums to 1, both edges included. Beyond it the basis fades out, and
    outside the outermost knots it is zero. Repeated knots are allowed. NaN stays NaN; an infinity gives zeros.

    At a knot where a derivative jumps (low orders) autograd gives the right-hand one, at the grid's right edge the
    left-hand one, as SciPy does. Under autocast lower-precision x is taken up to the knots' type.

    Raises `TypeError` for anything that is not a float32 or float64 tensor or of two different types, `ValueError` for
    wrong shapes, orders outside 0 to 5 and knots that are not finite or decrease (on a GPU this check synchronises).
    """
    spline_order = whole_number("spline_order", spline_order, 0, MAX_SPLINE_ORDER)
    check_knots(knots, spline_order)
    return basis_reference(matching_input(x, knots), knots, spline_order).transpose(-1, -2)


def basis_reference(x: Tensor, knots: Tensor, spline_order: int) -> Tensor:
    """`bspline_basis` with its arguments taken as checked and basis functions before features: (..., n, in).

    That is the column order of a layer's weight, and whole rows of features are contiguous in every step.

    Written for reading; only additions, products and quotients of differences x - knot, all terms of one sign, so that
    it is accurate to rounding also on fine grids.
    """
    knots = knots.t().contiguous()
    x = x.unsqueeze(-2)
    right_edge = knots[-1 - spline_order]
    # A knot is reached when it is at or before x; at the grid's right edge only when it is before, which closes the
    # last interval of the grid. Compared with NaN nothing is reached.
    reached = torch.where(x == right_edge, x > knots, x >= knots)
    basis = (reached[..., :-1, :] & ~reached[..., 1:, :]).to(x.dtype)
    # Where every basis function is zero x does not matter, but 0 · inf, or the gradient of a huge x, would be NaN.
    x = torch.where((x < knots[0]) | (x > knots[-1]), knots[0], x)
    if spline_order == 0:
        return basis + 0 * x  # NaN stays NaN, and the derivative is zero
    offset = x - knots
    for order in range(1, spline_order + 1):
        width = knots[order:] - knots[:-order]
        # An empty support has no basis function to scale: any width but 0 gives its zero.
        scaled = basis / width.masked_fill(width == 0, 1)
        basis = offset[..., : -order - 1, :] * scaled[..., :-1, :] - offset[..., order + 1 :, :] * scaled[..., 1:, :]
    return basis


def uniform_knots(grid_range: tuple[float, float], grid_size: int, spline_order: int, dtype: torch.dtype) -> Tensor:
    """Knots (grid_size + 2·spline_order + 1,): `grid_size` equal intervals over the range, `spline_order` more on
    each side, on the CPU. Raises `ValueError` where dtype cannot hold their differences."""
    low, high = grid_range
    steps = torch.arange(-spline_order, grid_size + spline_order + 1, dtype=torch.float64, device="cpu")
    knots = low + (high - low) * (steps / grid_size)
    # exactly, so that a value at the edge is inside
    knots[spline_order], knots[spline_order + grid_size] = low, high
    knots = knots.to(dtype)
    # all differences of knots and values, and the reciprocals of widths, are numbers of the type
    if not ((knots[-1] - knots[0]).isfinite() and (knots.diff() >= torch.finfo(dtype).tiny).all()):
        raise ValueError(f"grid_range = {grid_range!r}: {grid_size} intervals in it are too narrow or wide for {dtype}")
    return knots


def check_knots(knots: Tensor, spline_order: int) -> None:
    """`TypeError` or `ValueError` unless knots are (in, at least 2·spline_order + 2), finite and non-decreasing."""
    _require_float("knots", knots)
    if knots.dim() != 2 or knots.shape[1] < 2 * spline_order + 2:
        raise ValueError(
            f"knots have shape {tuple(knots.shape)}: must be (in, at least {2 * spline_order + 2}) "
            f"for spline_order = {spline_order}"
        )
    if not (knots.isfinite().all() and (knots.diff() >= 0).all()):
        raise ValueError("knots must be finite and must not decrease along a row")


def matching_input(x: Tensor, knots: Tensor) -> Tensor:
    """x in the knots' type; only autocast may bring another. `TypeError` and `ValueError` say what does not match."""
    _require_float("knots", knots)
    if not isinstance(x, Tensor):
        raise TypeError(f"x is a {type(x).__name__}: must be a tensor")
    if x.dtype in (torch.bfloat16, torch.float16) and torch.is_autocast_enabled(x.device.type):
        x = x.to(knots.dtype)
    if x.dtype != knots.dtype:
        raise TypeError(
            f"x is {x.dtype}, the knots are {knots.dtype}: convert x or the model, such as x.to({knots.dtype})"
        )
    if x.dim() == 0 or x.shape[-1] != knots.shape[0]:
        raise ValueError(f"x has shape {tuple(x.shape)}: its last dimension must be {knots.shape[0]}, the features")
    return x


def _require_float(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}: must be a tensor")
    if tensor.dtype not in FLOAT_TYPES:
        raise TypeError(f"{name} is {tensor.dtype}: must be float32 or float64 (use autocast for lower precision)")
