"""Ranks of one launch and the nested process groups inside it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from kanstudy.run_spec import RunSpec
from kanstudy.spec import PointSpec


@dataclass
class Ranks:
    """This rank's place in the launch.

    `coordination` is a gloo group of all ranks: in it a rank waits without using CPU or GPU. `hosts[r]` is the host
    of rank r, by Slurm's name for it in a job. `groups` holds one process group for each set of ranks that a point is
    measured on.
    """

    rank: int
    world_size: int
    device: torch.device
    hosts: list[str]
    coordination: dist.ProcessGroup
    groups: dict[tuple[int, ...], dist.ProcessGroup] = field(default_factory=dict)

    @classmethod
    def start(cls, run: RunSpec) -> Ranks:
        """Join the launch that the environment (`RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR`) describes.

        Collective: every rank makes every group, in the same order. Raises `RuntimeError` where a rank has no
        device of its own or the launch has not the ranks that the plan needs.
        """
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        device = torch.device(run.device)
        if run.device == "cuda":
            device = torch.device("cuda", gpu_of(local_rank, torch.cuda.device_count()))
            torch.cuda.set_device(device)
        timeout = timedelta(seconds=run.collective_timeout_s)
        backend = "gloo" if run.backend == "gloo" else f"cpu:gloo,cuda:{run.backend}"
        dist.init_process_group(backend, timeout=timeout)
        if dist.get_world_size() < run.world_size:
            raise RuntimeError(f"the plan needs {run.world_size} ranks, the launch has {dist.get_world_size()}")
        places: list[Any] = [None] * dist.get_world_size()
        # Ranks wait in it while others work alone, for as long as that takes; a dead rank ends the launch at once, and
        # one that hangs is the launcher's to notice.
        coordination = dist.new_group(backend="gloo", timeout=timedelta(days=7))
        host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        dist.all_gather_object(places, (host, gpu_uuid(device)), group=coordination)
        check_gpus(places)
        hosts = [host for host, _ in places]
        ranks = cls(dist.get_rank(), dist.get_world_size(), device, hosts, coordination)
        for members in sorted({ranks.members(point) for point in run.points}):
            ranks.groups[members] = dist.new_group(list(members), timeout=timeout)
        return ranks

    def members(self, point: PointSpec) -> tuple[int, ...]:
        """The ranks that measure a point, in the order of their slices of the global batch."""
        return place(self.hosts, point.world_size, point.placement)

    def gather(self, item: Any) -> list[Any]:
        """Every rank's item, on every rank. Collective over the launch; also the barrier between blocks."""
        items: list[Any] = [None] * self.world_size
        dist.all_gather_object(items, item, group=self.coordination)
        return items

    def from_rank_0(self, item: Any) -> Any:
        """Rank 0's item, on every rank. Collective over the launch."""
        box = [item]
        dist.broadcast_object_list(box, src=0, group=self.coordination)
        return box[0]

    def barrier(self) -> None:
        """Wait for all ranks of the launch, without using CPU."""
        dist.barrier(group=self.coordination)


def gpu_of(local_rank: int, visible: int) -> int:
    """The GPU of a rank among those that it sees: all of its host, or, where a launcher binds each task to one, that.

    Raises `RuntimeError` where it sees several, but none for it. Two ranks that see one and the same GPU are found by
    its UUID.
    """
    if visible == 1:
        return 0
    if local_rank >= visible:
        raise RuntimeError(f"rank with LOCAL_RANK {local_rank} has no GPU: this host shows {visible}")
    return local_rank


def gpu_uuid(device: torch.device) -> str | None:
    """The GPU's own name, by which two ranks notice that they share one; None where it has none."""
    if device.type != "cuda":
        return None
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", "")) or None


def check_gpus(places: list[tuple[str, str | None]]) -> None:
    """Raise `RuntimeError` where two ranks, each a (host, GPU), have one GPU."""
    for rank, place in enumerate(places):
        if place[1] is not None and place in places[:rank]:
            raise RuntimeError(f"ranks {places.index(place)} and {rank} share one GPU of {place[0]}: {place[1]}")


def place(hosts: list[str], world_size: int, placement: str) -> tuple[int, ...]:
    """The ranks of a group of `world_size`: `packed` fills host after host, `spread` takes one a host in turn."""
    if placement == "packed":
        return tuple(range(world_size))
    depth = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    return tuple(sorted(sorted(range(len(hosts)), key=lambda rank: (depth[rank], rank))[:world_size]))


def align(group: dist.ProcessGroup, ready: bool = True) -> bool:
    """Let the ranks of a group start together, and tell whether all are ready: an all-reduce of one CPU element, which
    on NCCL runs through gloo."""
    flag = torch.tensor([float(ready)])
    dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=group)
    return bool(flag[0])


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
