"""The constants of a machine by name, and the machine if some of them were other: how a result depends on each, and
on all that are assumed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from kanstudy.analysis.machine_model.model import MachineModel

_CONSTANTS = (
    "flops_per_s",
    "activation_bytes_per_s",
    "launch_s",
    "optimizer_s",
    "optimizer_s_per_parameter",
    "contention",
    "ddp_s",
    "ddp_s_per_byte",
    "overlap_slowdown",
)


def constants(machine: MachineModel) -> dict[str, float]:
    """The constants that a machine model has, by name and in SI units: those that are neither absent nor infinite."""
    found = {name: getattr(machine, name) for name in _CONSTANTS}
    for tier, name in itertools.product(("inside", "between"), ("latency_s", "bytes_per_s")):
        found[f"{tier} {name}"] = getattr(getattr(machine.network, tier), name)
    return {name: value for name, value in found.items() if 0 < value < math.inf}


def drawn_times(names: Iterable[str], rng: np.random.Generator) -> dict[str, float]:
    """By how much assumed constants may be off: for each a number of its own between half and two (log-uniform)."""
    return {name: float(2.0 ** rng.uniform(-1, 1)) for name in names}


def changed(machine: MachineModel, times: Mapping[str, float]) -> MachineModel:
    """The machine with these constants so many times what they are."""
    for constant, time in times.items():
        tier, _, name = constant.rpartition(" ")
        if tier:
            link = getattr(machine.network, tier)
            link = replace(link, **{name: time * getattr(link, name)})
            machine = replace(machine, network=replace(machine.network, **{tier: link}))
        else:
            machine = replace(machine, **{name: time * getattr(machine, name)})
    return machine
