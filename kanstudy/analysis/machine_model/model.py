"""A machine that is not there: what a training step costs on it, without any noise. Every time follows from constants.

A step of b rows on one rank alone takes

    t0 + t1·b,   t0 = launch_s + optimizer_s_per_parameter · parameters,   t1 = FLOP a row / flops_per_s

(a row above `cache_rows` costs `spill_factor` times as much), times the rank's slowness. Ranks that run at once slow
each other, DDP adds its own cost, and gradients travel bucket by bucket on one stream while backward goes on.
The defaults are the ideal machine: each cause of lost efficiency is absent until it is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from itertools import pairwise

import numpy as np

from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Network
from kanstudy.sizes import kan_flops_per_sample, kan_terms, mlp_flops_per_sample
from kanstudy.spec import PointSpec

_BACKWARD_SHARE = 2 / 3
"""Backward's share of forward and backward: gradients of weights and of inputs, against one product in forward."""
_COPIES = {"adam": 4, "sgd": 2}
"""Tensors of the parameters' size that a rank holds: parameters, gradients, the optimizer's moments."""


@dataclass(frozen=True, kw_only=True)
class MachineModel:
    """The constants of a machine on which rank r is `rank_slowness[r % len]` times slower than the nominal device.

    - `flops_per_s`: achieved rate of the model's matrix products, all else that grows with the rows included;
    - `launch_s`: fixed cost of forward and backward, s; `optimizer_s_per_parameter`: of the optimizer, s;
    - `cache_rows`: rows of a step up to which a row costs its nominal time (None: always), `spill_factor` beyond;
    - `contention`: p ranks at once are 1 + contention·(p - 1) times slower than one alone;
    - `ddp_s`: DDP's own work a step within backward, s;
    - `ranks_per_node` (None: all ranks are on one node), `network`: between them;
    - `memory_bytes`: a rank's memory (None: unlimited); `noise`: all that is random.

    Raises `ValueError` naming field, value and what is allowed.
    """

    name: str = "ideal machine"
    flops_per_s: float = 2e10
    launch_s: float = 0.0
    optimizer_s_per_parameter: float = 0.0
    cache_rows: int | None = None
    spill_factor: float = 1.0
    rank_slowness: tuple[float, ...] = (1.0,)
    contention: float = 0.0
    ddp_s: float = 0.0
    ranks_per_node: int | None = None
    network: Network = field(default_factory=Network)
    memory_bytes: float | None = None
    noise: Noise = field(default_factory=Noise)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank_slowness", tuple(self.rank_slowness))
        positive = ("flops_per_s", "spill_factor", "cache_rows", "memory_bytes", "ranks_per_node")
        unlimited = ("cache_rows", "memory_bytes", "ranks_per_node")
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("name", "noise", "network", "rank_slowness") or (item.name in unlimited and value is None):
                continue
            if item.name in positive:
                _require(_is_finite(value) and value > 0, item.name, value, "a number > 0")
            else:
                _require(_is_finite(value) and value >= 0, item.name, value, "a number >= 0")
        slowness = self.rank_slowness
        good = bool(slowness) and all(_is_finite(value) and value > 0 for value in slowness)
        _require(good, "rank_slowness", slowness, "at least one number > 0")
        _require(isinstance(self.noise, Noise), "noise", self.noise, "a Noise")
        _require(isinstance(self.network, Network), "network", self.network, "a Network")

    def slowness(self, p: int) -> np.ndarray:
        """How many times slower than the nominal device each of p ranks is (p,)."""
        return np.resize(np.array(self.rank_slowness, dtype=float), p)

    def crowding(self, p: int) -> float:
        """How many times slower p ranks at once are than one alone."""
        return 1 + self.contention * (p - 1)

    def phases_s(self, point: PointSpec, rows: int) -> tuple[float, float, float]:
        """Forward, backward and optimizer of a step on the nominal device alone, s."""
        spilt = 0 if self.cache_rows is None else max(0, rows - self.cache_rows)
        work = flops_per_row(point) / self.flops_per_s * (rows + (self.spill_factor - 1) * spilt) + self.launch_s
        optimizer = self.optimizer_s_per_parameter * (sum(layer_bytes(point)) / _word(point))
        return (1 - _BACKWARD_SHARE) * work, _BACKWARD_SHARE * work, optimizer

    def arm_phases_s(self, point: PointSpec, arm: str) -> tuple[float, float, float]:
        """The same within an arm, before waiting and data movement, s."""
        forward, backward, optimizer = self.phases_s(point, rows(point, arm))
        crowding = 1.0 if arm.startswith("serial") else self.crowding(point.world_size)
        own = self.ddp_s if arm.startswith("ddp") else 0.0
        return crowding * forward, crowding * backward + own, crowding * optimizer

    def layout(self, point: PointSpec) -> tuple[int, ...]:
        """How many of the point's ranks lie on each of its nodes, filled node after node."""
        per_node = self.ranks_per_node or point.world_size
        full, rest = divmod(point.world_size, per_node)
        return (per_node,) * full + ((rest,) if rest else ())

    def exposed_s(self, point: PointSpec, backward_s: np.ndarray) -> np.ndarray:
        """What a DDP step takes beyond its computation where the slowest rank's backward takes `backward_s`.

        A bucket leaves when the slowest rank has it ready and the one before has arrived (one stream). Gradients are
        ready in proportion to the work behind them; the last bucket with the end of backward, so it is never hidden.
        """
        buckets, layout = gradient_buckets(point), self.layout(point)
        ready = np.cumsum(buckets) / sum(buckets)
        arrived: np.ndarray = np.zeros_like(backward_s)
        for share, size in zip(ready, buckets, strict=True):
            arrived = np.maximum(arrived, share * backward_s) + self.network.allreduce_s(size, layout)
        buffers = self.network.broadcast_s(buffer_bytes(point), layout) if point.sync_buffers else 0.0
        return arrived - backward_s + buffers

    def peak_memory_bytes(self, point: PointSpec, arm: str) -> int:
        """A rank's memory: parameters, gradients and moments, DDP's buckets, and for each row what backward needs
        (the layers' inputs and expanded bases) with its gradients."""
        parameters = sum(layer_bytes(point)) * (_COPIES[point.optimizer] + arm.startswith("ddp"))
        terms = kan_terms(point.grid_size, point.spline_order) if point.model == "kan" else 1  # type: ignore[arg-type]
        row = 2 * _word(point) * sum(before * (1 + terms) + after for before, after in pairwise(point.layer_widths))
        return parameters + row * rows(point, arm)

    def fits(self, point: PointSpec, arm: str) -> bool:
        """Whether a rank's memory holds the arm's step."""
        return self.memory_bytes is None or self.peak_memory_bytes(point, arm) <= self.memory_bytes


