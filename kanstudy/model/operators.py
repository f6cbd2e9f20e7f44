"""The operators that compute a KAN layer, and which of them works where.

`reference` is plain PyTorch and works everywhere. `fused` is for CPUs, needs numba and a spline order of 1 or more.
`compiled` is the reference through torch.compile: for GPUs, and for CPUs with a C++ compiler.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sysconfig
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from kanstudy.model.reference import kan_linear
from kanstudy.spec import OPERATORS

Operator = Callable[[Tensor, Tensor, Tensor, int, str], Tensor]
"""x (..., in), knots (in, m), weight, spline_order, base_activation to (..., out), as `reference.kan_linear`."""

_BEST_FIRST = {"cpu": ("fused", "compiled", "reference"), "cuda": ("compiled", "reference")}


def resolve_operator(name: str, device: str = "cpu", spline_order: int = 3) -> str:
    """The operator that `name` stands for on a type of device: `auto` is the fastest that works there.

    Raises `ValueError` for an unknown name, and for an operator that does not work here, with the reason. `auto`
    warns once where the fastest lacks something that could be installed.
    """
    if not isinstance(name, str) or name not in OPERATORS:
        raise ValueError(f"operator = {name!r}: must be one of {', '.join(OPERATORS)}")
    if name == "auto":
        return _fastest(device, spline_order)
    obstacle = _unsuitable(name, device, spline_order) or _missing(name, device)
    if obstacle:
        raise ValueError(f"operator = {name!r}: {obstacle}; use auto or reference")
    return name


def operator_named(name: str) -> Operator:
    """The function of a resolved operator."""
    return {"reference": kan_linear, "compiled": _compiled, "fused": _fused}[name]


@cache
def _fastest(device: str, spline_order: int) -> str:
    best = None
    for name in _BEST_FIRST.get(device, ("reference",)):
        if _unsuitable(name, device, spline_order):
            continue
        best = best or name
        if not _missing(name, device):
            if name != best:
                _warn_once(f"operator auto: {name}, since for {best} {_missing(best, device)}")
            return name
    raise AssertionError("the reference works everywhere")


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _unsuitable(name: str, device: str, spline_order: int) -> str | None:
    """Why the operator is not made for this, None where it is."""
    if name == "fused" and device != "cpu":
        return f"works on the CPU, not on {device}"
    if name == "fused" and spline_order == 0:
        return "has no spline order 0"
    if name == "compiled" and device not in _BEST_FIRST:
        return f"works on {' and '.join(_BEST_FIRST)}, not on {device}"
    return None


@cache
def _missing(name: str, device: str) -> str | None:
    """What the operator lacks on this machine, None where it lacks nothing."""
    if name == "fused":
        error = _import_error("kanstudy.model.fused")
        if isinstance(error, ModuleNotFoundError):
            return "numba cannot be imported (pip install numba)"
        return f"numba does not work: {type(error).__name__}: {error}" if error else None
    if name == "compiled" and device == "cuda" and _import_error("triton"):
        return "triton cannot be imported"
    if name == "compiled":
        return _compilers_fault("CXX" if device == "cpu" else "CC")
    return None


@cache
def _import_error(module: str) -> Exception | None:
    """What importing it raises: a broken installation may raise anything, as numba's does beside a foreign numpy."""
    try:
        importlib.import_module(module)
    except Exception as error:
        return error
    return None


@cache
def _compilers_fault(variable: str) -> str | None:
    """Why the compiler that an environment variable names, or the usual one, is of no use to torch.compile.

    It is tried: an old one is often there and lacks the standard that torch asks for.
    """
    from torch._inductor.cpp_builder import _get_cpp_std_cflag

    usual, language, flags = {
        "CXX": ("g++", "c++", [f"-{flag}" for flag in _get_cpp_std_cflag()]),
        "CC": ("gcc", "c", []),
    }[variable]
    compiler = os.environ.get(variable, usual)
    if not shutil.which(compiler):
        return f"there is no compiler {compiler} ({variable} names another)"
    command = [compiler, *flags, "-fsyntax-only", "-x", language, f"-I{sysconfig.get_path('include')}", "-"]
    try:
        tried = subprocess.run(command, input="#include <Python.h>\n", capture_output=True, text=True, timeout=60)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"the compiler {compiler} does not work ({variable} names another): {error}"
    if tried.returncode:
        said = next((line for line in tried.stderr.splitlines() if "error" in line), f"exit code {tried.returncode}")
        return f"the compiler {compiler} cannot do {' '.join(command[1:])} ({variable} names another): {said}"
    return None


def _compiled(x: Tensor, knots: Tensor, weight: Tensor, spline_order: int, base_activation: str) -> Tensor:
    if x.dim() > 1:
        # one code for every batch size: else the first size would get code of its own, and times could not be compared
        torch._dynamo.maybe_mark_dynamic(x, 0)
    return _compiled_reference()(x, knots, weight, spline_order, base_activation)


@cache
def _compiled_reference() -> Operator:
    # all layers of a process share one function, each order, activation, type and grad mode compiled apart; beyond
    # torch's usual 8 it would go on uncompiled
    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, limits.accumulated_recompile_limit)
    return torch.compile(kan_linear)


def _fused(x: Tensor, knots: Tensor, weight: Tensor, spline_order: int, base_activation: str) -> Tensor:
    from kanstudy.model.fused import kan_linear_fused  # only where numba is there

    return kan_linear_fused(x, knots, weight, spline_order, base_activation)
