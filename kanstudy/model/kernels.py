"""The B-spline basis and its derivative, compiled for the CPU by numba: x to the planes of the expansion and back.

Kernels are serial and release the GIL; whoever calls them shares rows among threads. Every write is contiguous: plane
j of a row, basis function j of all its inputs, lies before plane j + 1, and the innermost loops run over inputs, so
that they become vector instructions.

A `Basis` belongs to one set of knots. Uniform knots of order 2 and more have a closed form without branches or
tables; others take the Cox-de Boor recurrence. Both agree with `bspline.basis_reference` to rounding, NaN, infinities
and the grid's edges included.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kanstudy.model.compilation import Kernel, compiled, one_process_at_a_time

Array = npt.NDArray[np.floating[Any]]

_ready: set[tuple[Kernel, np.dtype[Any]]] = set()
"""What this process has compiled: kernels and the type they were compiled for."""
_FARTHEST_KNOT = 512
"""How many spacings from zero. Farther out float32 rounds so much of a spacing away that the layer's knots are not
uniform any more."""


class Basis:
    """All basis functions of one layer's knots.

    knots are (in, grid_size + 2·spline_order + 1), float32 or float64, finite and non-decreasing along a row;
    spline_order is at least 1. `is_uniform` says whether the closed form runs. x is (rows, in), C-contiguous and of the
    knots' type, as are the arrays of planes (rows, (grid_size + spline_order + 1)·in), whose last plane is not touched.
    """

    def __init__(self, knots: Array, spline_order: int) -> None:
        self.knots, self.order = knots.copy(), spline_order
        lowest, spacing = _straight_line(knots.astype(np.float64))
        self.is_uniform = spline_order >= 2 and _follows(knots, lowest, spacing)
        if self.is_uniform:
            self._expand, self._contract = _uniform_kernels(spline_order)
            self._tables: tuple[Any, ...] = (lowest, 1 / spacing, float(knots.shape[1] - 1))
        else:
            self._expand, self._contract = _recurrence_kernels(spline_order)
            self._tables = _recurrence_tables(knots, spline_order)

    def is_of(self, knots: Array, spline_order: int) -> bool:
        """Whether it is the basis of these knots, value by value."""
        same_kind = self.order == spline_order and self.knots.dtype == knots.dtype and self.knots.shape == knots.shape
        return same_kind and bool((self.knots == knots).all())

    def expand(self, x: Array, planes: Array) -> None:
        """Write B_j(x_i) to planes[:, j·in + i]."""
        self._expand(x, *self._tables, planes)

    def contract(self, x: Array, gradient: Array, x_gradient: Array) -> None:
        """Add the sum over j of gradient[:, j·in + i] · B_j'(x_i) to x_gradient[:, i]."""
        self._contract(x, *self._tables, gradient, x_gradient)

    def compile(self) -> None:
        """Compile the kernels, or load what another process has compiled, before they are needed."""
        dtype, features = self.knots.dtype, len(self.knots)
        key = (self._expand, dtype)
        if key not in _ready:
            planes = self.knots.shape[1] - self.order
            x, expanded = np.zeros((1, features), dtype), np.zeros((1, planes * features), dtype)
            with one_process_at_a_time(self._expand):
                self.expand(x, expanded)
                self.contract(x, expanded, x)
            _ready.add(key)


