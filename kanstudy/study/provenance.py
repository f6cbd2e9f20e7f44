"""Where a result comes from, as far as the launching machine knows; the ranks add what they run on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanstudy import __version__
from kanstudy.machine import affinity, cpu_quota, physical_cores
from kanstudy.study.profile import project_root

SETTINGS = ("CUDA_", "GLOO_", "KMP_", "MALLOC_", "MKL_", "NCCL_", "OMP_", "SLURM_JOB", "TORCH_")
"""Beginnings of the environment variables that change what is measured."""
PACKAGES = ("numpy", "pandas", "torch")


def collect(environment: Mapping[str, str]) -> dict[str, Any]:
    """Code, packages, machine and settings of a launch that runs in `environment`; null for what is not known."""
    return {
        "git": git_state(project_root()),
        "kanstudy": __version__,
        "packages": {name: _version(name) for name in PACKAGES},
        "system": platform.platform(),
        "cpus": affinity(),
        "physical_cores": physical_cores(),
        "cpu_quota": cpu_quota(),
        "cpu_governor": _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "settings": {name: environment[name] for name in sorted(environment) if name.startswith(SETTINGS)},
    }


def git_state(checkout: Path) -> dict[str, Any] | None:
    """Commit of a checkout and whether tracked files differ from it; None where it is none or there is no git."""
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "dirty": changes != ""}


def _git(checkout: Path, *arguments: str) -> str | None:
    if not (checkout / ".git").exists():  # not the checkout of something around it
        return None
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(checkout), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=own)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
