"""Real training for the losses: data-parallel steps from the initial state, then the hold-out loss."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from kanstudy.model import KAN
from kanstudy.spec import PointSpec
from kanstudy.worker.arms import Replica
from kanstudy.worker.dataset import Dataset, local_index

_HOLDOUT_CHUNK = 8192
_TELL_EVERY = 50  # steps


@dataclass
class Training:
    """Mean squared errors on the global batch of the first and the last step and on all hold-out rows; for a KAN
    the share of each layer's hold-out inputs outside its grid. `digest` of the trained replica: equal on all ranks.
    `nan_step` is the first step whose global loss is not finite."""

    loss_first: float
    loss_last: float
    holdout_loss: float | None
    out_of_grid_share: list[float] | None
    digest: str
    nan_step: int | None


def train(
    point: PointSpec,
    device: torch.device,
    group: dist.ProcessGroup,
    data: Dataset,
    position: int,
    tell: Callable[[], None] = lambda: None,
) -> Training:
    """Train `point.train_steps` steps of DDP on the group, the rank taking slice `position` of each global batch.

    `tell` is called now and then. Collective over the group. The global batch's order depends on the seed alone, so
    losses at different world sizes differ by rounding only.
    """
    dtype = getattr(torch, point.dtype)
    replica = Replica(point, "ddp", device, group)
    losses = torch.zeros(point.train_steps, device=device, dtype=torch.float64)
    for step in range(point.train_steps):
        if step % _TELL_EVERY == 0:
            tell()
        losses[step] = replica.step(*data.rows(local_index(point, step, position), dtype, device))
    losses = losses.cpu()
    dist.all_reduce(losses, group=group)
    losses /= point.world_size  # slices are equal, so the mean of means is the global mean
    bad = torch.nonzero(~torch.isfinite(losses))
    holdout_loss, shares = evaluate(replica.plain, data, dtype, device)
    return Training(
        loss_first=float(losses[0]),
        loss_last=float(losses[-1]),
        holdout_loss=holdout_loss,
        out_of_grid_share=shares,
        digest=_digest(replica.plain),
        nan_step=int(bad[0]) if len(bad) else None,
    )


@torch.no_grad()
def evaluate(
    model: nn.Module, data: Dataset, dtype: torch.dtype, device: torch.device
) -> tuple[float | None, list[float] | None]:
    """Mean squared error over all hold-out rows and targets, and each KAN layer's share of inputs outside its grid."""
    rows = len(data.x_holdout)
    if rows == 0:
        return None, None
    squares, shares = 0.0, None
    for start in range(0, rows, _HOLDOUT_CHUNK):
        chunk = slice(start, start + _HOLDOUT_CHUNK)
        x = torch.from_numpy(np.array(data.x_holdout[chunk])).to(device, dtype)
        y = torch.from_numpy(np.array(data.y_holdout[chunk])).to(device, dtype)
        squares += float(functional.mse_loss(model(x), y, reduction="sum"))
        if isinstance(model, KAN):
            weighted = np.array(model.out_of_grid_share(x)) * (len(x) / rows)
            shares = weighted if shares is None else shares + weighted
    loss = squares / (rows * data.y_holdout.shape[1])
    return (loss if math.isfinite(loss) else None), (None if shares is None else [float(share) for share in shares])


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        if isinstance(value, torch.Tensor):
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
