"""Collectives in closed form over two tiers of links: S bytes, p ranks on m nodes, at most n of them on one.

In one tier of latency α and bandwidth B:

| algorithm | all-reduce | source |
|---|---|---|
| ring | 2(p-1)·α + 2(p-1)/p · S/B | Patarasuk & Yuan 2009; no other needs less bandwidth |
| halving-doubling | 2·log2 p · α + 2(p-1)/p · S/B | Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005 |
| hierarchical | a ring inside nodes, one between them | Thakur, Rabenseifner & Gropp 2005, of each ring |
| tree | 2·(n-1 + log2 m)·α + 2·S/B | two trees that share the work: Sanders, Speck & Träff 2009 |

All but the tree are a reduce-scatter and then an all-gather, each of half that time. Reduction itself is not counted
apart from B. Logarithms are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kanstudy.analysis.network.link import Tiers


def ring(message_bytes: float, layout: Sequence[int], tiers: Tiers) -> float:
    """A reduce-scatter, or an all-gather, of p-1 steps around all ranks, each as slow as its slowest link, s.

    Ranks of a node are neighbours, so that one message at a time enters and leaves it.
    """
    p = sum(layout)
    return (p - 1) * tiers.slowest_s(message_bytes / p, layout)


def hierarchical(message_bytes: float, layout: Sequence[int], tiers: Tiers) -> float:
    """A reduce-scatter by a ring inside each node, then by rings between nodes over what each rank has; or back, s.

    The rings between nodes share a node's link, so that S/m bytes a step pass it however many ranks the node has.
    """
    n, m = max(layout), len(layout)
    return (n - 1) * tiers.inside.message_s(message_bytes / n) + (m - 1) * tiers.between.message_s(message_bytes / m)


def halving_doubling(message_bytes: float, layout: Sequence[int], tiers: Tiers) -> float:
    """A reduce-scatter by vector halving and distance doubling, or the all-gather that undoes it, s.

    Ranks beyond a power of two give their vector to a neighbour first, and get the result of it at the end. There, and
    where nodes have unlike numbers of ranks, not every step waits for the slowest pair of the one before, as is counted
    here: then this is an upper bound, by up to some 40 % in simulations (else exact).
    """
    nodes = np.repeat(np.arange(len(layout)), layout)
    power = 2 ** (len(nodes).bit_length() - 1)
    beyond = len(nodes) - power
    total = _exchange_s(message_bytes, nodes[: 2 * beyond : 2], nodes[1 : 2 * beyond : 2], tiers)
    taking_part = np.concatenate([nodes[1 : 2 * beyond : 2], nodes[2 * beyond :]])
    distance = 1
    while distance < power:
        partners = taking_part[np.arange(power) ^ distance]
        total += _exchange_s(message_bytes / (2 * distance), taking_part, partners, tiers)
        distance *= 2
    return total


def _exchange_s(message_bytes: float, nodes: np.ndarray, partners: np.ndarray, tiers: Tiers) -> float:
    """All pairs exchange a message at once, s: ranks on `nodes` (k,) with ranks on `partners` (k,)."""
    leaving = nodes[nodes != partners]
    inside = tiers.inside.message_s(message_bytes) if len(leaving) < len(nodes) else 0.0
    between = tiers.between.message_s(message_bytes * np.bincount(leaving).max()) if len(leaving) else 0.0
    return float(max(inside, between))


def tree_allreduce(message_bytes: float, layout: Sequence[int], tiers: Tiers) -> float:
    """Reduction to a root and broadcast from it, as NCCL lays trees: chains inside nodes, a double binary tree between.

    Every rank sends and receives the vector twice. Pieces are taken to be as small as the bandwidth allows, so that
    filling the pipeline costs latency alone (so does NCCL's tuner), s.
    """
    if sum(layout) == 1:
        return 0.0
    hops = (max(layout) - 1) * tiers.inside.latency_s + doublings(len(layout)) * tiers.between.latency_s
    return 2 * hops + 2 * message_bytes / tiers.bytes_per_s(layout)


def broadcast(message_bytes: float, layout: Sequence[int], tiers: Tiers, at_once: bool = False) -> float:
    """A binomial tree over nodes, then inside each: h·(α + S/B), h = ⌈log2 p⌉, in one tier, s (Thakur, Rabenseifner &
    Gropp 2005).

    A rank that sends to all its children `at_once` shares its link between them: the root's h children have the message
    after h·S/B, the last of them its h-1 children after (h-1)·S/B more, so that S/B counts h(h+1)/2 times.
    """
    total = 0.0
    for link, count in ((tiers.between, len(layout)), (tiers.inside, max(layout))):
        hops = doublings(count)
        total += hops * link.latency_s + (hops * (hops + 1) / 2 if at_once else hops) * message_bytes / link.bytes_per_s
    return total


def doublings(count: int) -> int:
    """⌈log2 count⌉."""
    return math.ceil(math.log2(count))
