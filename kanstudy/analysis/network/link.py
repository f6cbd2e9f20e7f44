"""A link's cost, and which links a group of ranks uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Link:
    """A message of S bytes takes `latency_s` + S / `bytes_per_s` (Hockney 1994); by default it costs nothing.

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


TIERS = ("inside", "between")


def tiers_of(layout: Sequence[int]) -> tuple[str, ...]:
    """The tiers of `TIERS` that a group of this layout uses; none of one rank."""
    return ("inside",) * (max(layout) > 1) + ("between",) * (len(layout) > 1)


@dataclass(frozen=True)
class Tiers:
    """The links of a network as one algorithm uses them.

    `inside` is what each rank has towards the others of its node, `between` what a node has towards the others: ranks
    of one node that send to other nodes at once share it.
    """

    inside: Link
    between: Link

    def used(self, layout: Sequence[int]) -> list[Link]:
        """The links that a group of this layout uses; none of one rank."""
        return [getattr(self, tier) for tier in tiers_of(layout)]

    def slowest_s(self, message_bytes: float, layout: Sequence[int]) -> float:
        """Time of one message over the slowest link that the group uses, s; 0 of one rank."""
        return max((link.message_s(message_bytes) for link in self.used(layout)), default=0.0)

    def bytes_per_s(self, layout: Sequence[int]) -> float:
        """The lowest bandwidth among the links used."""
        return min((link.bytes_per_s for link in self.used(layout)), default=math.inf)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
