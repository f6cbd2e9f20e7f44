"""The operator's first steps: where its code is compiled, before anything of the point is timed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kanstudy.worker.arms import Replica
from kanstudy.worker.blocks import PointState, together
from kanstudy.worker.ranks import Ranks

COMPILED = ("compiled", "fused")
"""Operators whose code is made at their first call."""


def take_first_steps(ranks: Ranks, state: PointState, tell: Callable[[], None]) -> None:
    """One rank of each host compiles, then the others load what it left in the host's cache. Collective over the
    launch; nothing to do for an operator that is not compiled.

    `tell` is called before each half, as a sign of life to the launcher. Raises `PointFault` where memory lacks.
    """
    if state.operator not in COMPILED:
        return
    first, others = _one_a_host(ranks.hosts, state.members)
    for active in (first, others):
        tell()
        together(ranks, active, lambda: _first_steps(ranks.device, state))


def _one_a_host(hosts: list[str], members: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first member on each host, and the rest."""
    first = {hosts[member]: member for member in reversed(members)}.values()
    return tuple(sorted(first)), tuple(member for member in members if member not in first)


def _first_steps(device: torch.device, state: PointState) -> None:
    """A step at each batch size that the arms have, and an evaluation, of the plain module: DDP adds no code."""
    for arm in ("serial_global", "serial_local"):
        if arm == "serial_global" and arm not in state.point.arms:  # such a batch may not fit onto a device
            continue
        replica = Replica(state.point, arm, device, None)
        x, y = state.batches_of(arm, device)[0]
        replica.step(x, y)
        with torch.no_grad():
            replica.plain(x)
