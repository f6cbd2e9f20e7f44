"""A point on its ranks: what all of them know of it, and how some work on it while the others wait."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from kanstudy.record import Fault, Record
from kanstudy.spec import PointSpec
from kanstudy.worker.arms import Replica, uses_ddp
from kanstudy.worker.dataset import Dataset, ResidentBatches
from kanstudy.worker.injection import Injector
from kanstudy.worker.ranks import Ranks, align
from kanstudy.worker.timing import Batch, Block, time_block

_T = TypeVar("_T")


class PointFault(Exception):
    """The point itself cannot be measured: `status` is the record's (`oom`, `nan`), `fault` says why."""

    def __init__(self, status: str, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.status = status
        self.fault = fault


@dataclass
class PointState:
    """A point while it is measured, on this rank.

    `position` is None on a rank that is no member of the point's group; `record` is rank 0's, None elsewhere;
    `operator` is the resolved one, None for an MLP.
    `batches` come onto the device when first needed, where a lack of memory is the point's own. `steps[arm]` are its
    warm-up and timed steps a block, `round_s` about the time of one round. `injector` spends what the point has
    injected, once it is known how long a step takes without.
    """

    point: PointSpec
    members: tuple[int, ...]
    group: dist.ProcessGroup
    position: int | None
    data: Dataset
    rounds: int
    done: int
    record: Record | None
    operator: str | None = None
    batches: ResidentBatches | None = None
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    round_s: float = 0.0
    injector: Injector | None = None

    def batches_of(self, arm: str, device: torch.device) -> list[Batch]:
        """The resident batches that this rank trains in an arm; `RuntimeError` on a rank outside the group."""
        if self.position is None:
            raise RuntimeError("this rank is not a member of the point's group")
        if self.batches is None:
            self.batches = ResidentBatches(self.point, self.data, getattr(torch, self.point.dtype), device)
        if arm == "serial_global":
            return self.batches.global_batches()
        return self.batches.local_batches(self.position)

    def release(self) -> None:
        """Give back what the point holds on the device: it is not measured any more, and others need the room."""
        self.batches = None
        gc.collect()  # DDP's wrappers hold themselves
        torch.cuda.empty_cache()


def together(ranks: Ranks, active: tuple[int, ...], work: Callable[[], _T], arm: str | None = None) -> dict[int, _T]:
    """What `work` returns on each active rank, known to all; the others wait. Collective over the launch.
    `arm` is what a fault will name.

    Raises `PointFault` on all ranks where one has not the memory. (A rank that lacks it only within DDP leaves the
    others to their collective's time-out; the arms without DDP come first.)
    """
    result: Any = None
    if ranks.rank in active:
        try:
            result = work()
        except _PeerNotReady:
            pass  # the peer tells its own fault
        except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
            if not _is_out_of_memory(error):
                raise
            said = next(iter(str(error).splitlines()), type(error).__name__)  # Python's own MemoryError says nothing
            result = Fault(reason=f"out of memory: {said}", arm=arm, rank=ranks.rank)
    results = ranks.gather(result)
    for item in results:
        if isinstance(item, Fault):
            raise PointFault("oom", item)
    return {rank: results[rank] for rank in active}


class _PeerNotReady(Exception):
    """Another rank of the block has no memory for it, so nobody begins."""


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def run_blocks(
    ranks: Ranks,
    state: PointState,
    arm: str,
    active: tuple[int, ...],
    steps: tuple[int, int],
    cores: tuple[int, ...] | None,
) -> dict[int, Block]:
    """One block of an arm on the active ranks, `steps` of warm-up and timed. Collective over the launch.

    `cores` are this rank's own. Raises `PointFault` on all ranks where memory lacks or a loss is not finite.
    """
    device = ranks.device

    met = False

    def meet() -> None:
        nonlocal met
        met = True
        if len(active) > 1 and not align(state.group):
            raise _PeerNotReady

    def block() -> Block:
        try:
            group, injector = state.group if uses_ddp(arm) else None, state.injector
            replica = Replica(state.point, arm, device, group, None, injector)
            step = injector.after(replica.step, arm) if injector else replica.step
            return time_block(step, state.batches_of(arm, device), *steps, device, meet, cores)
        except (MemoryError, RuntimeError) as error:
            # without DDP the others wait at the meeting; within DDP they wait in a collective of their own, to its end
            if _is_out_of_memory(error) and len(active) > 1 and not met and not uses_ddp(arm):
                align(state.group, ready=False)
            raise

    blocks = together(ranks, active, block, arm)
    for rank, done in blocks.items():
        if done.nan_step is not None:
            reason = f"the loss is not finite at step {done.nan_step} of {arm}"
            raise PointFault("nan", Fault(reason=reason, arm=arm, rank=rank, step=done.nan_step))
    return blocks
