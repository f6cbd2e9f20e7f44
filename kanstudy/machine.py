"""How many ranks this machine carries, and on which cores.

Standard library only: the planner asks before anything is started, the worker pins its ranks with the answer. All
readers of /proc and /sys take a root, and answer with what they can where a file is missing (another system than
Linux, a container that hides it).
"""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

_ROOT = Path("/")


def affinity() -> list[int]:
    """The logical CPUs that this process may use, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def core_order(cpus: list[int] | None = None, root: Path = _ROOT) -> list[int]:
    """The usable logical CPUs, one of each physical core first, their hyper-threads after them."""
    seen: set[frozenset[int]] = set()
    first: list[int] = []
    rest: list[int] = []
    for cpu in affinity() if cpus is None else cpus:
        siblings = _siblings(cpu, root)
        (rest if siblings in seen else first).append(cpu)
        seen.add(siblings)
    return first + rest


def physical_cores(cpus: list[int] | None = None, root: Path = _ROOT) -> int:
    """Physical cores among the usable logical CPUs: hyper-threads of one core count once."""
    return len({_siblings(cpu, root) for cpu in (affinity() if cpus is None else cpus)})


def cpu_quota(root: Path = _ROOT) -> float | None:
    """CPUs that the control group grants (version 2, then 1), such as 1.5; None where it sets no limit."""
    fields = _read(root / "sys/fs/cgroup/cpu.max").split()
    if len(fields) == 2 and fields[0] != "max":
        return int(fields[0]) / int(fields[1])
    granted = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
    period = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if granted and period and int(granted) > 0:
        return int(granted) / int(period)
    return None


def usable_cores(cpus: list[int] | None = None, root: Path = _ROOT) -> int:
    """How many single-threaded ranks this process may run without two of them sharing a core, at least 1.

    The least of physical cores in the affinity set and the control group's quota, rounded down.
    """
    quota = cpu_quota(root)
    cores = physical_cores(cpus, root)
    return max(1, cores if quota is None else min(cores, math.floor(quota)))


def gpu_count() -> int:
    """NVIDIA GPUs that a process may use, without CUDA: what `nvidia-smi -L` lists, less what
    CUDA_VISIBLE_DEVICES hides; 0 where the driver is absent or does not answer."""
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    there = sum(line.startswith("GPU ") for line in answer.splitlines())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return there
    shown = [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
    return min(there, len(shown))


def _siblings(cpu: int, root: Path) -> frozenset[int]:
    text = _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return frozenset(_cpu_list(text)) or frozenset({cpu})


def _cpu_list(text: str) -> list[int]:
    """The kernel's list format: "0-1,4" is 0, 1, 4."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
