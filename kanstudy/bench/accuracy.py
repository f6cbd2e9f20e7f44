"""How far a candidate's basis functions are from SciPy's, evaluated in float32 on uniform knots."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from torch import Tensor, nn

from kanstudy.bench.candidates import build
from kanstudy.bench_record import FLOOR, SPLINE_ORDER
from kanstudy.model import KAN, KANLayer

POINTS = 20_001
Basis = NDArray[np.float64]


class NoBasis(Exception):
    """The candidate has no basis that could be compared; says why."""


def max_error(name: str, grid_size: int, added: Mapping[str, str]) -> float:
    """The largest absolute difference of any basis function anywhere on the grid's range, both edges included.

    SciPy evaluates in float64, at the float32 points, on knots that are uniform in float64 (on the layer's own knots
    where the candidate's are moved). Raises `NoBasis`, and what the candidate raises.
    """
    if name in (FLOOR, "mlp"):
        raise NoBasis("has no basis functions")
    if name == "fused_bf16":
        raise NoBasis("the basis is that of fused; its products are rounded to bfloat16")
    x = torch.linspace(-1, 1, POINTS).unsqueeze(1)
    steps = np.arange(-SPLINE_ORDER, grid_size + SPLINE_ORDER + 1)
    knots = -1 + 2 * steps / grid_size
    with torch.no_grad():
        if name in added:
            found = _of_added(build(name, (1, 1), grid_size, added), x)
        elif name in _PEERS:
            found = _PEERS[name](grid_size, x)
        else:
            found, knots = _of_ours(name, grid_size, x)
    expected = exact_basis(x[:, 0].double().numpy(), knots)
    if found.shape != expected.shape:
        raise NoBasis(f"its basis functions have shape {tuple(found.shape)}, not {expected.shape}")
    return float(np.abs(found.double().numpy() - expected).max())


def exact_basis(x: Basis, knots: Basis) -> Basis:
    """All cubic basis functions in float64, (points, functions); x within the grid's range, else zeros."""
    basis = np.zeros((len(x), len(knots) - SPLINE_ORDER - 1))
    inside = (x >= knots[SPLINE_ORDER]) & (x <= knots[-1 - SPLINE_ORDER])
    if inside.any():
        basis[inside] = BSpline.design_matrix(x[inside], knots, SPLINE_ORDER).toarray()
    return basis


def _of_ours(name: str, grid_size: int, x: Tensor) -> tuple[Tensor, Basis]:
    """A layer of one input whose weight is the identity gives its basis functions; and its knots, exactly."""
    terms = grid_size + SPLINE_ORDER + 1
    model = build(name, (1, terms), grid_size, {})
    assert isinstance(model, KAN)
    layer = model.layers[0]
    assert isinstance(layer, KANLayer)
    layer.weight.copy_(torch.eye(terms))
    if name != "fused_moved":
        steps = np.arange(-SPLINE_ORDER, grid_size + SPLINE_ORDER + 1)
        return model(x)[:, :-1], -1 + 2 * steps / grid_size
    knots = layer.knots[0].double().numpy()
    inside = (x[:, 0] >= layer.knots[0, SPLINE_ORDER]) & (x[:, 0] <= layer.knots[0, -1 - SPLINE_ORDER])
    return model(x)[:, :-1] * inside[:, None], knots  # beyond its range SciPy has no basis


def _of_inkan(grid_size: int, x: Tensor) -> Tensor:
    terms = grid_size + SPLINE_ORDER + 1
    layer = importlib.import_module("inkan").KANLayer(1, terms, grid_size=grid_size)
    layer.weight.copy_(torch.eye(terms))
    return layer(x)[:, :-1]


def _of_flashkan(grid_size: int, x: Tensor) -> Tensor:
    functions = grid_size + SPLINE_ORDER
    layer = importlib.import_module("flashkan").KANLayer(1, functions, grid_size=grid_size)
    layer.base_weight.zero_()
    layer.spline_weight.copy_(torch.eye(functions).unsqueeze(1))
    return layer(x)


def _of_pykan(grid_size: int, x: Tensor) -> Tensor:
    layer = importlib.import_module("kan").KANLayer(in_dim=1, out_dim=1, num=grid_size, k=SPLINE_ORDER)
    return importlib.import_module("kan.spline").B_batch(x, layer.grid, k=SPLINE_ORDER)[:, 0]


def _of_added(model: nn.Module, x: Tensor) -> Tensor:
    """By the method that public layers of this kind have: b_splines(x), (points, 1) to (points, 1, functions)."""
    for module in model.modules():
        evaluate = getattr(module, "b_splines", None)
        if callable(evaluate):
            return evaluate(x)[:, 0]
    raise NoBasis("has no method b_splines")


_PEERS: dict[str, Callable[[int, Tensor], Tensor]] = {
    "inkan": _of_inkan,
    "flashkan": _of_flashkan,
    "pykan": _of_pykan,
}
