"""Under which conditions a point is measured; a record goes on only under the same ones."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from typing import Any

import numpy as np
import torch

import kanstudy
from kanstudy.record import Record
from kanstudy.run_spec import RunSpec
from kanstudy.spec import PointSpec
from kanstudy.worker.ranks import Ranks


def describe_rank(device: torch.device, cores: tuple[int, ...] | None) -> dict[str, Any]:
    """What this rank runs on: device name and id, its cores, clocks and power limit where the driver tells them."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        uuid = str(getattr(properties, "uuid", "")) or None
        return {"device_name": properties.name, "gpu_uuid": uuid, "cores": cores, **_gpu_limits(uuid)}
    return {"device_name": _cpu_name(), "cores": cores}


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu_limits(uuid: str | None) -> dict[str, str | None]:
    """Clock and power limit as the driver states them; nulls where it does not."""
    fields = ("clocks.max.sm", "clocks.sm", "power.limit")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    if uuid:
        command.append(f"--id={uuid if uuid.startswith('GPU-') else 'GPU-' + uuid}")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()[0]
        values: list[str | None] = [value.strip() for value in answer.split(",")]
    except (OSError, subprocess.SubprocessError, IndexError):
        values = [None] * len(fields)
    return {"gpu_" + name.replace(".", "_"): value for name, value in zip(fields, values, strict=False)}


def describe_launch(run: RunSpec, ranks: Ranks, cores: tuple[int, ...] | None) -> dict[str, Any]:
    """What all points of the launch share. Collective over the launch."""
    return {
        "hosts": ranks.hosts,
        "ranks": ranks.gather(describe_rank(ranks.device, cores)),
        "versions": {
            "kanstudy": kanstudy.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "cuda": torch.version.cuda,
        },
        "threads_per_rank": run.threads_per_rank,
        "oversubscribed": run.oversubscribed,
        "backend": run.backend,
        "allocator": {name: os.environ.get(name) for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")},
        **({"link": run.link} if run.link else {}),
        **_held_nccl(),
    }


def _held_nccl() -> dict[str, dict[str, str]]:
    """To which algorithm and protocol NCCL is held; nothing where it chooses itself."""
    held = {name: os.environ[name] for name in ("NCCL_ALGO", "NCCL_PROTO") if os.environ.get(name)}
    return {"nccl": held} if held else {}


def of_point(
    launch: dict[str, Any], point: PointSpec, members: tuple[int, ...], operator: str | None
) -> dict[str, Any]:
    """The conditions of one point: those of the launch, on the point's own ranks, and the operator that ran."""
    return launch | {
        "hosts": [launch["hosts"][member] for member in members],
        "ranks": [launch["ranks"][member] for member in members],
        "tf32": point.tf32,
        "operator": operator,
    }


def fingerprint(conditions: dict[str, Any]) -> str:
    """A short hash of what must not differ between the rounds of one record.

    Which of equal devices a rank got and how its clock stood at that moment do not count: a requeued job rarely
    gets the same, and the reference kernel shows it where it matters.
    """
    ranks = [rank["device_name"] for rank in conditions["ranks"]]
    text = json.dumps(conditions | {"ranks": ranks}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def apply(record: Record, conditions: dict[str, Any], members: tuple[int, ...], hosts: list[str]) -> None:
    """Write the conditions into a record: fingerprint, nodes, device and the details for a reader.

    `hosts` are those of all ranks of the launch: its node set, in which the groups of all world sizes are nested.
    """
    own = conditions["hosts"]
    record.conditions = fingerprint(conditions)
    record.nodes = len(set(own))
    record.ranks_per_node = max(own.count(host) for host in set(own))
    names = sorted({rank["device_name"] for rank in conditions["ranks"]})
    record.device_name = " + ".join(names)
    record.operator = conditions["operator"]
    node_set = list(dict.fromkeys(hosts))
    record.provenance = record.provenance | {"conditions": conditions, "members": list(members), "node_set": node_set}
