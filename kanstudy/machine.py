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

from kanstudy.files import text_of

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
    """CPUs that the process's control groups grant (versions 1 and 2), such as 1.5; None where none sets a limit.

    The least of its own group's and all groups' above it: each of them binds.
    """
    return min((quota for folder in _control_groups(root) if (quota := _quota(folder)) is not None), default=None)


def usable_cores(cpus: list[int] | None = None, root: Path = _ROOT) -> int:
    """How many single-threaded ranks this process may run without two of them sharing a core, at least 1.

    The least of physical cores in the affinity set and the control group's quota, rounded down.
    """
    quota = cpu_quota(root)
    cores = physical_cores(cpus, root)
    return max(1, cores if quota is None else min(cores, math.floor(quota)))


def gpu_count() -> int:
    """NVIDIA GPUs that a process may use, without CUDA: what `nvidia-smi -L` lists, less what
    CUDA_VISIBLE_DEVICES hides; 0 where the driver is absent or does not answer.

    As in CUDA, the first entry of CUDA_VISIBLE_DEVICES that names no device hides all after it, and one that is
    there twice hides all.
    """
    command = ["nvidia-smi", "-L"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    there = sum(line.startswith("GPU ") for line in answer.splitlines())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return there
    shown: list[str] = []
    for entry in map(str.strip, visible.split(",")):
        is_uuid = entry.startswith(("GPU-", "MIG-"))  # its beginning is enough
        if not (f"UUID: {entry}" in answer if is_uuid else entry.isdecimal() and int(entry) < there):
            break
        if entry in shown:
            return 0
        shown.append(entry)
    return len(shown)


def _control_groups(root: Path) -> list[Path]:
    """Folders of the control groups that limit this process's CPU time: the mounts', its own, all between."""
    base = root / "sys/fs/cgroup"
    folders = [base, base / "cpu"]  # a container may show its own group as the mount
    for line in text_of(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:  # version 2
            mounts = [base]
        elif "cpu" in controllers.split(","):  # version 1, mounted alone or with the accounting
            mounts = [base / "cpu", base / controllers]
        else:
            continue
        for mount in mounts:
            group = mount / path.strip("/")
            folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(mount)]
    return folders


def _quota(group: Path) -> float | None:
    granted = text_of(group / "cpu.max")
    granted = granted or f"{text_of(group / 'cpu.cfs_quota_us')} {text_of(group / 'cpu.cfs_period_us')}"
    try:
        quota_us, period_us = map(int, granted.split())
    except ValueError:  # "max", or nothing
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _siblings(cpu: int, root: Path) -> frozenset[int]:
    text = text_of(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return frozenset(_cpu_list(text)) or frozenset({cpu})


def _cpu_list(text: str) -> list[int]:
    """The kernel's list format: "0-1,4" is 0, 1, 4."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.extend(range(int(first), int(last or first) + 1))
    return cpus
