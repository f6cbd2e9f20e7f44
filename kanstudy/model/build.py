"""A model from the specification of a point, or from a configuration; and how large it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from kanstudy import sizes
from kanstudy.model.kan import KAN
from kanstudy.model.mlp import MLP
from kanstudy.spec import PointSpec

_CLASSES: dict[str, type[KAN] | type[MLP]] = {"kan": KAN, "mlp": MLP}


def model_from_config(config: Mapping[str, Any], *, dtype: torch.dtype | None = None) -> KAN | MLP:
    """A model of the architecture that some model's `config` describes; its weights are drawn anew.

    Raises `ValueError` naming what is missing, unknown or bad in the configuration.
    """
    arguments = dict(config)
    model = arguments.pop("model", None)
    if model not in _CLASSES:
        raise ValueError(f"model = {model!r}: must be one of {', '.join(_CLASSES)}")
    try:
        return _CLASSES[model](**arguments, dtype=dtype)
    except TypeError as error:
        raise ValueError(f"the configuration of a {model}: {error}") from error


def build_model(point: PointSpec) -> KAN | MLP:
    """The point's model on the CPU, in its type; the same seed gives the same weights, on every rank and machine.

    The caller's random state is left as it was.
    """
    config: dict[str, Any] = {"model": point.model, "layer_widths": point.layer_widths}
    if point.model == "kan":
        config |= {"grid_size": point.grid_size, "spline_order": point.spline_order, "operator": point.operator}
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed, which would also seed the GPUs, whose state is not forked here
        torch.default_generator.manual_seed(point.seed)
        return model_from_config(config, dtype=getattr(torch, point.dtype))


def count_parameters(model: nn.Module) -> int:
    """Trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def flops_per_sample(model: KAN | MLP) -> int:
    """Floating-point operations of the matrix products in forward and backward, for one row; see `kanstudy.sizes`."""
    if isinstance(model, KAN):
        return sizes.kan_flops_per_sample(model.layer_widths, model.config["grid_size"], model.config["spline_order"])
    if isinstance(model, MLP):
        return sizes.mlp_flops_per_sample(model.layer_widths)
    raise TypeError(f"model is a {type(model).__name__}: must be a KAN or an MLP")
