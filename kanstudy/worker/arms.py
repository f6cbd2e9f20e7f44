"""The arms: one training step, measured so that neighbours in the chain differ in one thing.

| arm           | ranks                 | what runs                                     |
|---------------|-----------------------|-----------------------------------------------|
| serial_global | 1, another each round | plain module, the global batch                |
| serial_local  | 1, each in turn       | plain module, the local batch                 |
| concurrent    | p                     | plain modules at once, no synchronisation     |
| ddp_noop      | p                     | DDP whose communication hook does nothing     |
| ddp           | p                     | DDP as a user runs it                         |
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from kanstudy.model import build_model
from kanstudy.spec import PointSpec
from kanstudy.worker.injection import Injector

_BUFFER_FLAG = (
    "forward_sync_buffers"  # from torch 2.13 on; `broadcast_buffers` is deprecated there
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
    else "broadcast_buffers"
)
_OPTIMIZERS: dict[str, type[torch.optim.Adam] | type[torch.optim.SGD]] = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


def turns(arm: str, members: tuple[int, ...], round_index: int) -> list[tuple[int, ...]]:
    """Which ranks are active together, block after block, in one round of an arm."""
    if arm == "serial_global":
        return [(members[round_index % len(members)],)]
    if arm == "serial_local":
        return [(member,) for member in members]
    return [members]


def uses_ddp(arm: str) -> bool:
    """Whether the arm's module is wrapped, so that its group must be complete."""
    return arm in ("ddp_noop", "ddp")


class Replica:
    """A model in its initial state with a fresh optimizer, wrapped as the arm demands.

    Made anew for every block: every block then trains the same steps from the same state, and nothing of another
    arm (gradients, moments, reducer) is left. Collective over `group` for the DDP arms. `hook`
    takes the place of the one that does nothing in `ddp_noop`; `injector` spends in hooks what is injected there.
    """

    def __init__(
        self,
        point: PointSpec,
        arm: str,
        device: torch.device,
        group: dist.ProcessGroup | None,
        hook: Callable[..., Any] | None = None,
        injector: Injector | None = None,
    ) -> None:
        model = build_model(point).to(device)
        self.module: nn.Module = model
        if uses_ddp(arm):
            if group is None:
                raise ValueError(f"arm {arm} needs a process group")
            self.module = _wrap(model, point, arm, device, group, hook, injector)
        self.plain = model
        self.optimizer = _OPTIMIZERS[point.optimizer](model.parameters(), lr=point.learning_rate)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """One training step on x (rows, inputs), y (rows, targets); the loss before it, still on the device."""
        self.optimizer.zero_grad()
        loss = functional.mse_loss(self.module(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _wrap(
    model: nn.Module,
    point: PointSpec,
    arm: str,
    device: torch.device,
    group: dist.ProcessGroup,
    hook: Callable[..., Any] | None,
    injector: Injector | None,
) -> DistributedDataParallel:
    first = dist.get_global_rank(group, 0)
    for buffer in model.buffers():  # once and explicitly: DDP does not, with buffers not synchronised in forward
        dist.broadcast(buffer, src=first, group=group)
    options: dict[str, Any] = {_BUFFER_FLAG: point.sync_buffers and arm == "ddp"}
    ddp = DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        process_group=group,
        bucket_cap_mb=point.bucket_cap_mb,  # a fraction of a MiB is allowed
        **options,
    )
    state, hook = (None, hook or noop_hook) if arm == "ddp_noop" else (group, allreduce_hook)
    if arm == "ddp_noop" or point.comm_hook == "allreduce":
        ddp.register_comm_hook(state, injector.within(hook, arm) if injector else hook)
    return ddp


def gradient_bytes(parameters: Iterable[nn.Parameter]) -> int:
    """Bytes that one all-reduce of all gradients moves."""
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
