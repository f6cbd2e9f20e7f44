"""What is trained: Kolmogorov-Arnold networks, their B-spline basis, and the MLP that they are compared with."""

from kanstudy.model.bspline import bspline_basis
from kanstudy.model.build import build_model, count_parameters, flops_per_sample, model_from_config
from kanstudy.model.checkpoint import load_checkpoint, save_checkpoint
from kanstudy.model.kan import KAN, KANLayer
from kanstudy.model.mlp import MLP, matched_mlp

__all__ = [
    "KAN",
    "MLP",
    "KANLayer",
    "bspline_basis",
    "build_model",
    "count_parameters",
    "flops_per_sample",
    "load_checkpoint",
    "matched_mlp",
    "model_from_config",
    "save_checkpoint",
]
