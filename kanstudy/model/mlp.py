"""The control experiment: a multilayer perceptron as deep as a KAN and with nearly as many parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from kanstudy.model.kan import KAN, activation_name, float_type
from kanstudy.model.reference import ACTIVATIONS, Activation
from kanstudy.sizes import matched_hidden_width, matched_layer_widths, widths


class MLP(nn.Module):
    """x (..., layer_widths[0]) to (..., layer_widths[-1]): linear layers with biases, the activation between them.

    `config` is the dictionary of JSON values that builds the same architecture again. Raises `ValueError` naming a
    bad argument, `TypeError` for a dtype other than float32 and float64.
    """

    def __init__(
        self,
        layer_widths: Sequence[int],
        activation: str | Activation = "silu",
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.layer_widths = widths(layer_widths)
        self.activation = activation_name("activation", activation)
        dtype = float_type(dtype)
        self.layers = nn.ModuleList(
            nn.Linear(before, after, dtype=dtype, device=device) for before, after in pairwise(self.layer_widths)
        )
        self.config: dict[str, Any] = {
            "model": "mlp",
            "layer_widths": list(self.layer_widths),
            "activation": self.activation,
        }

    def forward(self, x: Tensor) -> Tensor:
        """x (..., layer_widths[0]) to (..., layer_widths[-1])."""
        *hidden, last = self.layers
        for layer in hidden:
            x = ACTIVATIONS[self.activation](layer(x))
        return last(x)


def matched_mlp(
    kan: KAN | Mapping[str, Any], *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> tuple[MLP, int]:
    """The MLP nearest in parameters to a KAN, or to a KAN's `config`, and how many parameters it has more.

    Same inputs, outputs and depth, all hidden widths equal; see `kanstudy.sizes.matched_hidden_width`. `ValueError`
    where the KAN has no hidden layer, `TypeError` for anything but a KAN or its configuration.
    """
    config = kan.config if isinstance(kan, KAN) else kan
    if not isinstance(config, Mapping) or config.get("model") != "kan":
        raise TypeError(f"kan = {kan!r}: must be a KAN or the configuration of one")
    size = (config["layer_widths"], config["grid_size"], config["spline_order"])
    mlp = MLP(matched_layer_widths(*size), dtype=dtype, device=device)
    return mlp, matched_hidden_width(*size).difference
