"""How large a model is: parameters, floating-point operations, and the MLP that matches a KAN.

Pure arithmetic on whole numbers, standard library only: the planner sizes the control experiment with it and the
models check themselves against it. A KAN layer has `grid_size + spline_order` basis functions and one base term
an edge and no bias; an MLP layer has one weight an edge and a bias an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

MAX_SPLINE_ORDER = 5


class MatchedWidth(NamedTuple):
    """The hidden width of an MLP as deep as a KAN, and how many parameters each of the two has."""

    hidden_width: int
    mlp_params: int
    kan_params: int

    @property
    def difference(self) -> int:
        """Parameters that the MLP has more than the KAN; negative where it has fewer."""
        return self.mlp_params - self.kan_params


def whole_number(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """`value` as an int; `ValueError` naming the argument unless it is a whole number from minimum to maximum."""
    allowed = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}: must be a whole number {allowed}")
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} = {value!r}: must be a whole number {allowed}")
    return number


def widths(layer_widths: Sequence[int]) -> tuple[int, ...]:
    """The widths, input to output, as a tuple; `ValueError` unless there are at least two whole numbers >= 1."""
    if isinstance(layer_widths, (str, bytes)) or not isinstance(layer_widths, Sequence) or len(layer_widths) < 2:
        raise ValueError(f"layer_widths = {layer_widths!r}: must be a sequence of at least two whole numbers >= 1")
    return tuple(whole_number("layer_widths", width, 1) for width in layer_widths)


def widths_text(layer_widths: Sequence[int]) -> str:
    """The widths as tables and labels show them, such as "32-64-64-1"."""
    return "-".join(map(str, layer_widths))


def kan_terms(grid_size: int, spline_order: int) -> int:
    """Weights an edge of a KAN: one a basis function, and one for the base term."""
    grid_size = whole_number("grid_size", grid_size, 1)
    return grid_size + whole_number("spline_order", spline_order, 0, MAX_SPLINE_ORDER) + 1


def kan_parameters(layer_widths: Sequence[int], grid_size: int, spline_order: int) -> int:
    """Trainable parameters of a KAN of these widths."""
    return _edges(layer_widths) * kan_terms(grid_size, spline_order)


def mlp_parameters(layer_widths: Sequence[int]) -> int:
    """Trainable parameters of an MLP of these widths, biases included."""
    return _edges(layer_widths) + sum(widths(layer_widths)[1:])


def kan_flops_per_sample(layer_widths: Sequence[int], grid_size: int, spline_order: int) -> int:
    """Floating-point operations of a KAN's matrix products in forward and backward, for one row of data.

    `2·in·out·terms` a layer in forward (a multiplication and an addition a weight) and twice that in backward (the
    gradients of weights and of inputs). Evaluating the basis is not counted.
    """
    return 6 * _edges(layer_widths) * kan_terms(grid_size, spline_order)


def mlp_flops_per_sample(layer_widths: Sequence[int]) -> int:
    """The same count for an MLP, one term an edge; biases and activations are not counted."""
    return 6 * _edges(layer_widths)


def matched_hidden_width(layer_widths: Sequence[int], grid_size: int, spline_order: int) -> MatchedWidth:
    """The MLP nearest in parameters to a KAN: inputs, outputs and depth are the KAN's, all hidden widths are equal.

    Of two equally near widths the smaller is taken. Raises `ValueError` where the KAN has no hidden layer, so that
    there is no width to choose.
    """
    layer_widths = widths(layer_widths)
    if len(layer_widths) < 3:
        raise ValueError(f"layer_widths = {layer_widths!r}: no hidden layer, so there is no width to match")
    target = kan_parameters(layer_widths, grid_size, spline_order)
    low, high = 1, 2
    while _mlp_of(layer_widths, high) < target:
        low, high = high, 2 * high
    while high - low > 1:  # the count grows with the width: halve the bracket
        middle = (low + high) // 2
        low, high = (middle, high) if _mlp_of(layer_widths, middle) < target else (low, middle)
    width = min((low, high), key=lambda width: abs(_mlp_of(layer_widths, width) - target))
    return MatchedWidth(width, _mlp_of(layer_widths, width), target)


def matched_layer_widths(layer_widths: Sequence[int], grid_size: int, spline_order: int) -> tuple[int, ...]:
    """All widths of the matched MLP, input to output; see `matched_hidden_width`."""
    return _with_hidden(layer_widths, matched_hidden_width(layer_widths, grid_size, spline_order).hidden_width)


def _edges(layer_widths: Sequence[int]) -> int:
    return sum(before * after for before, after in pairwise(widths(layer_widths)))


def _with_hidden(layer_widths: Sequence[int], hidden_width: int) -> tuple[int, ...]:
    return (layer_widths[0], *[hidden_width] * (len(layer_widths) - 2), layer_widths[-1])


def _mlp_of(layer_widths: Sequence[int], hidden_width: int) -> int:
    return mlp_parameters(_with_hidden(layer_widths, hidden_width))
