"""A KAN layer in plain PyTorch: the expanded input times the weight. The truth that faster operators are held to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kanstudy.model.bspline import basis_reference

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {"silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh, "identity": nn.Identity()}
"""Activations by name: a name can be stored in a checkpoint and pickled, a lambda cannot."""


def expand(x: Tensor, knots: Tensor, spline_order: int, base_activation: str) -> Tensor:
    """What a layer's weight multiplies: x (..., in) to (..., (grid_size + spline_order + 1)·in).

    Column j·in + i is basis function j of input i; the last block of `in` columns is the activated input.
    """
    basis = basis_reference(x, knots, spline_order)
    base = ACTIVATIONS[base_activation](x)
    return torch.cat([basis, base.unsqueeze(-2)], dim=-2).flatten(-2)


def kan_linear(x: Tensor, knots: Tensor, weight: Tensor, spline_order: int, base_activation: str) -> Tensor:
    """x (..., in), knots (in, m), weight (out, (m - spline_order)·in) to (..., out); arguments are taken as checked."""
    return F.linear(expand(x, knots, spline_order, base_activation), weight)
