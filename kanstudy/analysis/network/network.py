"""A network: two tiers of links, ranks on nodes, and the time of collectives between them in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Link:
    """A message of S bytes takes `latency_s` + S / `bytes_per_s` (α-β); by default it costs nothing.

    Raises `ValueError` naming field, value and what is allowed.
    """

    latency_s: float = 0.0
    bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        if not (_is_number(self.latency_s) and 0 <= self.latency_s < math.inf):
            raise ValueError(f"latency_s = {self.latency_s!r}: must be a number >= 0")
        if not (_is_number(self.bytes_per_s) and self.bytes_per_s > 0):
            raise ValueError(f"bytes_per_s = {self.bytes_per_s!r}: must be a number > 0")

    def message_s(self, message_bytes: float) -> float:
        """Time of one message, s."""
        return self.latency_s + message_bytes / self.bytes_per_s


@dataclass(frozen=True, kw_only=True)
class Network:
    """Links `inside` a node and `between` nodes.

    A group's *layout* is how many of its ranks lie on each of its nodes: (2, 2) is four ranks on two nodes.
    """

    inside: Link = field(default_factory=Link)
    between: Link = field(default_factory=Link)

    def allreduce_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """A ring all-reduce, 2(p-1)·α + 2(p-1)/p · S/B, s (Thakur, Rabenseifner & Gropp 2005), at its slowest link."""
        p = sum(layout)
        return 2 * (p - 1) * max(link.message_s(message_bytes / p) for link in self._used(layout))

    def broadcast_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """A binomial-tree broadcast, ⌈log2 p⌉·(α + S/B), s (Thakur, Rabenseifner & Gropp 2005), at its slowest link."""
        return math.ceil(math.log2(sum(layout))) * max(link.message_s(message_bytes) for link in self._used(layout))

    def _used(self, layout: Sequence[int]) -> list[Link]:
        return [self.inside] * (max(layout) > 1) + [self.between] * (len(layout) > 1) or [Link()]


def one_node(latency_s: float = 0.0, bytes_per_s: float = math.inf) -> Network:
    """A network of one node only."""
    return Network(inside=Link(latency_s=latency_s, bytes_per_s=bytes_per_s))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
