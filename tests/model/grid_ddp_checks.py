"""Run by torchrun on two ranks: move and refine grids on different shards and write what came out, for test_grid.py."""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from kanstudy.model import KAN, grid


def build(seed: int = 0) -> KAN:
    torch.manual_seed(seed)
    return KAN([3, 6, 2], dtype=torch.float64)


def flat(model: KAN) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in model.state_dict().values()])


def of_all(item: object) -> list:
    items = [None] * dist.get_world_size()
    dist.all_gather_object(items, item)
    return items


def identical(model: KAN) -> bool:
    return torch.equal(*of_all(flat(model)))


def difference(a: KAN, b: KAN) -> float:
    return float((flat(a) - flat(b)).abs().max())


def whole_data(rows: int) -> torch.Tensor:
    torch.manual_seed(1)
    x = torch.randn(rows, 3, dtype=torch.float64)
    x[rows // 2 :] = 0.3 * x[rows // 2 :] + 2  # the shards lie elsewhere
    return x


def updated(sizes: tuple[int, int], rank: int, alone: dist.ProcessGroup) -> dict[str, object]:
    """Two ranks on their shards against one process on all rows."""
    x = whole_data(sum(sizes))
    shard = x.split(sizes)[rank]
    model, single = build(), build()
    start = copy.deepcopy(model)
    model.update_grid(shard)
    single.update_grid(x, group=alone)
    return {
        "shards_differ": len({float(part.sum()) for part in of_all(shard)}) == 2,
        "identical": identical(model),
        "moved": difference(model, start),
        "against_one_process": difference(model, single),
    }


def refused(change: Callable[[KAN], None]) -> dict[str, object]:
    model = build()
    before = flat(model)
    try:
        change(model)
        error = "none"
    except (ValueError, TypeError) as caught:
        error = str(caught)
    return {"errors": of_all(error), "unchanged": all(of_all(torch.equal(before, flat(model))))}


def trained(model: KAN, ddp: DistributedDataParallel, number: int, rank: int) -> float:
    """Some steps of Adam on each rank's own rows; how far the model moved."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, before = own_rows(rank), flat(model)
    for _ in range(number):
        optimizer.zero_grad()
        (ddp(x) - x[:, :2].sin()).square().mean().backward()
        optimizer.step()
    return float((flat(model) - before).abs().max())


def own_rows(rank: int) -> torch.Tensor:
    torch.manual_seed(10 + rank)
    return torch.randn(200, 3, dtype=torch.float64) + rank


def refine_error(model: KAN) -> str:
    try:
        model.refine_grid(10)
    except RuntimeError as error:
        return str(error)
    return "none"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    groups = [dist.new_group([0]), dist.new_group([1])]
    alone = groups[rank]
    results: dict[str, object] = {
        "equal": updated((300, 300), rank, alone),
        "unequal": updated((50, 800), rank, alone),
        "empty": updated((0, 400), rank, alone),
    }
    most, grid.MOST_SAMPLES = grid.MOST_SAMPLES, 256
    results["sampled"] = updated((700, 5000), rank, alone)
    grid.MOST_SAMPLES = most

    x = whole_data(200).split(100)[rank].clone()
    spoilt = x.clone()
    spoilt[3, 1] = torch.nan
    results["nan_of_one_rank"] = refused(lambda model: model.update_grid(spoilt if rank else x))
    results["too_few_in_all"] = refused(lambda model: model.update_grid(x[: 2 + 2 * rank]))
    results["wrong_shape_on_one_rank"] = refused(lambda model: model.update_grid(x[:, :2] if rank else x))
    results["bad_grid_eps_on_one_rank"] = refused(lambda model: model.update_grid(x, grid_eps=2.0 if rank else 0.5))
    results["bad_size_on_one_rank"] = refused(lambda model: model.refine_grid(0 if rank else 9))
    results["other_size_on_one_rank"] = refused(lambda model: model.refine_grid(8 if rank else 9))

    model = build()
    ddp = DistributedDataParallel(model)
    trained(model, ddp, 2, rank)
    model.update_grid(own_rows(rank))
    results["trained_moved"] = trained(model, ddp, 5, rank)
    results["trained_identical"] = identical(model)

    if rank == 1:
        del ddp  # one wrapper is enough
    results["wrapped"] = of_all(refine_error(model))
    if rank == 0:
        del ddp
    before, inside = copy.deepcopy(model), whole_data(500) * 0.2
    model.refine_grid(10)
    results["refined_identical"] = identical(model)
    results["refined_difference"] = float((model(inside) - before(inside)).abs().max())
    trained(model, DistributedDataParallel(model), 2, rank)
    results["refined_trained_identical"] = identical(model)

    subgroup = build()
    subgroup.update_grid(x, group=alone)
    results["subgroup_differs"] = not identical(subgroup)
    repeated = build()
    repeated.update_grid(x, group=alone)
    results["subgroup_alone"] = difference(subgroup, repeated)
    try:
        build().update_grid(x, group=groups[1]) if rank == 0 else None
        results["outsider"] = "none"
    except ValueError as error:
        results["outsider"] = str(error)

    constant = x.clone()
    constant[:, 0] = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build().update_grid(constant)
    results["warnings"] = of_all(sum("keep their grid" in str(item.message) for item in caught))
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(results))
    sys.stdout.flush()
    os._exit(0)


main()
