"""A KAN whose layers are cut over ranks, with plain collectives between them, and a ZeRO-1 optimizer by slices.

What the closed forms are held to: it trains as one process does, and every byte is counted where torch is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from kanstudy.model.kan import KAN, KANLayer

_OF_WHOLE = {  # which argument of torch's operator is the whole message
    "allreduce_": ("allreduce", 0),
    "broadcast_": ("broadcast", 0),
    "_allgather_base_": ("allgather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
}


class Counter(TorchDispatchMode):
    """Collective and bytes of every call that torch is asked for while this is entered, DDP's own among them."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            collective, place = _OF_WHOLE[func._schema.name.split("::")[1]]  # an unknown one is an error
            tensors = args[place] if isinstance(args[place], list) else [args[place]]
            self.messages.append((collective, sum(tensor.nbytes for tensor in tensors)))
        return func(*args, **(kwargs or {}))


class _Function(torch.autograd.Function):
    """One function in forward, another in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Callable[..., Tensor], backward: Callable[..., Tensor]) -> Tensor:
        ctx.backward_function = backward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.backward_function(gradient), None, None


class Between:
    """What ranks that hold a model together do to activations (rows, width), named by what happens in forward."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self.rank, self.ranks = group, dist.get_rank(group), dist.get_world_size(group)

    def widths(self, width: int) -> list[int]:
        """The ranks' slices of a width, which differ by one at most."""
        return [len(part) for part in torch.arange(width).tensor_split(self.ranks)]

    def own(self, width: int) -> slice:
        """This rank's slice."""
        start = sum(self.widths(width)[: self.rank])
        return slice(start, start + self.widths(width)[self.rank])

    def gather(self, x: Tensor, width: int) -> Tensor:
        own = self.own(width)
        return _Function.apply(x, lambda part: self._gathered(part, width), lambda whole: whole[:, own].contiguous())

    def scatter(self, x: Tensor, width: int) -> Tensor:
        own = self.own(width)
        return _Function.apply(x, lambda whole: whole[:, own].contiguous(), lambda part: self._gathered(part, width))

    def reduce(self, x: Tensor) -> Tensor:
        return _Function.apply(x, self._reduced, lambda gradient: gradient)

    def copy(self, x: Tensor) -> Tensor:
        return _Function.apply(x, lambda whole: whole.view_as(whole), self._reduced)

    def _reduced(self, x: Tensor) -> Tensor:
        x = x.contiguous().clone()
        dist.all_reduce(x, group=self.group)
        return x

    def _gathered(self, part: Tensor, width: int) -> Tensor:
        widths = self.widths(width)
        padded = part.new_zeros(max(widths), len(part))
        padded[: part.shape[1]] = part.T
        whole = part.new_empty(self.ranks * len(padded), len(part))
        dist.all_gather_into_tensor(whole, padded, group=self.group)
        pieces = [block[:size] for block, size in zip(whole.split(len(padded)), widths, strict=True)]
        return torch.cat(pieces).T


class SplitKAN(nn.Module):
    """This rank's slices of a KAN."""

    def __init__(self, whole: KAN, splits: tuple[str, ...], group: dist.ProcessGroup) -> None:
        super().__init__()
        self.splits, self.between, self.widths = splits, Between(group), whole.layer_widths
        pairs = zip(whole.layers, splits, strict=True)
        self.layers = nn.ModuleList(_slice_of(layer, split, self.between) for layer, split in pairs)

    def forward(self, x: Tensor) -> Tensor:
        sliced = False
        for layer, split, before in zip(self.layers, self.splits, self.widths, strict=False):
            if split == "column":
                x = self.between.gather(x, before) if sliced else x
                x, sliced = layer(self.between.copy(x)), True
            else:
                x = x if sliced else self.between.scatter(x, before)
                x, sliced = self.between.reduce(layer(x)), False
        return self.between.gather(x, self.widths[-1]) if sliced else x


def _slice_of(layer: KANLayer, split: str, between: Between) -> KANLayer:
    weight = layer.weight.detach().unflatten(1, (-1, layer.in_features))
    knots = layer.knots
    if split == "column":
        weight = weight[between.own(layer.out_features)]
    else:
        weight, knots = weight[..., between.own(layer.in_features)], knots[between.own(layer.in_features)]
    part = KANLayer(
        len(knots),
        len(weight),
        layer.grid_size,
        layer.spline_order,
        operator=layer.requested_operator,
        dtype=weight.dtype,
    )
    with torch.no_grad():
        part.weight.copy_(weight.flatten(1))
        part.knots.copy_(knots)
    return part


class SlicedAdam:
    """ZeRO-1 over DDP: gradients are reduce-scattered bucket by bucket, each rank steps its slice of every bucket, the
    new parameters are all-gathered. DDP must have settled its buckets, which it does in the second step."""

    def __init__(self, ddp: nn.parallel.DistributedDataParallel, group: dist.ProcessGroup, lr: float) -> None:
        self.group, self.rank, self.ranks, self.lr = group, dist.get_rank(group), dist.get_world_size(group), lr
        self.gradients: list[tuple[list[Tensor], Tensor]] = []
        self.slices: list[Tensor] = []
        ddp.register_comm_hook(None, self.hook)

    def hook(self, state, bucket):  # without types: DDP does not understand postponed ones
        whole = self._padded(bucket.buffer())
        part = whole.new_empty(len(whole) // self.ranks)
        dist.reduce_scatter_tensor(part, whole, group=self.group)
        self.gradients.append((bucket.parameters(), part / self.ranks))
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    @torch.no_grad()
    def step(self) -> None:
        wholes = [self._padded(torch.cat([p.detach().flatten() for p in of])) for of, _ in self.gradients]
        parts = [whole.chunk(self.ranks)[self.rank] for whole in wholes]
        if not self.slices:
            self.slices = [nn.Parameter(part.clone()) for part in parts]
            self.adam = torch.optim.Adam(self.slices, lr=self.lr)
        for kept, (_, gradient) in zip(self.slices, self.gradients, strict=True):
            kept.grad = gradient
        self.adam.step()
        for kept, whole, (parameters, _) in zip(self.slices, wholes, self.gradients, strict=True):
            dist.all_gather_into_tensor(whole, kept.detach(), group=self.group)
            sizes = [parameter.numel() for parameter in parameters]
            for parameter, new in zip(parameters, whole[: sum(sizes)].split(sizes), strict=True):
                parameter.copy_(new.view_as(parameter))
        self.gradients.clear()

    def _padded(self, flat: Tensor) -> Tensor:
        return nn.functional.pad(flat, (0, -len(flat) % self.ranks))
