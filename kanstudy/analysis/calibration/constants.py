"""The constants that a calibration fits: costs, each linear in time, so that 0 means that a cost is absent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from kanstudy.analysis.calibration.compute import Curve
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.network.network import Link, Network

_NEVER = 1e-30
"""Seconds a unit where a fitted cost is 0: `MachineModel` states rates."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Fitted constants of `MachineModel`, with reciprocals of its rates; `_latency_s` and `_s_per_byte` are those of
    the links inside a node and between nodes, None where no all-reduce was measured over them."""

    launch_s: float
    launch_exponent: float
    s_per_flop: float
    s_per_activation_byte: float
    backward_share: float
    optimizer_s: float
    optimizer_s_per_parameter: float
    contention: float = 0.0
    ddp_s: float = 0.0
    ddp_s_per_byte: float = 0.0
    bucket_s: float = 0.0
    bucket_s_per_byte: float = 0.0
    overlap_slowdown: float = 0.0
    inside_latency_s: float | None = None
    inside_s_per_byte: float | None = None
    between_latency_s: float | None = None
    between_s_per_byte: float | None = None

    def on(self, machine: MachineModel) -> MachineModel:
        """The machine with these constants in place of its own; a link that was not fitted stays as it is."""
        network = machine.network
        return replace(
            machine,
            launch_s=self.launch_s,
            launch_exponent=self.launch_exponent,
            flops_per_s=1 / max(self.s_per_flop, _NEVER),
            activation_bytes_per_s=_rate(self.s_per_activation_byte),
            backward_share=self.backward_share,
            optimizer_s=self.optimizer_s,
            optimizer_s_per_parameter=self.optimizer_s_per_parameter,
            contention=self.contention,
            ddp_s=self.ddp_s,
            ddp_s_per_byte=self.ddp_s_per_byte,
            bucket_s=self.bucket_s,
            bucket_s_per_byte=self.bucket_s_per_byte,
            overlap_slowdown=self.overlap_slowdown,
            network=replace(
                network,
                inside=_link(self.inside_latency_s, self.inside_s_per_byte, network),
                between=_link(self.between_latency_s, self.between_s_per_byte, network, between=True),
            ),
        )

    @property
    def curve(self) -> Curve:
        """The step of one rank alone."""
        return Curve(**{field.name: getattr(self, field.name) for field in fields(Curve)})

    def with_links(self, network: Network, tiers: Sequence[str]) -> Constants:
        """The same with those links of a network that were fitted."""
        links: dict[str, float] = {}
        for tier in tiers:
            link: Link = getattr(network, tier)
            links |= {f"{tier}_latency_s": link.latency_s, f"{tier}_s_per_byte": 1 / link.bytes_per_s}
        return replace(self, **links)


def _link(latency_s: float | None, s_per_byte: float | None, network: Network, between: bool = False) -> Link:
    if latency_s is None or s_per_byte is None:
        return network.between if between else network.inside
    return Link(latency_s=latency_s, bytes_per_s=_rate(s_per_byte))


def _rate(s_per_unit: float) -> float:
    return 1 / s_per_unit if s_per_unit > 0 else math.inf