def rows(point: PointSpec, arm: str) -> int:
    """Rows that a rank trains in a step of the arm."""
    return point.global_batch_size if arm == "serial_global" else point.local_batch_size


def flops_per_row(point: PointSpec) -> int:
    """Floating-point operations of forward and backward for one row."""
    if point.model == "kan":
        return kan_flops_per_sample(point.layer_widths, point.grid_size, point.spline_order)  # type: ignore[arg-type]
    return mlp_flops_per_sample(point.layer_widths)


def layer_bytes(point: PointSpec) -> list[int]:
    """Bytes of each layer's gradients, input to output: a KAN's weights, or an MLP's weights and biases."""
    if point.model == "kan":
        terms = kan_terms(point.grid_size, point.spline_order)  # type: ignore[arg-type]  # whole in a KAN's point
        return [_word(point) * before * after * terms for before, after in pairwise(point.layer_widths)]
    return [_word(point) * (before + 1) * after for before, after in pairwise(point.layer_widths)]


def buffer_bytes(point: PointSpec) -> int:
    """Bytes of a KAN's knots, which DDP can broadcast in every forward: grid + 2·order + 1 an input."""
    if point.model != "kan":
        return 0
    knots = point.grid_size + 2 * point.spline_order + 1  # type: ignore[operator]  # whole in a KAN's point
    return _word(point) * knots * sum(point.layer_widths[:-1])


def gradient_buckets(point: PointSpec) -> list[int]:
    """DDP's buckets in bytes, in the order in which they leave: layers from the output on, a bucket being full with
    the layer that reaches the cap, so it may be larger (torch's reducer, with the cap given)."""
    buckets = [0]
    for size in reversed(layer_bytes(point)):
        if buckets[-1] >= point.bucket_cap_mb * 2**20:
            buckets.append(0)
        buckets[-1] += size
    return buckets


def spread_ranks(p: int, sd: float, seed: int) -> tuple[float, ...]:
    """Slownesses of p devices of one make: log-normal around 1 with standard deviation `sd` of the logarithm."""
    return tuple(np.exp(sd * np.random.default_rng(seed).standard_normal(p)).tolist())


def _word(point: PointSpec) -> int:
    return 4 if point.dtype == "float32" else 8


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
