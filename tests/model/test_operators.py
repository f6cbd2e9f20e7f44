"""Which operator is chosen where, what is said when the best is not there, and the compiled one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kanstudy
from kanstudy.model import KAN, KANLayer, operators
from kanstudy.model.operators import operator_named, resolve_operator
from kanstudy.model.reference import kan_linear
from kanstudy.spec import OPERATORS


def test_the_specification_knows_the_same_operators():
    assert OPERATORS[0] == "auto"
    assert {name for names in operators._BEST_FIRST.values() for name in names} == set(OPERATORS[1:])
    for name in OPERATORS[1:]:
        assert callable(operator_named(name))
    assert operator_named("reference") is kan_linear


@pytest.mark.filterwarnings("ignore:operator auto")
def test_auto_is_the_fastest_that_works():
    assert resolve_operator("auto") == "fused"
    assert resolve_operator("auto", "cpu", 1) == "fused"
    assert resolve_operator("auto", "meta") == "reference"
    assert resolve_operator("auto", "mps") == "reference"
    assert resolve_operator("auto", "cuda") in ("compiled", "reference")
    assert resolve_operator("auto", "cpu", 0) in ("compiled", "reference")
    assert "fused" not in operators._BEST_FIRST["cuda"]


@pytest.mark.parametrize("name", ["magic", "", None, 3, ["fused"]])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match=r"operator = .*must be one of auto, reference, compiled, fused"):
        resolve_operator(name)


@pytest.mark.parametrize(
    ("name", "device", "order", "reason"),
    [
        ("fused", "cuda", 3, "works on the CPU, not on cuda"),
        ("fused", "meta", 3, "works on the CPU, not on meta"),
        ("fused", "cpu", 0, "no spline order 0"),
        ("compiled", "meta", 3, "works on cpu and cuda, not on meta"),
    ],
)
def test_what_does_not_work_here_is_refused_with_the_reason(name, device, order, reason):
    with pytest.raises(ValueError, match=f"operator = '{name}': .*{reason}; use auto or reference"):
        resolve_operator(name, device, order)


def test_the_operator_follows_the_layer():
    model = KAN([3, 2])
    assert model.operator == "fused"
    assert "operator='fused'" in repr(model)
    model.to("meta")
    assert model.operator == "reference"
    assert "operator='reference'" in repr(model)
    assert model(torch.empty(5, 3, device="meta")).shape == (5, 2)


USE = """
import os, sys, warnings
for name in filter(None, sys.argv[1].split(",")):
    sys.modules[name] = None  # importing it fails
import torch
from kanstudy.model import KAN
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    models = [KAN([3, 4, 1], spline_order=order) for order in (3, 3, 2, 1, 0)]
    print(*(model.operator for model in models))
    if models[0].operator == "reference":
        for model in models:
            model(torch.rand(5, 3)).sum().backward()
print(*(str(item.message) for item in caught), sep="|")
for name in ("fused", "compiled"):
    try:
        KAN([2, 1], operator=name)
        print("works")
    except ValueError as error:
        print(error)
