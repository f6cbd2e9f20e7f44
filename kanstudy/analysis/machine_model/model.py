"""A machine as constants, and what a training step costs on it, without any noise: every time follows from them.

A step of b rows on one rank alone takes

    forward + backward = (launch_s^k + work^k)^(1/k),   work = b · (FLOP / flops_per_s + bytes / activation_bytes_per_s)
    optimizer = optimizer_s + optimizer_s_per_parameter · parameters

with the FLOP and the activations' bytes of a row (see `work`; a row above `cache_rows` costs `spill_factor` times as
much), times the rank's slowness. k = 1 on a CPU, which launches and works in turn; on a GPU launches hide behind work,
and the longer of the two counts (k large). Ranks of a node that run at once slow each other, DDP adds its own cost, and
gradients travel bucket by bucket while backward goes on.
The defaults are the ideal machine: each cause of lost efficiency is absent until it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from kanstudy.analysis.machine_model import memory, overlap
from kanstudy.analysis.machine_model.buckets import gradient_buckets, last_layers
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.machine_model.work import (
    activation_bytes_per_sample,
    buffer_bytes,
    flops_per_sample,
    layer_activation_bytes,
    layer_backward_flops,
    layer_bytes,
    n_parameters,
    rows,
)
from kanstudy.analysis.network.network import Network
from kanstudy.layout import layout_of
from kanstudy.spec import PointSpec, is_number

_OTHER_FIELDS = ("name", "noise", "network", "rank_slowness")
_UNLIMITED = ("cache_rows", "memory_bytes", "ranks_per_node", "nodes")
_POSITIVE = ("flops_per_s", "spill_factor", "cache_rows", "memory_bytes")


@dataclass(frozen=True, kw_only=True)
class MachineModel:
    """The constants of a machine on which rank r is `rank_slowness[r % len]` times slower than the nominal device.

    - `flops_per_s`: achieved rate of the model's matrix products; `activation_bytes_per_s`: of the bytes that what
      works element by element moves (infinite: the products' rate contains all);
    - `launch_s`: fixed cost of forward and backward, s, joined to work by `launch_exponent` >= 1; `backward_share` of
      the two together is backward (2/3: gradients of weights and of inputs, against one product in forward);
    - `optimizer_s`, `optimizer_s_per_parameter`: of the optimizer, s;
    - `cache_rows`: rows of a step up to which a row costs its nominal time (None: always), `spill_factor` beyond;
    - `contention`: n ranks of a node at once are 1 + contention·(n - 1) times slower than one alone;
    - `ddp_s`, `ddp_s_per_byte`: DDP's own work a step within backward, s, and s a byte of gradients (its copies);
    - `ranks_per_node` (None: all ranks are on one node), `nodes` (None: as many as asked for), `network`: between them;
    - `bucket_s`, `bucket_s_per_byte`: what a bucket's collective takes within a step beyond one by itself, s and s a
      byte: its queue, threads that wake up, buffers that are not in the cache;
    - `streams`: buckets that may travel at once (1 with NCCL, 2 with gloo); `overlap_slowdown`: backward goes
      1/(1 + overlap_slowdown) as fast while one does;
    - `memory_bytes`: a rank's memory (None: unlimited); `noise`: all that is random.

    Raises `ValueError` naming field, value and what is allowed.
    """

    name: str = "ideal machine"
    flops_per_s: float = 2e10
    activation_bytes_per_s: float = math.inf
    launch_s: float = 0.0
    launch_exponent: float = 1.0
    backward_share: float = 2 / 3
    optimizer_s: float = 0.0
    optimizer_s_per_parameter: float = 0.0
    cache_rows: int | None = None
    spill_factor: float = 1.0
    rank_slowness: tuple[float, ...] = (1.0,)
    contention: float = 0.0
    ddp_s: float = 0.0
    ddp_s_per_byte: float = 0.0
    ranks_per_node: int | None = None
    nodes: int | None = None
    network: Network = field(default_factory=Network)
    bucket_s: float = 0.0
    bucket_s_per_byte: float = 0.0
    streams: int = 1
    overlap_slowdown: float = 0.0
    memory_bytes: float | None = None
    noise: Noise = field(default_factory=Noise)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank_slowness", tuple(self.rank_slowness))
        for item in fields(self):
            name, value = item.name, getattr(self, item.name)
            if name in _OTHER_FIELDS or (name in _UNLIMITED and value is None):
                continue
            good, allowed = _check(name, value)
            _require(good, name, value, allowed)
        slowness = self.rank_slowness
        good = bool(slowness) and all(is_number(value) and value > 0 for value in slowness)
        _require(good, "rank_slowness", slowness, "at least one number > 0")
        _require(isinstance(self.noise, Noise), "noise", self.noise, "a Noise")
        _require(isinstance(self.network, Network), "network", self.network, "a Network")

    def slowness(self, p: int) -> np.ndarray:
        """How many times slower than the nominal device each of p ranks is (p,)."""
        return np.resize(np.array(self.rank_slowness, dtype=float), p)

    def layout(self, point: PointSpec) -> tuple[int, ...]:
        """How many of the point's ranks lie on each of its nodes."""
        p = point.world_size
        if self.ranks_per_node is None:
            return (p,)
        return layout_of(p, point.placement, self.ranks_per_node, self.nodes or p)

    def crowding(self, point: PointSpec) -> float:
        """How many times slower the point's ranks at once are than one alone: as those of its fullest node."""
        return 1 + self.contention * (max(self.layout(point)) - 1)

    def phases_s(self, point: PointSpec, rows: int) -> tuple[float, float, float]:
        """Forward, backward and optimizer of a step on the nominal device alone, s."""
        spilt = 0 if self.cache_rows is None else max(0, rows - self.cache_rows)
        row_s = (
            flops_per_sample(point) / self.flops_per_s
            + activation_bytes_per_sample(point) / self.activation_bytes_per_s
        )
        both = self._joined_s(self.launch_s, row_s * (rows + (self.spill_factor - 1) * spilt))
        optimizer = self.optimizer_s + self.optimizer_s_per_parameter * n_parameters(point)
        return (1 - self.backward_share) * both, self.backward_share * both, optimizer

    def arm_phases_s(self, point: PointSpec, arm: str) -> tuple[float, float, float]:
        """The same within an arm, before waiting and data movement, s."""
        forward, backward, optimizer = self.phases_s(point, rows(point, arm))
        crowding = 1.0 if arm.startswith("serial") else self.crowding(point)
        own = self.ddp_own_s(point) if arm.startswith("ddp") else 0.0
        return crowding * forward, crowding * backward + own, crowding * optimizer

    def ddp_own_s(self, point: PointSpec) -> float:
        """DDP's own work in a step's backward, on the nominal device, s."""
        return self.ddp_s + self.ddp_s_per_byte * sum(layer_bytes(point))

    def allreduce_s(self, point: PointSpec, message_bytes: float) -> float:
        """Time of an all-reduce among the point's ranks by itself, s."""
        return self.network.allreduce_s(message_bytes, self.layout(point))

    def ready_shares(self, point: PointSpec) -> np.ndarray:
        """The share of a DDP step's backward after which each gradient bucket is complete (buckets,).

        In proportion to the backward work behind the bucket: that of its last layer and of all layers after that.
        """
        launch_s = self.launch_s / len(point.layer_shapes)
        layers_s = [
            self._joined_s(launch_s, point.local_batch_size * (flops / self.flops_per_s + elementwise_s))
            for flops, elementwise_s in zip(
                layer_backward_flops(point),
                # of the elementwise work, as of the products, two thirds are backward's
                (2 / 3 * size / self.activation_bytes_per_s for size in layer_activation_bytes(point)),
                strict=True,
            )
        ]
        behind_s = np.cumsum(layers_s[::-1])[::-1]
        return behind_s[last_layers(point)] / behind_s[0]

    def exposed_s(self, point: PointSpec, backward_s: np.ndarray) -> np.ndarray:
        """What a DDP step takes beyond its computation where the slowest rank's backward takes `backward_s`, s.

        That is what the buckets' all-reduces outlast backward (`overlap`), and the broadcast of buffers, if any.
        """
        outlasts = self.outlasting_s(point, backward_s)
        if not point.sync_buffers:
            return outlasts
        return outlasts + self.network.broadcast_s(buffer_bytes(point), self.layout(point))

    def outlasting_s(
        self, point: PointSpec, backward_s: np.ndarray, collective_s: Callable[[float], float] | None = None
    ) -> np.ndarray:
        """What the point's gradient buckets outlast backward, s; see `bucket_times_s` and `overlap`."""
        delays_s, transfers_s = self.bucket_times_s(point, collective_s)
        ready = self.ready_shares(point)
        return overlap.exposed_s(backward_s, ready, delays_s, transfers_s, self.streams, self.overlap_slowdown)

    def bucket_times_s(
        self, point: PointSpec, collective_s: Callable[[float], float] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of each gradient bucket (buckets,) the delay, and the time for which it moves bytes, s, if it is alone.

        A bucket is all-reduced, or travels by another collective, of which so many bytes by themselves take
        `collective_s`.
        """
        collective_s = collective_s or partial(self.allreduce_s, point)
        sizes = np.array(gradient_buckets(point))
        alone = point.world_size == 1
        more_s, more_s_per_byte = (0.0, 0.0) if alone else (self.bucket_s, self.bucket_s_per_byte)
        times_s = np.array([collective_s(size) for size in sizes]) + more_s + more_s_per_byte * sizes
        delays_s = np.minimum(times_s, collective_s(0) + more_s)  # an empty message takes its delays alone
        return delays_s, times_s - delays_s

    def peak_memory_bytes(self, point: PointSpec, arm: str) -> int:
        """The most bytes that a rank's tensors hold during a step of the arm."""
        return memory.peak_memory_bytes(point, arm)

    def fits(self, point: PointSpec, arm: str) -> bool:
        """Whether a rank's memory holds the arm's step."""
        return self.memory_bytes is None or self.peak_memory_bytes(point, arm) <= self.memory_bytes

    def _joined_s(self, launch_s: float, work_s: float) -> float:
        """Launches and work together, s: their sum, or, the larger the exponent, the longer of the two."""
        longer = max(launch_s, work_s)
        if longer == 0:
            return 0.0
        k = self.launch_exponent
        return longer * ((launch_s / longer) ** k + (work_s / longer) ** k) ** (1 / k)


def spread_ranks(p: int, sd: float, seed: int) -> tuple[float, ...]:
    """Slownesses of p devices of one make: log-normal around 1 with standard deviation `sd` of the logarithm."""
    return tuple(np.exp(sd * np.random.default_rng(seed).standard_normal(p)).tolist())


def _check(name: str, value: Any) -> tuple[bool, str]:
    """Whether a constant is as it must be, and how that is."""
    finite = is_number(value)
    if name in ("ranks_per_node", "nodes", "streams"):
        return finite and isinstance(value, int) and value >= 1, "a whole number >= 1"
    if name == "activation_bytes_per_s":
        return value == math.inf or (finite and value > 0), "a number > 0"
    if name == "launch_exponent":
        return finite and value >= 1, "a number >= 1"
    if name == "backward_share":
        return finite and 0 < value < 1, "a number between 0 and 1"
    if name in _POSITIVE:
        return finite and value > 0, "a number > 0"
    return finite and value >= 0, "a number >= 0"


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