def _straight_line(knots: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The uniform knots nearest to each row: their lowest, and their spacing. Averages the rounding of single knots."""
    steps = np.arange(knots.shape[1]) - (knots.shape[1] - 1) / 2
    spacing = knots @ steps / (steps @ steps)
    return knots.mean(axis=1) + spacing * steps[0], spacing


def _follows(knots: Array, lowest: npt.NDArray[np.float64], spacing: npt.NDArray[np.float64]) -> bool:
    """Whether knots are those uniform ones, but for a little rounding to their own type."""
    line = lowest[:, None] + spacing[:, None] * np.arange(knots.shape[1])
    farthest = np.abs(knots).max(axis=1)
    is_near = (spacing > 0) & (farthest <= _FARTHEST_KNOT * spacing)
    rounding = 2 * np.finfo(knots.dtype).eps * farthest[:, None]
    return bool(is_near.all() and (np.abs(knots - line) <= rounding).all())


def _recurrence_tables(knots: Array, spline_order: int) -> tuple[Array, Array, Array]:
    """Knots by row, with `spline_order` rows of padding before them; reciprocal widths; the knot below the right edge.

    `inverse_width[d, j + spline_order]` is 1 / (knot j+d+1 - knot j), zero for an empty support and in the padding,
    where it makes every basis function zero.
    """
    rows = np.ascontiguousarray(knots.T)
    padded = np.concatenate([np.repeat(rows[:1], spline_order, axis=0), rows])
    inverse_width = np.zeros((spline_order, len(padded) - 1, rows.shape[1]), dtype=knots.dtype)
    for degree in range(spline_order):
        width = rows[degree + 1 :] - rows[: -degree - 1]
        filled = inverse_width[degree, spline_order : spline_order + len(width)]
        np.divide(1, width, out=filled, where=width > 0)
    right_edge = rows[-1 - spline_order]
    # a knot, not the next number below: that of zero is a denormal, which may count as zero
    below_edge = np.where(rows < right_edge, rows, knots.dtype.type(-np.inf)).max(axis=0)
    return padded, inverse_width, below_edge


@compiled
def _locate(x, lowest, per_spacing, last, cell, offset):  # type: ignore[no-untyped-def]
    """Each input's cell among uniform knots and its offset inside it, in spacings; beyond the knots their ends'."""
    for i in range(x.shape[0]):
        position = (np.float64(x[i]) - lowest[i]) * per_spacing[i]
        position = 0.0 if position < 0.0 else position  # written so that NaN stays
        position = last if position > last else position
        below = np.floor(position)
        cell[i], offset[i] = x.dtype.type(below), x.dtype.type(position - below)


@compiled
def _search_values(x, lowest, highest, right_edge, below_edge, inside, searched):  # type: ignore[no-untyped-def]
    """What the recurrence takes for each input: `inside`, not beyond the knots, where an infinity would give NaN;
    `searched`, whose interval counts, since the right edge of the grid belongs to the interval before it."""
    for i in range(x.shape[0]):
        value = x[i]
        at_least = lowest[i] if value < lowest[i] else value
        inside[i] = highest[i] if value > highest[i] else at_least
        searched[i] = below_edge[i] if value == right_edge[i] else value


@cache
def _uniform_kernels(order: int) -> tuple[Kernel, Kernel]:
    """Kernels for uniform knots, by the distance a of x to a basis function's centre, in knot spacings:

    B(a) = 1/k! · sum_q (-1)^q · C(k+1, q) · max((k+1)/2 - q - a, 0)^k, a >= 0, k the order; for k = 3 it is
    (max(2-a, 0)^3 - 4·max(1-a, 0)^3) / 6 (Schoenberg 1946, the central B-spline by truncated powers).

    The distance is taken from the number of x's cell and the offset inside it, found in float64: in float32 the
    position itself would lose the digits of a fine grid.
    """
    half = (order + 1) / 2
    terms = (order + 2) // 2
    value_factors = tuple((-1) ** q * math.comb(order + 1, q) / math.factorial(order) for q in range(terms))
    slope_factors = tuple((-1) ** q * math.comb(order + 1, q) / math.factorial(order - 1) for q in range(terms))

    def expand(x, lowest, per_spacing, last, planes):  # type: ignore[no-untyped-def]
        rows, features = x.shape
        functions = planes.shape[1] // features - 1
        number = x.dtype.type
        zero = number(0)
        cell, offset = np.empty(features, x.dtype), np.empty(features, x.dtype)
        for row in range(rows):
            _locate(x[row], lowest, per_spacing, last, cell, offset)
            for j in range(functions):
                centre = number(j + half)
                plane = planes[row, j * features : (j + 1) * features]
                for i in range(features):
                    distance = abs((cell[i] - centre) + offset[i])
                    value = zero
                    for q in range(terms):
                        inside = number(half - q) - distance
                        inside = zero if inside < zero else inside
                        term = number(value_factors[q])
                        for _ in range(order):
                            term *= inside
                        value += term
                    plane[i] = value

    def contract(x, lowest, per_spacing, last, gradient, x_gradient):  # type: ignore[no-untyped-def]
        rows, features = x.shape
        functions = gradient.shape[1] // features - 1
        number = x.dtype.type
        zero = number(0)
        cell, offset = np.empty(features, x.dtype), np.empty(features, x.dtype)
        total = np.empty(features, x.dtype)
        for row in range(rows):
            _locate(x[row], lowest, per_spacing, last, cell, offset)
            total[:] = zero
            for j in range(functions):
                centre = number(j + half)
                plane = gradient[row, j * features : (j + 1) * features]
                for i in range(features):
                    signed = (cell[i] - centre) + offset[i]
                    distance = abs(signed)
                    slope = zero
                    for q in range(terms):
                        inside = number(half - q) - distance
                        inside = zero if inside < zero else inside
                        term = number(slope_factors[q])
                        for _ in range(order - 1):
                            term *= inside
                        slope += term
                    total[i] -= plane[i] * (slope if signed > zero else -slope)
            for i in range(features):
                x_gradient[row, i] += total[i] * number(per_spacing[i])

    return compiled(expand), compiled(contract)


@cache
def _recurrence_kernels(order: int) -> tuple[Kernel, Kernel]:
    """Kernels for any knots: the Cox-de Boor recurrence, all degrees in one pass over the knots.

    `previous[d]` holds basis function j - d - 1 of degree d over its width, `current` its right neighbour, from which
    the next degree follows. B_j' is order times the difference of the two at degree order - 1.
    """

    def expand(x, knots, inverse_width, below_edge, planes):  # type: ignore[no-untyped-def]
        rows, features = x.shape
        intervals = knots.shape[0] - order - 1
        zero = x.dtype.type(0)
        inside, searched = np.empty(features, x.dtype), np.empty(features, x.dtype)
        previous = np.empty((order, features), x.dtype)
        for row in range(rows):
            _search_values(x[row], knots[0], knots[-1], knots[intervals], below_edge, inside, searched)
            previous[:] = zero
            for j in range(order, intervals + order):
                first = max(j - 2 * order, 0)  # the padding's planes are overwritten by the first real one
                plane = planes[row, first * features : (first + 1) * features]
                for i in range(features):
                    reached = searched[i] >= knots[j, i] and searched[i] < knots[j + 1, i]
                    current = inverse_width[0, j, i] if reached else zero
                    for d in range(1, order + 1):
                        left, right = inside[i] - knots[j - d, i], inside[i] - knots[j + 1, i]
                        value = left * previous[d - 1, i] - right * current
                        previous[d - 1, i] = current
                        if d < order:
                            current = value * inverse_width[d, j - d, i]
                        else:
                            plane[i] = value

    def contract(x, knots, inverse_width, below_edge, gradient, x_gradient):  # type: ignore[no-untyped-def]
        rows, features = x.shape
        intervals = knots.shape[0] - order - 1
        zero, one = x.dtype.type(0), x.dtype.type(1)
        inside, searched = np.empty(features, x.dtype), np.empty(features, x.dtype)
        total = np.empty(features, x.dtype)
        previous = np.empty((order, features), x.dtype)
        for row in range(rows):
            _search_values(x[row], knots[0], knots[-1], knots[intervals], below_edge, inside, searched)
            previous[:] = zero
            total[:] = zero
            for j in range(order, intervals + order):
                first = max(j - 2 * order, 0)
                is_real = one if j >= 2 * order else zero
                plane = gradient[row, first * features : (first + 1) * features]
                for i in range(features):
                    reached = searched[i] >= knots[j, i] and searched[i] < knots[j + 1, i]
                    current = inverse_width[0, j, i] if reached else zero
                    for d in range(1, order):
                        left, right = inside[i] - knots[j - d, i], inside[i] - knots[j + 1, i]
                        value = left * previous[d - 1, i] - right * current
                        previous[d - 1, i] = current
                        current = value * inverse_width[d, j - d, i]
                    total[i] += is_real * plane[i] * (previous[order - 1, i] - current)
                    previous[order - 1, i] = current
            for i in range(features):
                x_gradient[row, i] += x.dtype.type(order) * total[i]

    return compiled(expand), compiled(contract)
