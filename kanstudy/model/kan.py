"""The Kolmogorov-Arnold network: a layer whose weights are functions on its edges, and a stack of them.

Liu et al. 2024, "KAN: Kolmogorov-Arnold Networks", arXiv 2404.19756. Output o of a layer is the sum over its inputs
i of w_oi · base(x_i) + sum_j c_oij · B_j(x_i), with the B-spline basis B of `bspline_basis`.

Outside the grid range the splines fade out, within `spline_order` intervals, and only the base term is left: such
inputs give finite outputs but no gradient to the coefficients. `out_of_grid_share` counts them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from kanstudy.model.bspline import FLOAT_TYPES, matching_input, uniform_knots
from kanstudy.model.grid import GRID_EPS, refine_grids, update_grids
from kanstudy.model.operators import operator_named, resolve_operator
from kanstudy.model.reference import ACTIVATIONS, Activation, expand, kan_linear
from kanstudy.sizes import MAX_SPLINE_ORDER, whole_number, widths


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
        operator: str = "auto",
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
        self.requested_operator = operator
        dtype = float_type(dtype)
        knots = uniform_knots(self.grid_range, self.grid_size, self.spline_order, dtype)
        columns = (self.grid_size + self.spline_order + 1) * self.in_features
        self.weight = nn.Parameter(torch.empty(self.out_features, columns, dtype=dtype, device=device))
        self.register_buffer("knots", knots.to(self.weight.device).repeat(self.in_features, 1))
        resolve_operator(operator, self.weight.device.type, self.spline_order)
        self.reset_parameters()

    @property
    def operator(self) -> str:
        """The operator that computes this layer, where its weight lies now."""
        return resolve_operator(self.requested_operator, self.weight.device.type, self.spline_order)

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
        return expand(matching_input(x, self.knots), self.knots, self.spline_order, self.base_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) to (..., out). Under autocast the basis is float32 and the matrix product is lowered."""
        x = matching_input(x, self.knots)
        # whoever compiles the whole model is given what can be compiled
        compute = kan_linear if torch.compiler.is_compiling() else operator_named(self.operator)
        return compute(x, self.knots, self.weight, self.spline_order, self.base_activation)

    def edges(self, x: Tensor) -> Tensor:
        """What each edge adds: x (..., in) to (..., out, in), whose sum over the last dimension is the output; errors
        as of `expansion`."""
        terms = self.expansion(x).unflatten(-1, (-1, self.in_features))
        weight = self.weight.unflatten(-1, (-1, self.in_features))
        return torch.einsum("...ji,oji->...oi", terms, weight)

    @torch.no_grad()
    def out_of_grid_share(self, x: Tensor) -> float:
        """Share of the values in x (..., in) outside the grid range, NaN among them; NaN where x is empty."""
        x = matching_input(x, self.knots)
        low, high = self.knots[:, self.spline_order], self.knots[:, -1 - self.spline_order]
        return (~((x >= low) & (x <= high))).double().mean().item()

    def update_grid(self, x: Tensor, *, grid_eps: float = GRID_EPS, group: ProcessGroup | None = None) -> None:
        """Move the knots to the samples x (..., in) and keep the function; see `grid.update_grids`. Collective where
        distributed."""
        update_grids([self], x, grid_eps, group)

    def refine_grid(self, new_grid_size: int, *, group: ProcessGroup | None = None) -> None:
        """Change the number of intervals and keep the function; see `grid.refine_grids`. `weight` becomes a new
        parameter. Collective where distributed. Inside a `KAN` refine the KAN: its `config` names one size for all."""
        refine_grids([self], new_grid_size, group)

    def extra_repr(self) -> str:
        """The arguments that build such a layer, for its text."""
        # one that was asked for by name is shown, even where it cannot work
        operator = self.operator if self.requested_operator == "auto" else self.requested_operator
        return (
            f"{self.in_features}, {self.out_features}, grid_size={self.grid_size}, spline_order={self.spline_order}, "
            f"grid_range={self.grid_range}, base_activation={self.base_activation!r}, operator={operator!r}"
        )


class KAN(nn.Module):
    """A stack of `KANLayer`s: x (..., layer_widths[0]) to (..., layer_widths[-1]).

    `config` is the dictionary of JSON values that builds the same architecture again. Arguments and errors are those
    of `KANLayer`.
    """

    def __init__(
        self,
        layer_widths: Sequence[int],
        grid_size: int = 5,
        spline_order: int = 3,
        grid_range: tuple[float, float] = (-1.0, 1.0),
        base_activation: str | Activation = "silu",
        operator: str = "auto",
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
        self.config: dict[str, Any] = {
            "model": "kan",
            "layer_widths": list(self.layer_widths),
            "grid_size": first.grid_size,
            "spline_order": first.spline_order,
            "grid_range": list(first.grid_range),
            "base_activation": first.base_activation,
            "operator": operator,
        }

    @property
    def operator(self) -> str:
        """The operator that computes the layers, where they lie now."""
        return cast(KANLayer, self.layers[0]).operator

    def forward(self, x: Tensor) -> Tensor:
        """x (..., layer_widths[0]) to (..., layer_widths[-1]); `TypeError` where x and the layers differ in type."""
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

    def update_grid(self, x: Tensor, *, grid_eps: float = GRID_EPS, group: ProcessGroup | None = None) -> None:
        """Move all knots to the samples x (..., layer_widths[0]), layer by layer, and keep the function; see
        `grid.update_grids`. Collective where distributed."""
        update_grids([cast(KANLayer, layer) for layer in self.layers], x, grid_eps, group)

    def refine_grid(self, new_grid_size: int, *, group: ProcessGroup | None = None) -> None:
        """Change the number of intervals of all layers and keep the function; see `grid.refine_grids`. All weights
        become new parameters: make the optimizer and DDP anew. Collective where distributed."""
        refine_grids([cast(KANLayer, layer) for layer in self.layers], new_grid_size, group)
        self.config["grid_size"] = cast(KANLayer, self.layers[0]).grid_size


def _grid_range(grid_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(edge) for edge in grid_range)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"grid_range = {grid_range!r}: must be two finite numbers, the lower first")
    return low, high
