"""Which room may import what: arrows run one way, and planning, reading and plotting stay quick on a login node."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kanstudy"
COMMON = {
    "network_words",
    "spec",
    "run_spec",
    "injection",
    "emulated_link",
    "stopping",
    "record",
    "record_files",
    "bench_record",
    "strict_json",
    "files",
    "machine",
    "sizes",
}
"""Modules of the standard library alone that every room may use."""
ROOMS = {  # what each may import of kanstudy, besides itself and COMMON
    "model": set(),
    "worker": {"model"},
    "bench": {"model"},
    "study": set(),
    "analysis": set(),
    "commands": {"study", "analysis"},
    "cli": {"study", "analysis", "commands"},
    "__init__": {"model", "analysis"},  # what it offers, each imported when it is first asked for
}
LIGHT = {"numpy", "torch", "numba"}
"""Third-party packages of `model` and `worker`, so that the worker runs under a cluster's own PyTorch."""
PLOTTING = {"matplotlib", "seaborn", "mpl_toolkits"}


def imports(path: Path) -> set[str]:
    """Dotted names of everything that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in MODULES]


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def test_every_module_has_a_room():
    assert {room(path) for path in MODULES} == {*COMMON, *ROOMS}


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_arrows_run_one_way(path):
    inside = {name.split(".")[1] for name in imports(path) if name.startswith("kanstudy.")} - {"__version__"}
    allowed = COMMON | ROOMS.get(room(path), set()) | ({room(path)} if room(path) in ROOMS else set())
    assert inside <= allowed, f"{path.name} may not import {inside - allowed}"


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_a_room_brings_only_its_own_third_party_packages(path):
    outside = {name.partition(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {"kanstudy"}
    if room(path) in {"__init__", *COMMON}:
        assert not outside
    elif room(path) in ("model", "worker"):
        assert outside <= LIGHT
    elif room(path) == "bench":
        assert outside <= {"torch", "numpy", "scipy", "psutil"}
    else:
        assert "torch" not in outside
        assert path.is_relative_to(PACKAGE / "analysis" / "plots") or not outside & PLOTTING


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_only_launch_and_slurm_start_ranks_or_jobs(path):
    text = path.read_text(encoding="utf-8")
    if path.name not in ("launch.py", "slurm.py"):
        for word in ('"torch.distributed.run"', '"torchrun"', '"srun"', '"sbatch"', "mp.spawn"):
            assert word not in text, word


def loaded_after(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import kanstudy, kanstudy.spec, kanstudy.record", {"torch", "numpy", "pandas", "matplotlib"}),
        ("import kanstudy.cli", {"torch", "numpy", "pandas", "matplotlib", "papermill", "nbformat", "scipy"}),
        ("import kanstudy.study.experiments", {"torch", "matplotlib", "pandas", "papermill"}),
        ("import kanstudy.study.launch", {"torch", "matplotlib", "papermill"}),
    ],
)
def test_imports_stay_light(statement, heavy):
    loaded = loaded_after(statement)
    assert "kanstudy" in loaded
    assert not loaded & heavy


def test_the_light_import_check_sees_heavy_imports():
    assert "numpy" in loaded_after("import numpy")
