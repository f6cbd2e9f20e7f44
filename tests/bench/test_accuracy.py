"""Accuracy of the basis: ours is exact to rounding, a wrong one is seen, and peers are asked in their own way."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from kanstudy.bench import accuracy
from kanstudy.bench.accuracy import NoBasis, exact_basis, max_error
from kanstudy.model.bspline import bspline_basis, uniform_knots

OWN = """
import torch
from kanstudy.model.bspline import bspline_basis, uniform_knots

class Layer(torch.nn.Module):
    def __init__(self, grid_size):
        super().__init__()
        self.grid_size = grid_size
        self.weight = torch.nn.Parameter(torch.ones(1))

    def b_splines(self, x):
        return bspline_basis(x, uniform_knots((-1, 1), self.grid_size, 3, torch.float32)[None], 3)

class Wrong(Layer):
    def b_splines(self, x):
        return 1.001 * super().b_splines(x)

class Short(Layer):
    def b_splines(self, x):
        return super().b_splines(x)[..., 1:]

def good(layers, grid_size, spline_order):
    return torch.nn.Sequential(Layer(grid_size))

def wrong(layers, grid_size, spline_order):
    return torch.nn.Sequential(Wrong(grid_size))

def short(layers, grid_size, spline_order):
    return torch.nn.Sequential(Short(grid_size))

def blank(layers, grid_size, spline_order):
    return torch.nn.Linear(1, 1)
"""


@pytest.fixture
def added(tmp_path):
    (tmp_path / "own_basis.py").write_text(OWN)
    return {name: f"{tmp_path / 'own_basis.py'}:{name}" for name in ("good", "wrong", "short", "blank")}


def test_scipys_basis_sums_to_one_up_to_both_edges():
    knots = -1 + 2 * np.arange(-3, 9) / 5
    x = np.array([-1.0, -0.4, 0.3, 1.0])
    np.testing.assert_allclose(exact_basis(x, knots).sum(axis=1), 1)
    assert not exact_basis(np.array([-1.1, 1.1]), knots).any()


@pytest.mark.parametrize("grid_size", [5, 20, 200])
@pytest.mark.parametrize("name", ["reference", "fused", "fused_moved"])
def test_our_operators_are_exact_to_rounding(name, grid_size):
    assert 0 < max_error(name, grid_size, {}) < 1e-5


def test_what_has_no_basis_says_so(added):
    for name in ("floor", "mlp", "fused_bf16"):
        with pytest.raises(NoBasis):
            max_error(name, 5, {})
    with pytest.raises(NoBasis, match="no method b_splines"):
        max_error("blank", 5, added)
    with pytest.raises(NoBasis, match="shape"):
        max_error("short", 5, added)


def test_the_users_own_layer_is_asked_for_its_b_splines_and_an_error_is_seen(added):
    assert max_error("good", 20, added) < 1e-5
    assert max_error("wrong", 20, added) == pytest.approx(0.001 * 2 / 3, rel=0.01)


class Stub(torch.nn.Module):
    """A layer as the peers', of one input, on the reference basis."""

    def __init__(self, in_features: int, out_features: int, grid_size: int) -> None:
        super().__init__()
        functions = grid_size + 3
        self.knots = uniform_knots((-1, 1), grid_size, 3, torch.float32)[None]
        self.spline_weight = torch.nn.Parameter(torch.randn(out_features, in_features, functions))
        self.base_weight = torch.nn.Parameter(torch.randn(out_features, in_features))
        self.weight = torch.nn.Parameter(torch.randn(out_features, functions + 1))


class StubInkan(Stub):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        basis = bspline_basis(x, self.knots, 3)[:, 0]
        return torch.cat([basis, torch.nn.functional.silu(x)], dim=1) @ self.weight.t()


class StubFlashkan(Stub):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        basis = bspline_basis(x, self.knots, 3)
        return torch.einsum("bin,oin->bo", basis, self.spline_weight) + x @ self.base_weight.t()


class StubPykan(Stub):
    def __init__(self, in_dim: int, out_dim: int, num: int, k: int) -> None:
        super().__init__(in_dim, out_dim, num)
        self.grid = self.knots


def test_peers_are_asked_by_what_they_publish(monkeypatch):
    for package, layer in (("inkan", StubInkan), ("flashkan", StubFlashkan), ("kan", StubPykan)):
        module = ModuleType(package)
        module.KANLayer = layer  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, package, module)
    spline = ModuleType("kan.spline")
    spline.B_batch = lambda x, grid, k: bspline_basis(x, grid, k)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kan.spline", spline)
    for name in accuracy._PEERS:
        assert 0 < max_error(name, 20, {}) < 1e-5, name
