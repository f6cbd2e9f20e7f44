"""Some ranks work while the others wait: what one of them tells reaches all."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import tiny_point

from kanstudy.record import Fault
from kanstudy.worker.blocks import PointFault, PointState, together

CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB\nmore words"


def ranks(told_by_others: Any = None) -> Any:
    """Rank 0 of two, the other of which has told that."""
    return SimpleNamespace(rank=0, gather=lambda item: [item, told_by_others])


def fail(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError(CUDA), "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"),
        (MemoryError("cannot hold 9 TiB"), "cannot hold 9 TiB"),
        (MemoryError(), "MemoryError"),  # Python's own has no words
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "DefaultCPUAllocator: can't allocate"),
    ],
)
def test_a_lack_of_memory_is_the_points_whatever_says_it(error: Exception, reason: str) -> None:
    with pytest.raises(PointFault) as caught:
        together(ranks(), (0,), lambda: fail(error), "ddp")
    assert caught.value.status == "oom"
    assert (caught.value.fault.rank, caught.value.fault.arm) == (0, "ddp")
    assert caught.value.fault.reason.startswith(f"out of memory: {reason}")
    assert "\n" not in caught.value.fault.reason


def test_the_fault_of_one_rank_is_told_on_all() -> None:
    fault = Fault(reason="out of memory", arm="ddp", rank=1)
    with pytest.raises(PointFault) as caught:
        together(ranks(fault), (0, 1), lambda: "a result", "ddp")
    assert caught.value.fault is fault


def test_a_point_that_is_over_holds_no_memory() -> None:
    class Wrapper:
        def __init__(self) -> None:
            self.itself = self

    state = PointState(
        point=tiny_point(), members=(0,), group=None, position=0, data=None, rounds=1, done=0, record=None,
        batches=Wrapper(),
    )  # type: ignore[arg-type]  # fmt: skip
    batches, garbage = weakref.ref(state.batches), weakref.ref(Wrapper())
    state.release()
    assert (batches(), garbage()) == (None, None)


def test_another_error_is_no_lack_of_memory() -> None:
    with pytest.raises(RuntimeError, match="no such kernel"):
        together(ranks(), (0,), lambda: fail(RuntimeError("no such kernel")))
    assert together(ranks("b"), (0, 1), lambda: "a") == {0: "a", 1: "b"}
