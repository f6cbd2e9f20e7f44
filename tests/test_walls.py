"""Which room may import what: arrows run one way, and planning, reading and plotting stay quick on a login node."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kanstudy"
COMMON = {
    "network_words",
    "layout",
    "spec",
    "run_spec",
    "injection",
    "emulated_link",
    "stopping",
    "record",
    "record_files",
    "wanted",
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
    "described_machine": {"study", "analysis"},
    "commands": {"study", "analysis", "described_machine"},
    "cli": {"study", "analysis", "commands"},
    "__init__": {"model", "analysis"},  # what it offers, each imported when it is first asked for
}
LIGHT = {"numpy", "torch", "numba"}
"""Third-party packages of `model` and `worker`, so that the worker runs under a cluster's own PyTorch."""
PLOTTING = {"matplotlib", "seaborn", "mpl_toolkits", "PIL"}


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


def dangers(code: str) -> list[str]:
    """Calls that would run text, or unpack what may hold code: a shell, `eval`, pickles."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        name, given = ast.unparse(node.func), {item.arg: ast.unparse(item.value) for item in node.keywords}
        if (
            name in ("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "yaml.load", "pickle.load")
            or name.endswith(("pickle.loads", "read_pickle"))
            or given.get("shell", "False") != "False"
            or given.get("allow_pickle", "False") != "False"
            or (name == "torch.load" and given.get("weights_only") != "True")
        ):
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_what_a_user_writes_is_never_run(path):
    """But for the lines that a profile declares as set-up of a node, which a job's script sources."""
    assert dangers(path.read_text(encoding="utf-8")) == []


def test_the_check_for_dangers_sees_them():
    assert len(dangers("eval(x); run(x, shell=True); torch.load(p); np.load(p, allow_pickle=True); os.system(x)")) == 5
    assert dangers("run([x]); torch.load(p, weights_only=True); np.load(p); ast.literal_eval(x)") == []


def test_jupyterlab_is_started_with_its_token():
    makefile = (PACKAGE.parent / "Makefile").read_text(encoding="utf-8")
    assert "/jupyter lab" in makefile
    assert not any(word in makefile for word in ("token", "password", "--ip", "allow_origin"))


def test_every_file_of_tests_has_a_name_of_its_own():
    """Pytest imports them by that name alone, and collects nothing where two are the same."""
    names = Counter(path.name for path in (PACKAGE.parent / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, times in names.items() if times > 1] == []


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
