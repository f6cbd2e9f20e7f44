"""What a step at a point takes on a machine: the chain of times in closed form, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kanstudy.analysis import metrics
from kanstudy.analysis.attribution.chain import links
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.spec import ARMS, PointSpec


@dataclass(frozen=True)
class Expected:
    """`times_s` of the columns of the chain, s a step, the `factors` that are the ratios of neighbours, and their
    product, the parallel `efficiency`."""

    times_s: dict[str, float]
    factors: dict[str, float]
    efficiency: float

    @property
    def step_time_s(self) -> float:
        """A step of DDP, s."""
        return self.times_s["ddp"]

    @property
    def overhead(self) -> float:
        """The share of a DDP step that communication adds, 1 - T_noop/T_ddp."""
        return float(metrics.communication_overhead(self.times_s["ddp_noop"], self.times_s["ddp"]))

    @property
    def exposed_s(self) -> float:
        """What communication adds to a DDP step, s."""
        return self.times_s["ddp"] - self.times_s["ddp_noop"]


def expected(point: PointSpec, machine: MachineModel) -> Expected:
    """The point on the machine without its noise, all arms of the attribution, whichever the point asks for.

    The baseline is the device of mean slowness. Without noise no step waits longer than the slowest rank takes, so
    that synchronisation is 1.
    """
    if point.arms != ARMS:
        point = replace(point, arms=ARMS)
    slowness = machine.slowness(point.world_size)
    mean, slowest = float(slowness.mean()), float(slowness.max())
    alone_s, local_s, crowded_s, ddp_s = (
        sum(machine.arm_phases_s(point, arm)) for arm in ("serial_global", "serial_local", "concurrent", "ddp_noop")
    )
    backward_s = slowest * machine.arm_phases_s(point, "ddp")[1]
    times = {
        "serial_global": mean * alone_s,
        "serial_local_mean": mean * local_s,
        "serial_local": slowest * local_s,
        "concurrent": slowest * crowded_s,
        "ddp_noop": slowest * ddp_s,
        "ddp_noop_every_step": slowest * ddp_s,
        "ddp": slowest * ddp_s + float(machine.exposed_s(point, np.array(backward_s))),
    }
    return of_times(point, times)


def of_times(point: PointSpec, times_s: dict[str, float]) -> Expected:
    """What follows from the columns of the chain that are known at a point; without all of them there are no factors,
    and without baseline or DDP the efficiency is NaN."""
    pairs = links(point)
    scale = 1 / point.world_size if point.scaling == "strong" else 1.0
    complete = all(name in times_s for pair in pairs.values() for name in pair)
    factors = {name: times_s[a] / times_s[b] for name, (a, b) in pairs.items()} if complete else {}
    if "batch" in factors:
        factors["batch"] *= scale
    baseline = times_s.get(next(iter(pairs.values()))[0], np.nan)
    return Expected(times_s, factors, scale * baseline / times_s.get("ddp", np.nan))
