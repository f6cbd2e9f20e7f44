"""Who takes part: this package's operators, the floor, the MLP control, other packages' layers and the user's own.

All train the same task in the same way: float32, mean squared error, Adam, cubic splines on a grid of 5 intervals.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from kanstudy.bench_record import FLOOR, GRID_SIZE, LEARNING_RATE, SPLINE_ORDER, Shape
from kanstudy.model import KAN, KANLayer, matched_mlp
from kanstudy.model.operators import resolve_operator

Widths = tuple[int, ...]
MOVED_SHARE = 0.2
"""How far, in knot spacings, the moved grid's knots lie from uniform ones at most."""


class Trained(Protocol):
    """What is timed: one training step after another on the same batch."""

    n_params: int

    def step(self) -> Tensor:
        """One training step; the loss before it."""


class Training:
    """A model in training: zero_grad, forward, mean squared error, backward, Adam step."""

    def __init__(self, module: nn.Module, shape: Shape, seed: int, autocast: bool = False) -> None:
        self.module, self.autocast = module, autocast
        self.x, self.y = task(shape, seed)
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.n_params = sum(parameter.numel() for parameter in parameters)
        self.optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)

    def step(self) -> Tensor:
        """One training step; the loss before it. Only the module runs under autocast."""
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16) if self.autocast else nullcontext():
            prediction = self.module(self.x)
        if prediction.shape != self.y.shape:  # the loss would stretch it to fit
            raise ValueError(f"its output has shape {tuple(prediction.shape)}, not {tuple(self.y.shape)}")
        loss = functional.mse_loss(prediction.float(), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Floor:
    """The matrix products of a KAN's training step and its Adam step, and nothing else.

    Of a layer with weight W (out, terms·in), on its expansion E (batch, terms·in), stored and ready, and the gradient
    G (batch, out) of its output, given: the forward product E Wᵀ, the weight's gradient Gᵀ E, and for all layers
    but the first the expansion's gradient G W. Every product is written to memory that is there already; neither
    basis, activation, loss, autograd nor allocation is part of the step.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        torch.manual_seed(seed)
        model = KAN(shape.layer_widths, GRID_SIZE, SPLINE_ORDER)
        self.layers = [layer for layer in model.layers if isinstance(layer, KANLayer)]
        self.weights = [layer.weight for layer in self.layers]
        self.n_params = sum(weight.numel() for weight in self.weights)
        self.optimizer = torch.optim.Adam(self.weights, lr=LEARNING_RATE)
        self.batch_size = shape.batch_size
        self._stored: list[tuple[Tensor, Tensor, Tensor]] = []
        self._expansion_gradient = torch.empty(0)

    @torch.no_grad()
    def step(self) -> Tensor:
        """One step; zero in place of a loss. The first one also makes what is stored."""
        if not self._stored:
            self._store()
        for weight, (expansion, _, output) in zip(self.weights, self._stored, strict=True):
            torch.mm(expansion, weight.t(), out=output)
        for place, (weight, (expansion, gradient, _)) in reversed(
            list(enumerate(zip(self.weights, self._stored, strict=True)))
        ):
            torch.mm(gradient.t(), expansion, out=weight.grad)
            if place > 0:
                scratch = self._expansion_gradient[: expansion.numel()].view_as(expansion)
                torch.mm(gradient, weight, out=scratch)
        self.optimizer.step()
        return torch.zeros(())

    def _store(self) -> None:
        for layer, weight in zip(self.layers, self.weights, strict=True):
            expansion = layer.expansion(torch.rand(self.batch_size, layer.in_features) * 2 - 1)
            gradient = torch.randn(self.batch_size, layer.out_features) / self.batch_size
            self._stored.append((expansion, gradient, torch.empty_like(gradient)))
            weight.grad = torch.zeros_like(weight)
        self._expansion_gradient = torch.empty(max(stored[0].numel() for stored in self._stored[1:]))


def start(name: str, shape: Shape, seed: int, added: Mapping[str, str]) -> Trained:
    """The candidate at the start of its training; candidates of one kind have the same weights.

    Raises whatever another package raises, `ImportError` where it is not installed.
    """
    if name == FLOOR:
        return Floor(shape, seed)
    torch.manual_seed(seed)
    return Training(build(name, shape.layer_widths, GRID_SIZE, added), shape, seed, autocast=name == "fused_bf16")


def build(name: str, layer_widths: Widths, grid_size: int, added: Mapping[str, str]) -> nn.Module:
    """The candidate's model, of cubic splines on `grid_size` intervals from -1 to 1."""
    if name in added:
        return loaded(added[name])(list(layer_widths), grid_size=grid_size, spline_order=SPLINE_ORDER)
    return _BUILDERS[name](layer_widths, grid_size)


def task(shape: Shape, seed: int) -> tuple[Tensor, Tensor]:
    """A batch to learn: x uniform in [-1, 1], (batch, in), and smooth functions of it, (batch, out)."""
    generator = torch.Generator().manual_seed(seed)
    features, outputs = shape.layer_widths[0], shape.layer_widths[-1]
    x = torch.rand(shape.batch_size, features, generator=generator) * 2 - 1
    directions = torch.randn(features, outputs, generator=generator) / features**0.5
    return x, torch.sin(torch.pi * (x @ directions))


def loaded(source: str) -> Callable[..., nn.Module]:
    """The class that `FILE.py:CLASS` names; its file may import its neighbours."""
    file, _, name = source.rpartition(":")
    path = Path(file).resolve()
    spec = importlib.util.spec_from_file_location(f"kanstudy_added_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return getattr(module, name)


def _kan(operator: str) -> Callable[[Widths, int], nn.Module]:
    def build(layer_widths: Widths, grid_size: int) -> nn.Module:
        try:
            resolve_operator(operator, "cpu", SPLINE_ORDER)
        except ValueError as error:
            raise ImportError(str(error)) from error  # what it needs is not installed
        return KAN(layer_widths, grid_size, SPLINE_ORDER, operator=operator)

    return build


def _moved(layer_widths: Widths, grid_size: int) -> nn.Module:
    """The fused operator on knots that are not uniform, each feature's own."""
    model = _kan("fused")(layer_widths, grid_size)
    for layer in model.modules():
        if isinstance(layer, KANLayer):
            layer.knots += MOVED_SHARE * 2 / grid_size * (torch.rand_like(layer.knots) * 2 - 1)
    return model


def _mlp(layer_widths: Widths, grid_size: int) -> nn.Module:
    config = {"model": "kan", "layer_widths": layer_widths, "grid_size": grid_size, "spline_order": SPLINE_ORDER}
    return matched_mlp(config)[0]


def _network(package: str) -> Callable[[Widths, int], nn.Module]:
    def build(layer_widths: Widths, grid_size: int) -> nn.Module:
        network: Any = importlib.import_module(package).KANNetwork
        return network(list(layer_widths), grid_size=grid_size, spline_order=SPLINE_ORDER)

    return build


def _pykan(layer_widths: Widths, grid_size: int) -> nn.Module:
    """As its authors advise for training: `speed()`, without the symbolic branch and stored activations."""
    model: Any = importlib.import_module("kan").KAN
    return model(width=list(layer_widths), grid=grid_size, k=SPLINE_ORDER, auto_save=False).speed()


_BUILDERS: dict[str, Callable[[Widths, int], nn.Module]] = {
    "fused": _kan("fused"),
    "fused_bf16": _kan("fused"),
    "fused_moved": _moved,
    "compiled": _kan("compiled"),
    "reference": _kan("reference"),
    "mlp": _mlp,
    "inkan": _network("inkan"),
    "flashkan": _network("flashkan"),
    "pykan": _pykan,
}
