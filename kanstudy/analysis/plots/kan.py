"""Pictures that explain a KAN: its basis, the functions on its edges, what it has learned.

Every function takes plain arrays and returns a figure, which a notebook shows and a script saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from kanstudy.analysis.plots.axes import legend
from kanstudy.analysis.plots.style import COLUMN, PALETTE, SMALL, STYLE, WIDTH, NotebookFigure

Array = NDArray[np.floating]

_BLUE, _ORANGE, _GREEN, _RED = PALETTE[:4]
_GREY = PALETTE[7]
_LINES = ((_BLUE, "-"), (_ORANGE, "--"), (_GREEN, "-."), (_RED, ":"))
_EDGES = 4
"""Edges beside each other."""


def plot_basis(x: Array, bases: Mapping[int, Array], grid_range: tuple[float, float]) -> Figure:
    """The basis functions of several orders, a panel each, with their sum.

    x is (points,), each basis (points, functions); the grid range is shaded.
    """
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.4), layout="constrained")
        axes = figure.subplots(1, len(bases), sharey=True, squeeze=False)[0]
        for axis, (order, basis) in zip(axes, bases.items(), strict=True):
            _shade(axis, grid_range)
            axis.plot(x, basis, color=_BLUE, linewidth=1)
            axis.plot(x, basis.sum(axis=1), color=_RED, linestyle="--", label="sum")
            axis.set(title=f"order {order}", xlabel="x", ylim=(-0.05, 1.3))
        axes[0].plot([], [], color=_BLUE, linewidth=1, label="basis functions")
        axes[0].set_ylabel("value")
        legend(figure, axes[0])
    return figure


def plot_edge_parts(x: Array, splines: Array, base: Array, target: Array, grid_range: tuple[float, float]) -> Figure:
    """One edge taken apart: its scaled basis functions (points, functions), its base term, their sum, the target."""
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.7), layout="constrained")
        parts, whole = figure.subplots(1, 2, sharex=True, sharey=True)
        parts.plot(x, splines, color=_BLUE, linewidth=1)
        parts.plot([], [], color=_BLUE, linewidth=1, label="coefficient × basis function")
        parts.plot(x, base, color=_GREEN, linestyle="-.", label="weight × base activation")
        parts.set(title="the terms of one edge", xlabel="x", ylabel="value")
        whole.plot(x, target, color=_GREY, linewidth=3, alpha=0.5, label="target")
        whole.plot(x, splines.sum(axis=1) + base, color=_RED, linestyle="--", label="their sum: the edge")
        whole.set(title="the edge", xlabel="x")
        for axis in (parts, whole):
            _shade(axis, grid_range)
        legend(figure, parts, whole, columns=4)
    return figure


def plot_edges(layers: Sequence[tuple[Array, Array]], grid_range: tuple[float, float]) -> Figure:
    """The function on every edge of a network, layer after layer.

    Each layer is a pair of x (points,) and curves (points, out, in).
    """
    most = min(_EDGES, max(curves[0].size for _, curves in layers))
    lines = [-(-curves[0].size // most) for _, curves in layers]
    with matplotlib.rc_context(STYLE):
        size = (WIDTH * most / _EDGES, 1.8 * sum(lines))
        figure = NotebookFigure(figsize=size, layout="constrained")
        axes = figure.subplots(sum(lines), most, squeeze=False)
        for depth, (x, curves) in enumerate(layers, start=1):
            own = axes[sum(lines[: depth - 1]) : sum(lines[:depth])]
            outputs, inputs = curves.shape[1:]
            for place, axis in enumerate(own.flat):
                if place >= outputs * inputs:
                    axis.set_visible(False)
                    continue
                output, source = divmod(place, inputs)
                _shade(axis, grid_range)
                axis.plot(x, curves[:, output, source], color=_BLUE)
                axis.set_xlabel("input")
                axis.set_title(f"layer {depth}: input {source + 1} to output {output + 1}", fontsize=SMALL)
            for line in own:
                line[0].set_ylabel("adds to the output")
    return figure


def plot_fields(x: Array, y: Array, fields: Mapping[str, Array], unit: str) -> Figure:
    """Functions of two variables side by side in one colour scale; each field is (len(y), len(x))."""
    low, high = min(field.min() for field in fields.values()), max(field.max() for field in fields.values())
    levels = MaxNLocator(15).tick_values(low, high)
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(WIDTH, 2.5), layout="constrained")
        axes = figure.subplots(1, len(fields), sharey=True, squeeze=False)
        for axis, (name, field) in zip(axes[0], fields.items(), strict=True):
            filled = axis.contourf(x, y, field, levels=levels, cmap="viridis")
            axis.set(title=name, xlabel="x₁", aspect="equal")
            axis.locator_params(nbins=4)
            axis.grid(visible=False)
        axes[0, 0].set_ylabel("x₂")
        figure.colorbar(filled, ax=list(axes[0])).set_label(unit)
    return figure


def plot_losses(losses: Mapping[str, Sequence[float]]) -> Figure:
    """Training losses by step, a line a model, on a logarithmic axis."""
    with matplotlib.rc_context(STYLE):
        figure = NotebookFigure(figsize=(COLUMN, 2.4), layout="constrained")
        axis = figure.subplots()
        for (name, values), (color, style) in zip(losses.items(), _LINES, strict=False):
            axis.plot(values, color=color, linestyle=style, label=name)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.set(xlabel="step", ylabel="mean squared error")
        legend(figure, axis)
    return figure


def _shade(axis: Axes, grid_range: tuple[float, float]) -> None:
    axis.axvspan(*grid_range, color=_GREY, alpha=0.12, linewidth=0)
    axis.grid(visible=False)
