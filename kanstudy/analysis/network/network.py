"""A network: two tiers of links, the algorithm of its collectives, and how long these take on any layout of ranks."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kanstudy.analysis.network import closed_forms, nccl
from kanstudy.analysis.network.link import Link, Tiers
from kanstudy.analysis.network.nccl import Choice
from kanstudy.network_words import ALGORITHMS, BASES, NCCL_PROTOCOLS

__all__ = ["ALGORITHMS", "BASES", "GLOO_SHARE", "Choice", "Link", "Network", "of_profile"]

_HALVES = {
    "ring": closed_forms.ring,
    "tree": closed_forms.ring,  # a tree scatters nothing: NCCL takes a ring there
    "halving_doubling": closed_forms.halving_doubling,
    "hierarchical": closed_forms.hierarchical,
    "gloo": closed_forms.ring,
}
GLOO_SHARE = 0.95
"""Of a link's nominal rate that gloo's TCP streams reach: measured at 50 to 200 Mbit/s."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Links `inside` a node (of each rank) and `between` nodes (of each node), and which algorithm runs over them.

    `algorithm` is one of `ALGORITHMS`: ring, tree, halving_doubling, hierarchical as in `closed_forms`; gloo, a ring of
    which each step pays two one-way delays, one to say that the receiver is ready, and which reaches `GLOO_SHARE` of
    the rate (on loopback the latency is a fitted constant, no delay); nccl, the choice of NCCL's tuner (`nccl`).
    `nvlink`, and `nccl_algorithms`, `nccl_protocols`, to which NCCL_ALGO and NCCL_PROTO may hold it, are read by the
    last alone; with no protocols given, LL128 is among them over NVLink only, as by NCCL's default.

    `basis`, one of `BASES`, says where the constants come from.

    A group's *layout* is how many of its ranks lie on each of its nodes: (2, 2, 1) is five ranks on three nodes. Every
    collective takes no time for one rank. `message_bytes` is the whole vector: after a reduce-scatter, and before an
    all-gather, each rank has its p-th part. Raises `ValueError` naming field, value and what is allowed.
    """

    inside: Link = field(default_factory=Link)
    between: Link = field(default_factory=Link)
    algorithm: str = "ring"
    name: str = "network"
    basis: str = "assumed"
    nvlink: bool = False
    nccl_algorithms: tuple[str, ...] = nccl.ALGORITHMS
    nccl_protocols: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value, choices in (("algorithm", self.algorithm, ALGORITHMS), ("basis", self.basis, BASES)):
            if value not in choices:
                raise ValueError(f"{name} = {value!r}: must be one of {', '.join(choices)}")
        if not self.nccl_algorithms or not set(self.nccl_algorithms) <= set(nccl.ALGORITHMS):
            allowed = ", ".join(nccl.ALGORITHMS)
            raise ValueError(f"nccl_algorithms = {self.nccl_algorithms!r}: must be some of {allowed}")
        if not set(self.nccl_protocols) <= set(NCCL_PROTOCOLS):
            allowed = ", ".join(NCCL_PROTOCOLS)
            raise ValueError(f"nccl_protocols = {self.nccl_protocols!r}: must be some of {allowed}")

    def allreduce_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """Time of an all-reduce, s."""
        return self.choice(message_bytes, layout).time_s

    def choice(self, message_bytes: float, layout: Sequence[int]) -> Choice:
        """Which algorithm and protocol serves an all-reduce, and its time: NCCL's of least time, else the one there is.

        The time of `nccl` is not everywhere monotonic in the size: the tuner lowers a tree's bandwidth by steps.
        """
        _check(message_bytes, layout)
        if sum(layout) == 1:
            return Choice("none", "", 0.0)
        if self.algorithm == "nccl":
            return min(self.nccl_choices(message_bytes, layout), key=lambda one: one.time_s)
        if self.algorithm == "tree":
            return Choice("tree", "", closed_forms.tree_allreduce(message_bytes, layout, self._tiers))
        return Choice(self.algorithm, "", 2 * self._half_s(message_bytes, layout))

    def nccl_choices(self, message_bytes: float, layout: Sequence[int]) -> list[Choice]:
        """All that NCCL's tuner compares for an all-reduce of two ranks and more, whatever `algorithm` is."""
        found = nccl.allreduce_choices(message_bytes, layout, self._tiers, self.nvlink)
        return [one for one in found if one.algorithm in self.nccl_algorithms and one.protocol in self._protocols]

    def reduce_scatter_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """Time of a reduce-scatter, s: half an all-reduce where that is a reduce-scatter and an all-gather; over gloo
        all of it, since there torch keeps a part of an all-reduce (measured as long, with 2.13)."""
        if self.algorithm == "gloo":
            return self.allreduce_s(message_bytes, layout)
        _check(message_bytes, layout)
        return self._half_s(message_bytes, layout)

    def allgather_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """Time of an all-gather, s: the steps of the reduce-scatter, backwards."""
        _check(message_bytes, layout)
        return self._half_s(message_bytes, layout)

    def broadcast_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """Time of a broadcast, s: NCCL's chain, else a binomial tree, of which a rank sends to all its children at once
        over gloo."""
        _check(message_bytes, layout)
        if self.algorithm == "nccl" and sum(layout) > 1:
            times = (nccl.broadcast_s(message_bytes, layout, self._tiers, self.nvlink, p) for p in self._protocols)
            return min(times)
        return closed_forms.broadcast(message_bytes, layout, self._tiers, at_once=self.algorithm == "gloo")

    def _half_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        if sum(layout) == 1:
            return 0.0
        if self.algorithm == "nccl":
            times = (nccl.ring_half_s(message_bytes, layout, self._tiers, self.nvlink, p) for p in self._protocols)
            return min(times)
        return _HALVES[self.algorithm](message_bytes, layout, self._tiers)

    @property
    def _protocols(self) -> tuple[str, ...]:
        return self.nccl_protocols or (NCCL_PROTOCOLS if self.nvlink else ("LL", "Simple"))

    @property
    def _tiers(self) -> Tiers:
        if self.algorithm != "gloo":
            return Tiers(self.inside, self.between)
        return Tiers(*(_as_gloo(link) for link in (self.inside, self.between)))


def of_profile(constants: Mapping[str, Any], name: str) -> Network:
    """The network of a profile's table `[network]`, given as the values of its keys, such as `inside_gb_per_s`."""
    inside, between = (
        Link(latency_s=constants[f"{tier}_latency_us"] * 1e-6, bytes_per_s=constants[f"{tier}_gb_per_s"] * 1e9)
        for tier in ("inside", "between")
    )
    return Network(
        inside=inside,
        between=between,
        algorithm=constants["algorithm"],
        name=name,
        basis=constants["basis"],
        nvlink=constants["nvlink"],
    )


def _as_gloo(link: Link) -> Link:
    return Link(latency_s=2 * link.latency_s, bytes_per_s=GLOO_SHARE * link.bytes_per_s)


def _check(message_bytes: float, layout: Sequence[int]) -> None:
    if not (isinstance(message_bytes, numbers.Real) and 0 <= message_bytes < math.inf):
        raise ValueError(f"message_bytes = {message_bytes!r}: must be a number >= 0")
    if not layout or not all(int(ranks) == ranks and ranks >= 1 for ranks in layout):
        raise ValueError(f"layout = {layout!r}: must be the ranks on each node, whole numbers >= 1")
