from __future__ import annotations

import numpy as np

from kanstudy.analysis.plots import kan

X = np.linspace(-1.5, 1.5, 31)
RANGE = (-1.0, 1.0)


def drawn(axis):
    return [line.get_ydata() for line in axis.lines if len(line.get_xdata())]


def test_basis_has_a_panel_an_order_and_the_sum(tmp_path):
    bases = {1: np.random.default_rng(0).random((31, 4)), 3: np.ones((31, 6))}
    figure = kan.plot_basis(X, bases, RANGE)
    assert [axis.get_title() for axis in figure.axes] == ["order 1", "order 3"]
    assert [len(drawn(axis)) for axis in figure.axes] == [5, 7]
    np.testing.assert_allclose(drawn(figure.axes[0])[-1], bases[1].sum(axis=1))
    figure.savefig(tmp_path / "basis.png")
    assert kan.plot_basis(X, {0: np.ones((31, 5))}, RANGE).axes


def test_edge_parts_add_up():
    splines, base, target = np.ones((31, 3)), np.full(31, 0.5), np.zeros(31)
    parts, whole = kan.plot_edge_parts(X, splines, base, target, RANGE).axes
    assert len(drawn(parts)) == 4
    np.testing.assert_allclose(drawn(whole)[1], 3.5)


def test_edges_are_drawn_in_their_place():
    first = np.stack([np.full((31, 3), 10.0 * o) + np.arange(3) for o in range(2)], axis=1)
    second = np.full((31, 1, 2), 7.0)
    figure = kan.plot_edges([(X, first), (X, second)], RANGE)
    shown = {axis.get_title(): drawn(axis)[0][0] for axis in figure.axes if axis.get_title()}
    assert len(shown) == 8
    assert shown["layer 1: input 3 to output 2"] == 12.0
    assert shown["layer 2: input 2 to output 1"] == 7.0


def test_fields_share_one_scale():
    fields = {"target": np.outer(X, X), "KAN": 3 * np.outer(X, X)}
    figure = kan.plot_fields(X, X, fields, "value")
    limits = {axis.collections[0].get_clim() for axis in figure.axes[:2]}
    assert len(limits) == 1
    low, high = limits.pop()
    assert low <= -6.75 < 6.75 <= high


def test_losses_are_told_apart():
    (axis,) = kan.plot_losses({"KAN": [1.0, 0.1], "MLP": [1.0, 0.5]}).axes
    assert axis.get_yscale() == "log"
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines}) == 2
