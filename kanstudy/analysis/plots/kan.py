"""Pictures that explain a KAN: its basis, the functions on its edges, what it has learned.

Every function takes plain arrays and returns a closed matplotlib figure, which a notebook shows and a script saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

Array = NDArray[np.floating]

# Okabe and Ito's colours, which colour-blind readers tell apart
_BLUE, _ORANGE, _GREEN, _PURPLE, _GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#767676"
_LINES = ((_BLUE, "-"), (_ORANGE, "--"), (_GREEN, "-."), (_PURPLE, ":"))


def plot_basis(x: Array, bases: Mapping[int, Array], grid_range: tuple[float, float]) -> Figure:
    """The basis functions of several orders, a panel each, with their sum.

    x is (points,), each basis (points, functions); the grid range is shaded.
    """
    figure, axes = plt.subplots(1, len(bases), figsize=(2.6 * len(bases), 2.4), sharey=True, layout="constrained")
    for axis, (order, basis) in zip(np.atleast_1d(axes), bases.items(), strict=True):
        _shade(axis, grid_range)
        axis.plot(x, basis, color=_BLUE, linewidth=1)
        axis.plot(x, basis.sum(axis=1), color=_ORANGE, linestyle="--", linewidth=1.2, label="sum")
        axis.set(title=f"order {order}", xlabel="x", ylim=(-0.05, 1.3))
    np.atleast_1d(axes)[0].set_ylabel("basis functions")
    np.atleast_1d(axes)[-1].legend(frameon=False, loc="upper right")
    return _closed(figure)


def plot_edge_parts(x: Array, splines: Array, base: Array, target: Array, grid_range: tuple[float, float]) -> Figure:
    """One edge taken apart: its scaled basis functions (points, functions), its base term, their sum, the target."""
    figure, (parts, whole) = plt.subplots(1, 2, figsize=(6.6, 2.6), sharex=True, sharey=True, layout="constrained")
    parts.plot(x, splines, color=_BLUE, linewidth=1)
    parts.plot([], [], color=_BLUE, linewidth=1, label="coefficient × basis function")
    parts.plot(x, base, color=_GREEN, linestyle="-.", label="weight × base activation")
    parts.set(title="the terms of one edge", xlabel="x")
    whole.plot(x, target, color=_GREY, linewidth=3, alpha=0.5, label="target")
    whole.plot(x, splines.sum(axis=1) + base, color=_ORANGE, linestyle="--", label="their sum: the edge")
    whole.set(title="the edge", xlabel="x")
    for axis in (parts, whole):
        _shade(axis, grid_range)
        axis.legend(frameon=False, fontsize="small")
    return _closed(figure)


def plot_edges(layers: Sequence[tuple[Array, Array]], grid_range: tuple[float, float]) -> Figure:
    """The function on every edge of a network, a row a layer.

    Each layer is a pair of x (points,) and curves (points, out, in).
    """
    columns = max(curves[0].size for _, curves in layers)
    size = (2.4 * columns, 2.1 * len(layers))
    figure, axes = plt.subplots(len(layers), columns, figsize=size, squeeze=False, layout="constrained")
    for depth, ((x, curves), row) in enumerate(zip(layers, axes, strict=True), start=1):
        outputs, inputs = curves.shape[1:]
        for place, axis in enumerate(row):
            if place >= outputs * inputs:
                axis.set_axis_off()
                continue
            output, source = divmod(place, inputs)
            _shade(axis, grid_range)
            axis.plot(x, curves[:, output, source], color=_BLUE)
            axis.set_title(f"layer {depth}: input {source + 1} to output {output + 1}", fontsize="small")
            axis.set(xlabel="input" if depth == len(layers) else "", ylabel="" if place else "adds to the output")
    return _closed(figure)


def plot_fields(x: Array, y: Array, fields: Mapping[str, Array]) -> Figure:
    """Functions of two variables side by side in one colour scale; each field is (len(y), len(x))."""
    low, high = min(field.min() for field in fields.values()), max(field.max() for field in fields.values())
    levels = MaxNLocator(15).tick_values(low, high)
    size = (2.5 * len(fields) + 0.6, 2.6)
    figure, axes = plt.subplots(1, len(fields), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, (name, field) in zip(axes[0], fields.items(), strict=True):
        filled = axis.contourf(x, y, field, levels=levels, cmap="viridis")
        axis.set(title=name, xlabel="$x_1$", aspect="equal")
    axes[0, 0].set_ylabel("$x_2$")
    figure.colorbar(filled, ax=list(axes[0]))
    return _closed(figure)


def plot_losses(losses: Mapping[str, Sequence[float]]) -> Figure:
    """Training losses by step, a line a model, on a logarithmic axis."""
    figure, axis = plt.subplots(figsize=(3.6, 2.6), layout="constrained")
    for (name, values), (color, style) in zip(losses.items(), _LINES, strict=False):
        axis.plot(values, color=color, linestyle=style, label=name)
    axis.set(xlabel="step", ylabel="mean squared error", yscale="log")
    axis.legend(frameon=False)
    return _closed(figure)


def _shade(axis: Axes, grid_range: tuple[float, float]) -> None:
    axis.axvspan(*grid_range, color=_GREY, alpha=0.12, linewidth=0)


def _closed(figure: Figure) -> Figure:
    """Out of pyplot's hands, or a notebook would show it twice and a long session would keep it."""
    plt.close(figure)
    return figure
