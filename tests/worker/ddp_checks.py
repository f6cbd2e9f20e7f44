"""Run by torchrun on two ranks: train in several ways and write what came out as JSON, for test_arms.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from tiny import tiny_point

from kanstudy.spec import PointSpec
from kanstudy.worker.arms import Replica
from kanstudy.worker.dataset import Dataset, ResidentBatches
from kanstudy.worker.training import train

STEPS = 10
CPU = torch.device("cpu")


def weights(replica: Replica) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in replica.plain.parameters()])


def trained(point: PointSpec, arm: str, data: Dataset, rank: int, group: dist.ProcessGroup) -> Replica:
    replica = Replica(point, arm, CPU, group)
    batches = ResidentBatches(point, data, torch.float64, CPU)
    chosen = batches.global_batches() if arm == "serial_global" else batches.local_batches(rank)
    for step in range(STEPS):
        replica.step(*chosen[step % len(chosen)])
    return replica


def relative_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


def of_all(tensor: torch.Tensor) -> list[torch.Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def check(name: str, point: PointSpec, data: Dataset, rank: int, group: dist.ProcessGroup) -> dict[str, object]:
    alone = weights(trained(point, "serial_global", data, rank, group))
    ddp = trained(point, "ddp", data, rank, group)
    noop = of_all(weights(trained(point, "ddp_noop", data, rank, group)))
    explicit = tiny_point(**(point.__dict__ | {"comm_hook": "allreduce"}))
    hooked = weights(trained(explicit, "ddp", data, rank, group))
    replicas = of_all(weights(ddp))
    return {
        "ddp_against_single_process": relative_difference(weights(ddp), alone),
        "hook_against_single_process": relative_difference(hooked, alone),
        "replicas_identical": bool(torch.equal(*replicas)),
        "noop_replicas_differ": not torch.equal(*noop),
        "every_parameter_has_a_gradient": all(parameter.grad is not None for parameter in ddp.plain.parameters()),
        "moved": relative_difference(alone, weights(Replica(point, "serial_global", CPU, None))),
    }


def buffers_after_wrap(point: PointSpec, rank: int, group: dist.ProcessGroup) -> bool:
    """Whether a buffer that differs between ranks is made equal once, when the module is wrapped."""
    import kanstudy.worker.arms as arms

    build = arms.build_model

    def differing(point: PointSpec) -> torch.nn.Module:
        model = build(point)
        for buffer in model.buffers():
            buffer.add_(rank)
        return model

    arms.build_model = differing
    try:
        replica = Replica(point, "ddp", CPU, group)
    finally:
        arms.build_model = build
    buffers = of_all(torch.cat([buffer.flatten() for buffer in replica.plain.buffers()]))
    return bool(torch.equal(*buffers))


def synchronises(point: PointSpec, arm: str, group: dist.ProcessGroup) -> bool:
    """Whether DDP would broadcast buffers in every forward pass, under whatever name this torch keeps that."""
    module = Replica(point, arm, CPU, group).module
    return bool(getattr(module, "forward_sync_buffers", getattr(module, "broadcast_buffers", None)))


def main() -> None:
    data_file, output = sys.argv[1:]
    dist.init_process_group("gloo")
    group = dist.new_group([0, 1])
    rank = dist.get_rank()
    data = Dataset.open(data_file)
    kan = tiny_point(dtype="float64", world_size=2)
    mlp = tiny_point(dtype="float64", model="mlp", grid_size=None, spline_order=None, operator=None)
    results: dict[str, object] = {
        "kan": check("kan", kan, data, rank, group),
        "mlp": check("mlp", mlp, data, rank, group),
        "buffers_equal_after_wrap": buffers_after_wrap(kan, rank, group),
        "buffers_synchronised_in_forward": {arm: synchronises(kan, arm, group) for arm in ("ddp", "ddp_noop")},
        "buffers_synchronised_on_request": {
            arm: synchronises(tiny_point(dtype="float64", sync_buffers=True), arm, group) for arm in ("ddp", "ddp_noop")
        },
    }
    training = [train(kan, CPU, group, data, rank)]
    alone = dist.new_group([0]), dist.new_group([1])
    single = tiny_point(dtype="float64", world_size=1, arms=("ddp",))
    training.append(train(single, CPU, alone[rank], data, 0))
    results["training"] = [vars(item) for item in training]
    if rank == 0:
        Path(output).write_text(json.dumps(results))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


main()
