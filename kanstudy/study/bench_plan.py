"""What an operator benchmark measures: which shapes and candidates, how often; checked before anything starts."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from kanstudy.bench_record import DEFAULT_SHAPES, OPERATORS, PEERS, shape_of
from kanstudy.machine import core_order

DEFAULT_ROUNDS = 20
NOT_INSTALLED = "is not installed: pip install 'kanstudy[peers]'"


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """What to measure: shapes by their text, candidates by name, `added` the user's own by name."""

    shapes: tuple[str, ...]
    candidates: tuple[str, ...]
    added: dict[str, str]
    threads: int
    rounds: int
    profile: str | None = None
    seed: int = 0


def plan_bench(
    shapes: Sequence[str] = (),
    operators: Sequence[str] = (),
    added: dict[str, str] | None = None,
    *,
    peers: bool = True,
    threads: int = 1,
    rounds: int = DEFAULT_ROUNDS,
    profile: str | None = None,
) -> BenchPlan:
    """The plan: without `shapes` the usual ones, without `operators` all, with the peers unless `peers` is false.

    Raises `ValueError` naming what is wrong, also where a peer named in `operators` is not installed.
    """
    added = added or {}
    texts = tuple(dict.fromkeys(str(shape_of(shape)) for shape in shapes or DEFAULT_SHAPES))
    known = (*OPERATORS, *PEERS, *added)
    for name in operators:
        if name not in known:
            raise ValueError(f"operator {name!r}: must be one of {', '.join(known)}")
        if name in PEERS and not is_installed(name):
            raise ValueError(f"operator {name!r}: {NOT_INSTALLED}")
    names = operators or (*OPERATORS, *(PEERS if peers else ()))
    names = tuple(dict.fromkeys((*names, *added)))
    if not 1 <= threads <= len(core_order()):
        raise ValueError(f"threads = {threads}: must be from 1 to {len(core_order())}, the cores that are usable here")
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}: must be at least 1")
    return BenchPlan(shapes=texts, candidates=names, added=added, threads=threads, rounds=rounds, profile=profile)


def is_installed(peer: str) -> bool:
    """Whether a peer's module can be found; it is not imported."""
    return importlib.util.find_spec(PEERS[peer]) is not None
