"""Models on disk: the configuration inside the file, written atomically, read without executing anything."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import torch

from kanstudy.files import write_atomically
from kanstudy.model.bspline import check_knots
from kanstudy.model.build import model_from_config
from kanstudy.model.kan import KAN, KANLayer, float_type
from kanstudy.model.mlp import MLP

_FORMAT = "kanstudy checkpoint 1"


def save_checkpoint(model: KAN | MLP, path: Path | str) -> None:
    """Write the model's configuration, type, parameters and grids; a reader sees the old file or the new, never a part.

    Raises `TypeError` for anything but a float32 or float64 KAN or MLP (of DDP, pass its `module`), `OSError` where
    writing fails.
    """
    if not isinstance(model, KAN | MLP):
        raise TypeError(f"model is a {type(model).__name__}: must be a KAN or an MLP (of DDP, its module)")
    content = {
        "format": _FORMAT,
        "config": model.config,
        "dtype": str(float_type(next(model.parameters()).dtype)).removeprefix("torch."),
        "state_dict": model.state_dict(),
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomically(Path(path), buffer.getvalue())


def load_checkpoint(path: Path | str, operator: str | None = None) -> KAN | MLP:
    """The model that `save_checkpoint` wrote, on the CPU; a KAN by another operator where one is named, since the one
    that it was built with may not work here.

    Raises `ValueError` naming the file where it is no such checkpoint, or a parameter or grid is missing, unknown, of
    another shape or unusable; `OSError` where it cannot be read.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: not a checkpoint of kanstudy: {error}") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path}: not a checkpoint of kanstudy")
    try:
        config = content["config"] | ({} if operator is None else {"operator": operator})
        model = model_from_config(config, dtype=getattr(torch, content["dtype"]))
        model.load_state_dict(content["state_dict"], strict=True)
        for layer in model.modules():
            if isinstance(layer, KANLayer):
                check_knots(layer.knots, layer.spline_order)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: {error}") from error
    return model
