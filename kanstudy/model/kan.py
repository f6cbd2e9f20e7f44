"""The Kolmogorov-Arnold network: a layer whose weights are functions on its edges, and a stack of them.

Liu et al. 2024, "KAN: Kolmogorov-Arnold Networks", arXiv 2404.19756. Output o of a layer is the sum over its inputs
i of w_oi · base(x_i) + sum_j c_oij · B_j(x_i), with the B-spline basis B of `bspline_basis`.

Outside the grid range the splines fade out, within `spline_order` intervals, and only the base term is left: such
inputs give finite outputs but no gradient to the coefficients. `out_of_grid_share` counts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kanstudy.model.bspline import FLOAT_TYPES, OPERATORS, matching_input, resolve_operator, uniform_knots
from kanstudy.sizes import MAX_SPLINE_ORDER, whole_number, widths

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {"silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh, "identity": nn.Identity()}
"""Activations by name: a name can be stored in a checkpoint and pickled, a lambda cannot."""


def activation_name(argument: str, activation: str | Activation) -> str:
    """The name of an activation given by name or as its torch function; `ValueError` names the argument."""
    for name, function in ACTIVATIONS.items():
        if activation is function or (isinstance(activation, str) and activation == name):
            return name
    raise ValueError(
        f"{argument} = {activation!r}: must be one of {', '.join(ACTIVATIONS)}, or that function of torch "
        "(others cannot be stored in a checkpoint)"
    )


def float_type(dtype: torch.dtype | None) -> torch.dtype:
    """The type to build a model in, torch's default if None; `TypeError` unless it is float32 or float64."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in FLOAT_TYPES:
        raise TypeError(f"dtype = {dtype!r}: must be torch.float32 or torch.float64")
    return dtype


class KANLayer(nn.Module):
    """One layer: x (..., in_features) to (..., out_features), as one matrix product of the expanded input.

    The parameter `weight` is (out, (grid_size + spline_order + 1)·in): column j·in + i holds the coefficients of basis
    function j of input i, the last block (j = grid_size + spline_order) those of the base term. The buffer `knots` is
    (in, grid_size + 2·spline_order + 1).

    At the start c ~ N(0, 0.1²/in), so that the splines add a small noise whatever the width (the paper has 0.1 an
    edge), and the base weights are Xavier uniform as in the paper; both follow `torch.manual_seed`.

    Raises `ValueError` naming a bad argument, `TypeError` for a dtype other than float32 and float64.
    """

    knots: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        spline_order: int = 3,
        grid_range: tuple[float, float] = (-1.0, 1.0),
        base_activation: str | Activation = "silu",
        operator: str = "reference",
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.in_features = whole_number("in_features", in_features, 1)
        self.out_features = whole_number("out_features", out_features, 1)
        self.grid_size = whole_number("grid_size", grid_size, 1)
        self.spline_order = whole_number("spline_order", spline_order, 0, MAX_SPLINE_ORDER)
        self.grid_range = _grid_range(grid_range)
        self.base_activation = activation_name("base_activation", base_activation)
        self.operator = resolve_operator(operator)
        dtype = float_type(dtype)
        knots = uniform_knots(self.grid_range, self.grid_size, self.spline_order, dtype)
        self.register_buffer("knots", knots.to(device).repeat(self.in_features, 1))
        columns = (self.grid_size + self.spline_order + 1) * self.in_features
        self.weight = nn.Parameter(torch.empty(self.out_features, columns, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; see the class."""
        coefficients, base = self.weight.detach().split(
            [self.weight.shape[1] - self.in_features, self.in_features], dim=1
        )
        nn.init.normal_(coefficients, std=0.1 / math.sqrt(self.in_features))
        nn.init.xavier_uniform_(base)

    def expansion(self, x: Tensor) -> Tensor:
        """What the weight multiplies: x (..., in) to (..., (grid_size + spline_order + 1)·in), in the knots' type.

        `TypeError` where x and the layer differ in type, `ValueError` where the last dimension is not in_features.
        """
        x = matching_input(x, self.knots)
        basis = OPERATORS[self.operator](x, self.knots, self.spline_order)
        base = ACTIVATIONS[self.base_activation](x)
        return torch.cat([basis, base.unsqueeze(-2)], dim=-2).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) to (..., out). Under autocast the basis is float32 and the matrix product is lowered."""
        return F.linear(self.expansion(x), self.weight)

    def edges(self, x: Tensor) -> Tensor:
        """What each edge adds: x (..., in) to (..., out, in), whose sum over the last dimension is the output."""
        terms = self.expansion(x).unflatten(-1, (-1, self.in_features))
        weight = self.weight.unflatten(-1, (-1, self.in_features))
        return torch.einsum("...ji,oji->...oi", terms, weight)

    @torch.no_grad()
    def out_of_grid_share(self, x: Tensor) -> float:
        """Share of the values in x (..., in) outside the grid range, NaN among them; NaN where x is empty."""
        x = matching_input(x, self.knots)
        low, high = self.knots[:, self.spline_order], self.knots[:, -1 - self.spline_order]
        return (~((x >= low) & (x <= high))).double().mean().item()

    def extra_repr(self) -> str:
        return (
            f"{self.in_features}, {self.out_features}, grid_size={self.grid_size}, spline_order={self.spline_order}, "
            f"grid_range={self.grid_range}, base_activation={self.base_activation!r}, operator={self.operator!r}"
        )


class KAN(nn.Module):
    """A stack of `KANLayer`s: x (..., layer_widths[0]) to (..., layer_widths[-1]).

    `config` is the dictionary of JSON values that builds the same architecture again; `operator` names the
    operator that runs. Arguments and errors are those of `KANLayer`.
    """

    def __init__(
        self,
        layer_widths: Sequence[int],
        grid_size: int = 5,
        spline_order: int = 3,
        grid_range: tuple[float, float] = (-1.0, 1.0),
        base_activation: str | Activation = "silu",
        operator: str = "reference",
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.layer_widths = widths(layer_widths)
        function = (grid_size, spline_order, grid_range, base_activation, operator)
        layers = [
            KANLayer(before, after, *function, dtype=dtype, device=device)
            for before, after in pairwise(self.layer_widths)
        ]
        self.layers = nn.ModuleList(layers)
        first = layers[0]
        self.operator: str = first.operator
        self.config: dict[str, Any] = {
            "model": "kan",
            "layer_widths": list(self.layer_widths),
            "grid_size": first.grid_size,
            "spline_order": first.spline_order,
            "grid_range": list(first.grid_range),
            "base_activation": first.base_activation,
            "operator": operator,
        }

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    @torch.no_grad()
    def out_of_grid_share(self, x: Tensor) -> list[float]:
        """For a batch x (..., in) the share of each layer's inputs that lie outside its grid range."""
        shares = []
        for layer in self.layers:
            shares.append(cast(KANLayer, layer).out_of_grid_share(x))
            x = layer(x)
        return shares


def _grid_range(grid_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(edge) for edge in grid_range)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"grid_range = {grid_range!r}: must be two finite numbers, the lower first")
    return low, high
