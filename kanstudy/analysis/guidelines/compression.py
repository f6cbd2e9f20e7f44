"""Below which bandwidth compression of gradients would pay, as a calibration predicts.

Sending fewer bytes saves exposed communication; packing and unpacking them costs time on every rank. It pays where the
first is more (Agarwal, Wang, Venkataraman & Papailiopoulos 2022). Here half of the bytes are sent, as with half
precision, and packing and unpacking are taken to cost what DDP's own copies of the gradients do, which is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kanstudy.analysis.guidelines.question import Question, Untold, range_text, refit_range
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import layer_bytes
from kanstudy.spec import PointSpec

_SLOWEST, _FASTEST = 1e3, 1e15
"""Bandwidths between which it is searched, bytes/s."""


def compression(question: Question) -> Iterator[dict]:
    """The bandwidth of the link that a step waits for below which it pays, B/s, and whether the link here is slower.

    Raises `Untold` where it cannot be told, and what `Question.check` raises.
    """
    point, machines = question.point, question.machines
    if point.world_size == 1:
        return
    question.check(point)
    size = sum(layer_bytes(point))
    copies_s = np.array([machine.ddp_s_per_byte * size for machine in machines])
    copies = refit_range(copies_s)
    if not copies[1] > 0:
        raise Untold("what DDP's copies of gradients cost is not known from nothing, nor then what packing would")
    tier = "between" if len(machines[0].layout(point)) > 1 else "inside"
    found = refit_range(
        np.array([_pays_below(machine, point, tier, cost) for machine, cost in zip(machines, copies_s, strict=True)])
    )
    where = "between nodes" if tier == "between" else "inside the node"
    head = f"{question.head}: sending half of the gradients' bytes pays"
    own_cost = f"if packing and unpacking take what DDP's own copies do, {range_text(copies, 3, 1e3)} ms a step"
    if found[1] == _FASTEST or found[2] == _SLOWEST:
        how = "at every bandwidth" if found[1] == _FASTEST else "at no bandwidth"
        yield question.told("compression", True, f"{head} {how} {where}, {own_cost}")
        return
    if not _SLOWEST < found[1] <= found[2] < _FASTEST:
        raise Untold("in some refits it pays at every bandwidth, or at none")
    own = refit_range(np.array([getattr(machine.network, tier).bytes_per_s for machine in machines]))
    verdict = "whether it would here cannot be told"
    if own[2] < found[1] or own[1] > found[2]:
        verdict = f"it would {'' if own[2] < found[1] else 'not '}here"
    text = f"{head} below {range_text(found, 2, 1e-9)} GB/s {where}, {own_cost}"
    link = f"the link has {range_text(own, 2, 1e-9)} GB/s: {verdict}"
    yield question.told("compression", True, f"{text}; {link}")


def _pays_below(machine: MachineModel, point: PointSpec, tier: str, cost_s: float) -> float:
    """The bandwidth of a tier at which half of the bytes save what packing costs, bytes/s: `_SLOWEST` where they never
    do, `_FASTEST` where they do however fast it is."""
    if _saved_s(machine, point, tier, _SLOWEST) <= cost_s:
        return _SLOWEST
    if _saved_s(machine, point, tier, _FASTEST) > cost_s:
        return _FASTEST
    low, high = np.log(_SLOWEST), np.log(_FASTEST)
    while high - low > 1e-3:
        middle = (low + high) / 2
        pays = _saved_s(machine, point, tier, np.exp(middle)) > cost_s
        low, high = (middle, high) if pays else (low, middle)
    return float(np.exp(low))


def _saved_s(machine: MachineModel, point: PointSpec, tier: str, bytes_per_s: float) -> float:
    """Exposed communication that half of the bytes save where a tier has this bandwidth, s."""
    link = replace(getattr(machine.network, tier), bytes_per_s=bytes_per_s)
    network = replace(machine.network, inside=link) if tier == "inside" else replace(machine.network, between=link)
    on_link = replace(machine, network=network)
    return _exposed_s(on_link, point, 1.0) - _exposed_s(on_link, point, 0.5)


def _exposed_s(machine: MachineModel, point: PointSpec, share: float) -> float:
    """Exposed communication where this share of the gradients' bytes is sent, s."""
    backward_s = machine.slowness(point.world_size).max() * machine.arm_phases_s(point, "ddp")[1]
    sending = replace(machine, bucket_s_per_byte=share * machine.bucket_s_per_byte)
    found = sending.outlasting_s(point, np.array(backward_s), lambda size: machine.allreduce_s(point, share * size))
    return float(found)
