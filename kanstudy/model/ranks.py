"""Ranks that change a grid together: what they agree on, and that none waits for one that has refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from kanstudy.model.kan import KANLayer

Checked = TypeVar("Checked")


class Ranks:
    """The ranks that act together; one alone where nothing is distributed. Only all-reduce and broadcast are used:
    every backend has them for its devices. Raises `ValueError` on a rank outside of `group`; every method is collective
    over it."""

    def __init__(self, group: dist.ProcessGroup | None, device: torch.device) -> None:
        self.device = device
        self.group, self.rank, self.size = group, 0, 1
        self.distributed = dist.is_available() and dist.is_initialized()
        if self.distributed:
            self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("group: this rank is not in it, so it must not call")

    def reduced(self, tensor: Tensor, maximum: bool = False) -> Tensor:
        """The sum, or the maximum, over the ranks, written into the tensor."""
        if self.size > 1:
            dist.all_reduce(tensor, dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM, group=self.group)
        return tensor

    def of_each(self, number: int) -> list[int]:
        """The number that each rank has given, in the order of the ranks."""
        numbers = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        numbers[self.rank] = number
        return [int(number) for number in self.reduced(numbers).tolist()]

    def all_or_none(self, names: str, checked: Callable[[], Checked]) -> Checked:
        """What `checked` returns; where it refuses the arguments of one rank all raise, so that none waits for it."""
        error: Exception | None = None
        try:
            result = checked()
        except (TypeError, ValueError) as caught:
            error = caught
        refused = self.of_each(error is not None)
        if error is not None:
            raise error
        if any(refused):
            raise ValueError(f"{names} of rank {refused.index(1)} cannot be used; no grid was changed")
        return result

    def agreed(self, knots: Tensor, weight: Tensor, layer: KANLayer) -> dict[str, Tensor]:
        """The first rank's knots and weight, which different processors may have rounded otherwise, as a layer's state;
        `ValueError` where they are not finite."""
        state = {"knots": knots.to(self.device).contiguous(), "weight": weight.to(self.device).contiguous()}
        if self.size > 1:
            for tensor in state.values():
                dist.broadcast(tensor, group=self.group, group_src=0)
        if not state["weight"].isfinite().all():
            raise ValueError(f"weight of KANLayer({layer.extra_repr()}) is not finite; no grid was changed")
        return state