"""


def outcome(missing, **environment):
    done = subprocess.run(
        [sys.executable, "-c", USE, missing],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_without_numba_or_a_compiler_one_warning_and_the_next_best():
    chosen, warned, fused, compiled = outcome("numba", CXX="/nowhere/g++")
    assert chosen.split() == ["reference"] * 5
    said = warned.split("|")
    assert "operator auto: reference, since for fused numba cannot be imported (pip install numba)" in said
    # for order 0, which fused has not, compiling would be the fastest
    assert len(said) == 2
    assert "no compiler /nowhere/g++" in said[1]
    assert "operator = 'fused': numba cannot be imported (pip install numba); use auto or reference" in fused
    assert "operator = 'compiled': there is no compiler /nowhere/g++" in compiled


def compiler(folder, script):
    """A program that stands for one."""
    program = folder / "c++"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_without_numba_alone_the_reference_is_compiled(tmp_path):
    chosen, warned, fused, compiled = outcome("numba", CXX=compiler(tmp_path, "exit 0"))
    assert compiled == "works"
    assert chosen.split() == ["compiled"] * 5
    assert warned == "operator auto: compiled, since for fused numba cannot be imported (pip install numba)"
    assert "pip install numba" in fused


def test_a_compiler_that_cannot_compile_is_none(tmp_path):
    old = compiler(tmp_path, "echo 'c++: error: unrecognized option' >&2; exit 1")
    chosen, warned, _, compiled = outcome("numba", CXX=old)
    assert chosen.split() == ["reference"] * 5
    assert "numba cannot be imported" in warned
    assert "operator = 'compiled': the compiler" in compiled
    assert compiled.endswith("(CXX names another): c++: error: unrecognized option; use auto or reference")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemError('initialization of _internal failed')", "SystemError: initialization of _internal failed"),
        ("import numpy; numpy.long_ago", "AttributeError: module 'numpy' has no attribute 'long_ago'"),
    ],
)
def test_a_broken_numba_is_as_good_as_none(tmp_path, source, said):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), str(Path(kanstudy.__file__).parents[1])])
    chosen, warned, fused, _ = outcome("", PYTHONPATH=path, CXX="/nowhere/g++")
    assert chosen.split() == ["reference"] * 5
    assert "since for fused numba does not work: " in warned
    assert said in warned
    assert said in fused


def test_a_numba_that_must_not_compile_is_not_used():
    chosen, warned, fused, _ = outcome("", NUMBA_DISABLE_JIT="1", CXX="/nowhere/g++")
    assert chosen.split() == ["reference"] * 5
    assert "NUMBA_DISABLE_JIT is set" in warned
    assert "NUMBA_DISABLE_JIT is set" in fused


def test_nothing_is_said_where_nothing_is_missing():
    chosen, warned, fused, _ = outcome("nothing")
    assert chosen.split()[:4] == ["fused"] * 4
    assert "numba" not in warned
    assert fused == "works"


@pytest.fixture
def counted_compilations(monkeypatch):
    """torch.compile without a C++ compiler, on a fresh function; counts what dynamo hands to the backend."""
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compile_function = torch.compile
    monkeypatch.setattr(operators.torch, "compile", lambda function: compile_function(function, backend=backend))
    operators._compiled_reference.cache_clear()
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=8):  # torch's own, whatever was compiled before
        yield graphs
    operators._compiled_reference.cache_clear()
    torch._dynamo.reset()


@pytest.mark.slow
def test_many_different_layers_are_all_compiled(counted_compilations, monkeypatch):
    monkeypatch.setattr(operators, "_missing", lambda *_: None)
    uncompiled = []
    monkeypatch.setattr("kanstudy.model.reference.basis_reference", watched(uncompiled))
    for order in (1, 3):
        for features, outputs, grid_size in ((3, 4, 5), (4, 2, 7), (1, 1, 3)):
            for dtype in (torch.float32, torch.float64):
                layer = KANLayer(features, outputs, grid_size, order, operator="compiled", dtype=dtype)
                x = torch.rand(5, features, dtype=dtype)
                expected = kan_linear(x, layer.knots, layer.weight, order, "silu")
                uncompiled.clear()
                torch.testing.assert_close(layer(x), expected)
                assert not uncompiled, (order, features, dtype)
    assert len(counted_compilations) > 8


def watched(calls):
    from kanstudy.model.bspline import basis_reference

    def basis(x, knots, spline_order):
        if not torch.compiler.is_compiling():
            calls.append(spline_order)
        return basis_reference(x, knots, spline_order)

    return basis


@pytest.mark.slow
def test_compiled_equals_the_reference():
    try:
        resolve_operator("compiled")
    except ValueError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    model, truth = (KAN([3, 4, 2], spline_order=2, operator=name) for name in ("compiled", "reference"))
    truth.load_state_dict(model.state_dict())
    x = 1.5 * torch.randn(50, 3)
    x[3, 1] = torch.nan
    outcomes = []
    for network in (model, truth):
        own = x.clone().requires_grad_()
        y = network(own)
        y[4:].pow(2).sum().backward()
        outcomes.append([y, own.grad[4:], *(parameter.grad for parameter in network.parameters())])
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
