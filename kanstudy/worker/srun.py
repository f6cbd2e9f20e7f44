"""The place of a rank that srun started, in the words of torchrun: which task of how many, here and in all."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

_NODES = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def adopt(log_dir: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE from what Slurm tells each task of a step.

    Nothing is changed where a launcher has set RANK, or there is no such step. An exception is written where torchrun
    would have it written, beside the rank's log below `log_dir`.
    """
    if "RANK" in environment or "SLURM_PROCID" not in environment:
        return
    rank = environment["SLURM_PROCID"]
    environment["RANK"] = rank
    environment["WORLD_SIZE"] = environment.get("SLURM_STEP_NUM_TASKS") or environment["SLURM_NTASKS"]
    environment["LOCAL_RANK"] = environment["SLURM_LOCALID"]
    tasks = tasks_per_node(environment.get("SLURM_STEP_TASKS_PER_NODE", "1"))
    node = int(environment.get("SLURM_NODEID", "0"))
    environment["LOCAL_WORLD_SIZE"] = str(tasks[node] if node < len(tasks) else tasks[-1])
    logs = log_dir / "step" / "attempt_0" / rank
    if logs.is_dir():
        environment["TORCHELASTIC_ERROR_FILE"] = str(logs / "error.json")


def tasks_per_node(text: str) -> list[int]:
    """Slurm's list of tasks a node: "2(x3),1" is 2, 2, 2, 1."""
    return [int(tasks) for tasks, times in _NODES.findall(text) for _ in range(int(times or 1))]
