"""Where the groups of a strategy lie: ranks that hold a model together beside each other, replicas across."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanstudy.analysis.network.network import Network


@dataclass(frozen=True)
class Group:
    """Ranks that communicate while the other groups of their kind do: how many lie on each node, and how many groups
    use the link of its busiest node, each for its share (the contention coefficient of Kahira et al. 2021)."""

    layout: tuple[int, ...]
    sharing: int

    def time_s(self, network: Network, collective: str, message_bytes: float) -> float:
        """Time of one of a network's collectives, s."""
        between = replace(network.between, bytes_per_s=network.between.bytes_per_s / self.sharing)
        call: Callable[[float, Sequence[int]], float] = getattr(replace(network, between=between), f"{collective}_s")
        return call(message_bytes, self.layout)


def tensor_groups(layout: Sequence[int], tensor_ranks: int) -> set[Group]:
    """The groups of neighbouring ranks that hold a model together, those that are alike once."""
    return _groups(_nodes(layout).reshape(-1, tensor_ranks))


def replica_groups(layout: Sequence[int], tensor_ranks: int) -> set[Group]:
    """The groups of ranks that hold the same slice of each replica, those that are alike once."""
    return _groups(_nodes(layout).reshape(-1, tensor_ranks).T)


def slowest_s(groups: set[Group], network: Network, collective: str, message_bytes: float) -> float:
    """Time until a collective has ended in every group, s."""
    return max(group.time_s(network, collective, message_bytes) for group in groups)


def _nodes(layout: Sequence[int]) -> np.ndarray:
    """The node of each rank, for so many ranks on each node."""
    return np.repeat(np.arange(len(layout)), layout)


def _groups(nodes: np.ndarray) -> set[Group]:
    """Of the nodes (groups, ranks) on which the ranks of each group lie."""
    counts = np.stack([(nodes == node).sum(axis=1) for node in range(nodes.max() + 1)], axis=1)
    leaving = (counts > 0) & (np.count_nonzero(counts, axis=1, keepdims=True) > 1)
    sharing = np.maximum(1, (leaving * leaving.sum(axis=0)).max(axis=1))
    return {
        Group(tuple(sorted((int(count) for count in row if count), reverse=True)), int(share))
        for row, share in zip(counts, sharing, strict=True)
    }
