"""Who takes part in the benchmark: each trains, and the floor does a KAN's products and no others."""

from __future__ import annotations

import pytest
import torch

from kanstudy.bench import candidates
from kanstudy.bench.candidates import Floor, Training, build, loaded, start
from kanstudy.bench_record import Shape
from kanstudy.model import KAN
from kanstudy.sizes import kan_parameters

SHAPE = Shape((5, 4, 2), 32)
OWN = """
import torch
from neighbour import SCALE

class KAN(torch.nn.Module):
    def __init__(self, layers_hidden, grid_size=1, spline_order=1):
        super().__init__()
        assert (grid_size, spline_order) == (5, 3)
        self.linear = torch.nn.Linear(layers_hidden[0], layers_hidden[-1])

    def forward(self, x):
        return SCALE * self.linear(x)
"""


@pytest.fixture
def own_layer(tmp_path):
    (tmp_path / "neighbour.py").write_text("SCALE = 1.0")
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:KAN"


@pytest.mark.parametrize("name", ["reference", "fused", "fused_bf16", "fused_moved", "mlp", "own"])
def test_every_candidate_learns_the_task(name, own_layer):
    trained = start(name, SHAPE, 0, {"own": own_layer})
    first = float(trained.step())
    for _ in range(60):
        last = float(trained.step())
    assert last < 0.95 * first
    assert trained.n_params > 0


def test_operators_start_from_the_same_weights_and_the_peers_do_not_matter():
    reference, fused = (start(name, SHAPE, 3, {}) for name in ("reference", "fused"))
    assert float(reference.step()) == pytest.approx(float(fused.step()), rel=1e-5)
    other = start("reference", SHAPE, 4, {})
    assert float(other.step()) != pytest.approx(float(start("reference", SHAPE, 3, {}).step()), rel=1e-3)


def test_only_the_bfloat16_candidate_rounds_its_products():
    exact, rounded = start("fused", SHAPE, 0, {}), start("fused_bf16", SHAPE, 0, {})
    assert isinstance(exact, Training)
    assert isinstance(rounded, Training)
    assert (exact.autocast, rounded.autocast) == (False, True)
    first = float(exact.step())
    assert 0 < abs(first - float(rounded.step())) < 0.05 * first


def test_the_moved_grid_is_not_uniform_and_still_ascends():
    for layer in build("fused_moved", (3, 2, 1), 5, {}).layers:  # type: ignore[union-attr]
        widths = layer.knots.diff()
        assert (widths > 0).all()
        assert float(widths.std()) > 0.01


def test_the_floor_multiplies_what_a_kan_multiplies_and_steps_adam():
    floor = Floor(SHAPE, 0)
    assert floor.n_params == kan_parameters(SHAPE.layer_widths, 5, 3)
    torch.manual_seed(0)
    before = [layer.weight.detach().clone() for layer in KAN(SHAPE.layer_widths, 5, 3).layers]
    floor.step()
    assert len(floor._stored) == 2
    for weight, old, (expansion, gradient, output) in zip(floor.weights, before, floor._stored, strict=True):
        torch.testing.assert_close(output, expansion @ old.t())
        torch.testing.assert_close(weight.grad, gradient.t() @ expansion)
        assert not torch.equal(weight, old)
    expansion, gradient, _ = floor._stored[1]
    scratch = floor._expansion_gradient[: expansion.numel()].view_as(expansion)
    torch.testing.assert_close(scratch, gradient @ before[1])


def test_the_floor_multiplies_nothing_else():
    floor = Floor(SHAPE, 0)
    floor.step()
    with torch.profiler.profile() as profiler:
        floor.step()
    names = [event.name for event in profiler.events()]
    assert names.count("aten::mm") == 5  # two layers forward, two weights, one input
    assert not {"aten::silu", "aten::bmm", "aten::addmm", "aten::linear", "aten::mse_loss"} & set(names)


def test_a_class_that_is_not_there_and_a_file_that_raises_say_so(tmp_path, own_layer):
    with pytest.raises(AttributeError, match="Nothing"):
        loaded(own_layer.replace(":KAN", ":Nothing"))
    (tmp_path / "bad.py").write_text("raise RuntimeError('no such device')")
    with pytest.raises(RuntimeError, match="no such device"):
        loaded(f"{tmp_path / 'bad.py'}:KAN")


def test_an_operator_that_lacks_something_is_absent_not_broken(monkeypatch):
    def refuse(*_: object) -> str:
        raise ValueError("operator = 'compiled': there is no compiler")

    monkeypatch.setattr(candidates, "resolve_operator", refuse)
    with pytest.raises(ImportError, match="there is no compiler"):
        build("compiled", (2, 2, 1), 5, {})


def test_an_output_that_the_loss_would_stretch_is_refused():
    training = Training(torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.Flatten(0)), SHAPE, 0)
    with pytest.raises(ValueError, match=r"its output has shape \(64,\), not \(32, 2\)"):
        training.step()
    training = Training(torch.nn.Linear(5, 1), SHAPE, 0)  # which would only warn
    with pytest.raises(ValueError, match=r"its output has shape \(32, 1\), not \(32, 2\)"):
        training.step()
