"""What all tests share: repeatable property tests, and a stated reason where this machine lacks what a test needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a test machine is small and shared
os.environ["MPLBACKEND"] = "Agg"

settings.register_profile(
    "kanstudy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("kanstudy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, naming what is missing."""
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        if not torch.cuda.is_available():
            _skip(items, "gpu", "no CUDA device")
    if shutil.which("sbatch") is None:
        _skip(items, "slurm", "no Slurm: sbatch is not on the path")


def _skip(items: list[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def make_notebook(tmp_path: Path):
    """`make_notebook("name", parameters, cell, cell, ...)` writes a small notebook and returns its path."""

    def make(name: str, parameters: str | None, *cells: str, folder: Path = tmp_path) -> Path:
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        if parameters is not None:
            notebook.cells.append(nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
        notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.ipynb"
        nbformat.write(notebook, path)
        return path

    return make


@pytest.fixture
def torchrun() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `-m module args` or a script on two gloo ranks, or more; stdout and stderr as text."""

    def run(*arguments: str, ranks: int = 2, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        root = str(Path(__file__).parents[1])
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": root, "GLOO_SOCKET_IFNAME": "lo"} | environment,
        )

    return run
