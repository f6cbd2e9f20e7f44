"""`python -m kanstudy.worker.preflight FOLDER RESULTS DEVICE [GROUP ...]`: what a rank finds before measuring.

Each rank writes `FOLDER/<rank>.json`, at first what it is without torch, then what torch says, then whether it met
all the others. With groups, such as 4:spread, each reduces messages of many sizes, of which NCCL's log then has the
algorithms. Whoever started the ranks judges: a rank only tells, and ends with exit code 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.files import write_atomically
from kanstudy.layout import layout_text
from kanstudy.machine import affinity
from kanstudy.network_words import GROUP_MARK
from kanstudy.worker import srun

MEET_BY_S = 45.0
"""Seconds after its start until which a rank waits for the others, which may still import torch from a slow disk."""
_LEAST_WAIT_S = 5.0
_PROBE_BYTES = 2**20
_MESSAGES = (1, 2**18, 25 * 2**18)
"""Elements of 4 bytes in the all-reduces of GPUs, of which NCCL tells the algorithm."""
_GROUP_MESSAGES = tuple(2**power for power in range(12, 28))
"""Bytes, 4 KiB to 128 MiB: between neighbours NCCL rarely changes its mind."""


def look_around(results: Path) -> dict[str, Any]:
    """What needs no torch: host, cores, interfaces, the way to rank 0, and whether results can be written."""
    return {
        "rank": int(os.environ.get("RANK", "0")),
        "local_rank": int(os.environ.get("LOCAL_RANK", "0")),
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "host": socket.gethostname(),
        "cores": affinity(),
        "python": platform.python_version(),
        "kanstudy": kanstudy.__version__,
        "master": os.environ.get("MASTER_ADDR", ""),
        "address": _address_towards(os.environ.get("MASTER_ADDR", "")),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "infiniband": sorted(path.name for path in Path("/sys/class/infiniband").glob("*")),
        "results_error": _write_probe(results),
    }


def look_with_torch(device: str) -> dict[str, Any]:
    """Versions, and the GPU that this rank would take. Raises `RuntimeError` where there is none for it."""
    import torch

    from kanstudy.worker.ranks import gpu_of  # imports torch, too: only after the first report

    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": None}
    if device == "cuda":
        visible = torch.cuda.device_count()
        found["gpus_visible"] = visible
        if visible == 0:
            raise RuntimeError(f"torch sees no GPU: {_why_none()}")
        index = gpu_of(int(os.environ["LOCAL_RANK"]), visible)
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        found |= {"gpu": properties.name, "gpu_uuid": str(getattr(properties, "uuid", "")) or None}
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def meet(device: str, wait_s: float) -> float:
    """Add up a one of every rank, through the CPU and on the device; seconds that the last sum took."""
    import torch
    import torch.distributed as dist

    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=wait_s))
    seconds = 0.0
    sums = [("cpu", 1), ("cpu", 1)]  # the first makes the connections
    if device == "cuda":
        sums += [(device, elements) for elements in (1, *_MESSAGES)]
    for where, elements in sums:
        one = torch.ones(elements, device=where)
        start = time.perf_counter()
        dist.all_reduce(one)
        total = int(one[0].item())
        seconds = time.perf_counter() - start
        if total != dist.get_world_size():
            raise RuntimeError(f"the sum over {dist.get_world_size()} ranks is {total}")
    dist.barrier()
    return seconds


def reduce_in_groups(groups: Sequence[str], device: str, node: str, end: float) -> None:
    """All-reduces of every size within each group, world size and placement as "4:spread", as far as time allows.

    The group's first rank prints `GROUP_MARK` and the layout before. Collective over all ranks, after `meet`.
    """
    import torch
    import torch.distributed as dist

    from kanstudy.worker.ranks import place

    hosts: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(hosts, node)
    for group in groups:
        left = torch.tensor(end - time.monotonic())
        dist.all_reduce(left, op=dist.ReduceOp.MIN)
        if left.item() < _LEAST_WAIT_S:
            return
        size, _, placement = group.partition(":")
        members = place(hosts, int(size), placement)
        own = dist.new_group(list(members))
        if dist.get_rank() not in members:
            continue
        if dist.get_rank() == members[0]:
            layout = Counter(hosts[member] for member in members).values()
            print(f"{GROUP_MARK} {layout_text(tuple(layout))}", flush=True)
        for message_bytes in _GROUP_MESSAGES:
            dist.all_reduce(torch.zeros(message_bytes // 4, device=device), group=own)
        if device == "cuda":
            torch.cuda.synchronize()
    dist.all_reduce(torch.zeros(1))  # whoever leaves first takes the connections of a group along


def tell(folder: Path, report: dict[str, Any]) -> None:
    """Write the report; print a short one where that fails, which reaches the first node whatever this one's disk."""
    try:
        write_atomically(folder / f"{report['rank']}.json", json.dumps(report))
    except OSError as error:
        why = {"results_error": report["results_error"] or error.strerror or str(error)}
        print(json.dumps({"rank": report["rank"], "node": report["node"]} | why), flush=True)


def main() -> None:
    """Look, tell, meet, tell; and leave without tearing anything down."""
    end = time.monotonic() + MEET_BY_S
    folder, results, device = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    srun.adopt(folder)
    report = look_around(results)
    tell(folder, report)
    try:
        report |= look_with_torch(device)
        tell(folder, report)
        report["meeting_s"] = meet(device, max(_LEAST_WAIT_S, end - time.monotonic()))
        tell(folder, report)
        reduce_in_groups(sys.argv[4:], device, report["node"], end)
    except Exception as error:
        traceback.print_exc()
        report["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    tell(folder, report)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _why_none() -> str:
    """Why torch sees no GPU, in its own words: it was built without CUDA, the driver is too old, none was given."""
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return f"{said[0]} (torch {torch.__version__}, CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')})"
    return f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}"


def _address_towards(master: str) -> str | None:
    """This host's own address on the way to rank 0; None where the name leads nowhere. Nothing is sent."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(address)
            return str(way.getsockname()[0])
    except OSError:
        return None


def _write_probe(results: Path) -> str | None:
    """Why a file of some size cannot be written to the results; None where it can."""
    probe = results / f".probe-{socket.gethostname()}-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(b"\0" * _PROBE_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return None


if __name__ == "__main__":
    main()
