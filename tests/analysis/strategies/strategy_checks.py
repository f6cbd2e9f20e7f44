"""Run by torchrun: train a KAN by every strategy and write, on every rank, what was sent and what came out, for
test_messages.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from split_kan import Counter, SlicedAdam, SplitKAN
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from kanstudy.analysis.strategies.strategy import Strategy, strategies
from kanstudy.model import build_model
from kanstudy.model.kan import KAN
from kanstudy.spec import PointSpec, point_from_dict
from kanstudy.worker.instrument import most_held

STEPS, LR = 3, 0.01
Groups = dict[tuple[int, int], dist.ProcessGroup]


def batch(point: PointSpec) -> tuple[Tensor, Tensor]:
    """One global batch, the same on every rank."""
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, point.dtype)
    x = 2 * torch.rand(point.global_batch_size, point.layer_widths[0], generator=generator, dtype=dtype) - 1
    return x, torch.sin(x.sum(1, keepdim=True)).expand(-1, point.layer_widths[-1])


def alone(point: PointSpec) -> KAN:
    model = build_model(point)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    x, y = batch(point)
    for _ in range(STEPS):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
    return model


def together(point: PointSpec, strategy: Strategy, groups: Groups) -> tuple[nn.Module, Counter, int]:
    """The trained module of this rank, what it sent in its last step, and bytes of its optimizer's state."""
    rank, ranks, tensor_ranks = dist.get_rank(), dist.get_world_size(), strategy.tensor_ranks
    replicas, replica = ranks // tensor_ranks, rank // tensor_ranks
    module: nn.Module = build_model(point)
    if tensor_ranks > 1:
        module = SplitKAN(module, strategy.splits(len(module.layers)), groups[tensor_ranks, replica])
    trained = module
    if replicas > 1:
        peers = groups[replicas, -1 - rank % tensor_ranks]
        if not point.sync_buffers:
            knots = [name for name, _ in module.named_buffers()]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, knots)
        trained = DistributedDataParallel(module, process_group=peers, bucket_cap_mb=point.bucket_cap_mb)
    optimizer = None
    if strategy.sharding == "tensors":
        optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.Adam, lr=LR)
    elif strategy.sharding == "slices":
        optimizer = SlicedAdam(trained, peers, LR)
    else:
        optimizer = torch.optim.Adam(trained.parameters(), lr=LR)
    x, y = (whole.chunk(replicas)[replica] for whole in batch(point))
    for step in range(-2, STEPS):  # DDP settles its buckets in the first two
        for parameter in trained.parameters():
            parameter.grad = None
        with Counter() as counter:
            mse_loss(trained(x), y).backward()
            if step >= 0:
                optimizer.step()
            elif strategy.sharding == "slices":
                optimizer.gradients.clear()
    return module, counter, state_bytes(optimizer)


def state_bytes(optimizer: torch.optim.Optimizer | SlicedAdam) -> int:
    adam = getattr(optimizer, "optim", None) or getattr(optimizer, "adam", optimizer)
    tensors = [value for state in adam.state.values() for value in state.values()]
    return sum(tensor.nbytes for tensor in tensors if tensor.dim() > 0)  # not the counts of steps


@torch.no_grad()
def largest_difference(module: nn.Module, truth: nn.Module) -> float:
    pairs = zip(module.parameters(), truth.parameters(), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def groups_of(ranks: int) -> Groups:
    """Process groups by (size, replica) of ranks that hold a model together, by (size, -1 - slice) of those that hold
    the same slice."""
    found = {}
    for size in (size for size in range(1, ranks + 1) if ranks % size == 0):
        for number in range(ranks // size):
            found[size, number] = dist.new_group(range(number * size, (number + 1) * size))
        for number in range(size):
            found[ranks // size, -1 - number] = dist.new_group(range(number, ranks, size))
    return found


def main() -> None:
    cases, output = sys.argv[1:]
    dist.init_process_group("gloo")
    groups = groups_of(dist.get_world_size())
    results = []
    for values in json.loads(Path(cases).read_text()):
        point = point_from_dict(values)
        truth = alone(point)
        for strategy in strategies(dist.get_world_size()):
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
                module, counter, state = together(point, strategy, groups)
            whole = truth
            if strategy.tensor_ranks > 1:
                group = groups[strategy.tensor_ranks, dist.get_rank() // strategy.tensor_ranks]
                whole = SplitKAN(truth, strategy.splits(len(truth.layers)), group)
            results.append(
                {
                    "messages": counter.messages,
                    "parameter_bytes": sum(parameter.nbytes for parameter in module.parameters()),
                    "state_bytes": state,
                    "peak_bytes": most_held(profiler),
                    "difference": largest_difference(module, whole),
                    "moved": largest_difference(build_model(point), truth),
                }
            )
    Path(output).with_suffix(f".{dist.get_rank()}.json").write_text(json.dumps(results))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


main()
