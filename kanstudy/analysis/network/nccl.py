"""Which algorithm and protocol NCCL takes, and how long it expects that to last: a model after its own tuner.

For each algorithm (ring, tree) and protocol (LL, LL128, Simple) the tuner adds a base latency, the latencies of the
hops, and bytes over the bandwidth that the protocol reaches, and takes the least (NVIDIA/nccl, src/graph/tuning.cc;
the constants are those of 2.27 to 2.30). Before 2.21 LL got half of the bandwidth it gets here.

A link's `latency_s` is the hop of a ring with protocol Simple: 5.7 us over PCIe or shared memory, 3.4 us over NVLink,
14 us between nodes are the tuner's own values. The hops of all others are to it as they are in the tuner. Its limits a
channel and a GPU generation, which bind above some 20 GB/s, and NVLS, CollNet and PAT are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kanstudy.analysis.network.link import Tiers
from kanstudy.network_words import NCCL_PROTOCOLS

ALGORITHMS = ("Ring", "Tree")
"""Those of `NCCL_ALGORITHMS` that are modelled."""

_BASE_US = {"Ring": (6.6, 14.0, 8.4), "Tree": (6.8, 14.0, 8.4)}
_HOP_US = {
    "pcie": {"Ring": (1.0, 2.5, 5.7), "Tree": (1.0, 1.9, 4.0)},
    "nvlink": {"Ring": (0.6, 1.9, 3.4), "Tree": (0.6, 1.25, 4.0)},
    "net": {"Ring": (2.7, 4.0, 14.0), "Tree": (5.0, 8.5, 14.0)},
}
"""By the kind of link and the algorithm, in the order of `NCCL_PROTOCOLS`."""
_SIMPLE = NCCL_PROTOCOLS.index("Simple")
_LAUNCH_OF_NETWORK_US = (1.0, 1.0, 3.0)
"""The least that a step of a ring takes where some of its steps go between nodes."""
_PLATEAU = 1.4
"""Of the latency of a ring with protocol Simple between nodes."""
_RING_SHARE = (0.5, 0.92, 1.0)
"""Share of its bandwidth that a ring reaches with each protocol."""
_TREE_BY_SIZE = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)
"""Share of its bandwidth that a tree reaches by size, 64 bytes to 256 MiB in powers of two, a row a protocol."""


@dataclass(frozen=True)
class Choice:
    """What serves a message: algorithm, protocol ("" where the algorithm has none) and the time expected, s."""

    algorithm: str
    protocol: str
    time_s: float

    def __str__(self) -> str:
        return f"{self.algorithm} {self.protocol}".strip()


def allreduce_choices(message_bytes: float, layout: Sequence[int], tiers: Tiers, nvlink: bool) -> list[Choice]:
    """Every algorithm with every protocol and what an all-reduce takes with it, for two ranks and more."""
    return [
        Choice(algorithm, protocol, time_s(message_bytes, layout, tiers, nvlink, algorithm, protocol))
        for algorithm in ALGORITHMS
        for protocol in NCCL_PROTOCOLS
    ]


def time_s(
    message_bytes: float, layout: Sequence[int], tiers: Tiers, nvlink: bool, algorithm: str, protocol: str
) -> float:
    """What the tuner expects of an all-reduce with this algorithm and protocol, s.

    A ring of p ranks on m nodes takes 2(p-m) steps inside nodes and 2(m-1) between them, and moves 2(p-1)/p of the
    message; a double tree climbs ⌊log2 m⌋ levels twice, and moves all of it twice.
    """
    p, m, which = sum(layout), len(layout), NCCL_PROTOCOLS.index(protocol)
    inside, between = _hops_s(layout, tiers, nvlink, algorithm, which)
    if algorithm == "Tree":
        latency = 2 * ((p // m - 1) * inside + math.floor(math.log2(m)) * between)
        moved = 2 * message_bytes / _tree_share(message_bytes, m, which)
    else:
        latency = _ring_steps_s(2 * (p - m), 2 * (m - 1), m, inside, between, which)
        moved = 2 * (p - 1) / p * message_bytes / _RING_SHARE[which]
    latency += _BASE_US[algorithm][which] * 1e-6
    if algorithm == "Ring" and which == _SIMPLE and m > 1 and message_bytes / p >= 64:
        latency *= _PLATEAU
    return latency + moved / tiers.bytes_per_s(layout)


def ring_half_s(message_bytes: float, layout: Sequence[int], tiers: Tiers, nvlink: bool, protocol: str) -> float:
    """What the tuner expects of a reduce-scatter or an all-gather, which are rings, s."""
    p, m, which = sum(layout), len(layout), NCCL_PROTOCOLS.index(protocol)
    inside, between = _hops_s(layout, tiers, nvlink, "Ring", which)
    latency = _BASE_US["Ring"][which] * 1e-6 + _ring_steps_s(p - m, m - 1, m, inside, between, which)
    return latency + (p - 1) / p * message_bytes / _RING_SHARE[which] / tiers.bytes_per_s(layout)


def broadcast_s(message_bytes: float, layout: Sequence[int], tiers: Tiers, nvlink: bool, protocol: str) -> float:
    """What the tuner expects of a broadcast, a chain of p hops, each as one of the outer tier, s."""
    which = NCCL_PROTOCOLS.index(protocol)
    algorithm = "Tree" if which == _SIMPLE else "Ring"  # the tuner's way to count a chunk's latency
    kind, link = ("net", tiers.between) if len(layout) > 1 else ("nvlink" if nvlink else "pcie", tiers.inside)
    latency = _BASE_US["Ring"][which] * 1e-6 + sum(layout) * _hop_s(link.latency_s, kind, algorithm, which)
    return latency + message_bytes / _RING_SHARE[which] / tiers.bytes_per_s(layout)


def _hops_s(layout: Sequence[int], tiers: Tiers, nvlink: bool, algorithm: str, which: int) -> tuple[float, float]:
    """A hop inside a node and one between nodes, s; of one rank a node nothing hides what a hop takes."""
    exposed = "Tree" if sum(layout) == len(layout) else algorithm
    kind = "nvlink" if nvlink else "pcie"
    return (
        _hop_s(tiers.inside.latency_s, kind, algorithm, which),
        _hop_s(tiers.between.latency_s, "net", exposed, which),
    )


def _hop_s(latency_s: float, kind: str, algorithm: str, which: int) -> float:
    return latency_s * _HOP_US[kind][algorithm][which] / _HOP_US[kind]["Ring"][_SIMPLE]


def _ring_steps_s(near: int, far: int, nodes: int, inside: float, between: float, which: int) -> float:
    if nodes > 1:
        inside = max(inside, _LAUNCH_OF_NETWORK_US[which] * 1e-6)
    return near * inside + far * between


def _tree_share(message_bytes: float, nodes: int, which: int) -> float:
    """Share of the bandwidth that a tree reaches: with any protocol, with this one, at this size."""
    protocol = (1 / 3.8, 7 / 9 if nodes == 1 else 120 / 128, 1.0)[which]
    place = int(message_bytes // 64).bit_length() - 1
    by_size = _TREE_BY_SIZE[which][place] if 0 <= place < len(_TREE_BY_SIZE[which]) else 1.0
    return 0.92 * protocol * by_size
