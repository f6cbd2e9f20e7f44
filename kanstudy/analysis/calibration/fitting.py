"""All constants of a machine from the readings of a calibration, one part after another.

1. the step of one rank alone over rows and sizes (`compute`);
2. contention: ranks of a node at once, against each alone;
3. DDP's own cost, fixed and a byte of gradients: DDP that communicates nothing, against plain modules at once;
4. what a bucket's collective takes in a step beyond a blocking one: what DDP exposes where it has a single bucket;
5. how much backward slows down while a bucket travels: what DDP exposes where it has several.

The links come before, from blocking all-reduces (`kanstudy.analysis.network.fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanstudy.analysis.calibration import compute, nonnegative
from kanstudy.analysis.calibration.constants import Constants
from kanstudy.analysis.calibration.readings import Reading
from kanstudy.analysis.calibration.spread import RankSpread
from kanstudy.analysis.machine_model import overlap
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import layer_bytes
from kanstudy.spec import PointSpec

_SLOWDOWNS = np.concatenate([[0.0], np.geomspace(0.02, 8.0, 60)])
"""Of backward that are tried."""


@dataclass(frozen=True)
class Observed:
    """The numbers that constants are fitted to; a resample has other ones.

    `steps` of one rank alone; of the node's points (m,) `contention` = ln(concurrent/serial_local), `ddp_s` = ddp_noop
    less concurrent, `exposed_s` = ddp less the slowest rank at every step, NaN where an arm was not measured.
    """

    steps: compute.Steps
    contention: np.ndarray
    ddp_s: np.ndarray
    exposed_s: np.ndarray


@dataclass(frozen=True)
class Node:
    """The node's points, with the time of a step without communication (m,), and how slow its slowest rank is.

    `machine` has what is known beforehand: ranks a node, streams, the network.
    """

    machine: MachineModel
    points: tuple[PointSpec, ...]
    noop_s: np.ndarray
    slowest: float

    @property
    def neighbours(self) -> np.ndarray:
        """Further ranks on the fullest node of each point (m,)."""
        return np.array([max(self.machine.layout(point)) - 1 for point in self.points], dtype=float)

    @property
    def ddp_design(self) -> np.ndarray:
        """What DDP's own cost grows with: 1 and the bytes of gradients (m, 2)."""
        return np.array([[1.0, sum(layer_bytes(point))] for point in self.points]).reshape(-1, 2)


def observe(one: Sequence[Reading], node: Sequence[Reading], ranks: RankSpread) -> Observed:
    """The numbers in the readings of one rank alone and of the ranks of a node."""
    times = np.array([reading.time_s("serial_global") for reading in one]) / ranks.slowness[0]
    phases = np.array([reading.phases_s for reading in one])
    before = "concurrent" if any(reading.has("concurrent") for reading in node) else "serial_local"

    def pairs(late: str, early: str) -> np.ndarray:
        return np.array([[_time_s(reading, late), _time_s(reading, early)] for reading in node]).reshape(-1, 2)

    contention, ddp = pairs("concurrent", "serial_local"), pairs("ddp_noop", before)
    exposed = pairs("ddp", "ddp_noop_every_step")
    return Observed(
        steps=compute.Steps.of([reading.point for reading in one], times, phases),
        contention=np.log(contention[:, 0] / contention[:, 1]),
        ddp_s=ddp[:, 0] - ddp[:, 1],
        exposed_s=exposed[:, 0] - exposed[:, 1],
    )


def node_of(node: Sequence[Reading], ranks: RankSpread, machine: MachineModel) -> Node:
    """What does not change from resample to resample of the node's readings."""
    return Node(
        machine=machine,
        points=tuple(reading.point for reading in node),
        noop_s=np.array([reading.time_s("ddp_noop") for reading in node]),
        slowest=max(ranks.slowness),
    )


def estimate(observed: Observed, node: Node, exponents: tuple[float, ...] = compute.EXPONENTS) -> Constants:
    """The constants that the numbers give, all >= 0; those of a cost that nothing shows are 0."""
    found = Constants(**vars(compute.fit(observed.steps, exponents)))
    logs, neighbours = observed.contention, node.neighbours
    known = np.isfinite(logs) & (neighbours > 0)
    if known.any():
        slower = float(np.expm1(logs[known]) @ neighbours[known]) / float(neighbours[known] @ neighbours[known])
        found = replace(found, contention=max(0.0, slower))
    known = np.isfinite(observed.ddp_s)
    if known.any():
        ddp = nonnegative.linear(node.ddp_design[known], observed.ddp_s[known] / node.slowest, node.noop_s[known])
        found = replace(found, ddp_s=float(ddp[0]), ddp_s_per_byte=float(ddp[1]))
    found = _with_bucket(found, observed.exposed_s, node)
    return replace(found, overlap_slowdown=_slowdown(found, observed.exposed_s, node))


def fitted(observed: Observed, node: Node, constants: Constants) -> Observed:
    """The same numbers as the constants have them."""
    machine = constants.on(node.machine)
    exposed = [float(machine.exposed_s(point, np.array(_backward_s(machine, point, node)))) for point in node.points]
    return Observed(
        steps=replace(observed.steps, time_s=constants.curve.time_s(observed.steps)),
        contention=np.log1p(constants.contention * node.neighbours),
        ddp_s=node.slowest * (node.ddp_design @ [constants.ddp_s, constants.ddp_s_per_byte]),
        exposed_s=np.array(exposed),
    )


def _with_bucket(found: Constants, exposed_s: np.ndarray, node: Node) -> Constants:
    """From points of a single bucket, which leaves when backward has ended and is exposed as a whole."""
    machine = found.on(node.machine)
    places = [
        i for i, point in enumerate(node.points) if len(gradient_buckets(point)) == 1 and np.isfinite(exposed_s[i])
    ]
    if not places:
        return found
    sizes = [sum(layer_bytes(node.points[i])) for i in places]
    alone = [machine.allreduce_s(node.points[i], size) for i, size in zip(places, sizes, strict=True)]
    design = np.array([[1.0, size] for size in sizes])
    bucket = nonnegative.linear(design, exposed_s[places] - alone, node.noop_s[places])
    return replace(found, bucket_s=float(bucket[0]), bucket_s_per_byte=float(bucket[1]))


def _slowdown(found: Constants, exposed_s: np.ndarray, node: Node) -> float:
    """The slowdown with the least deviations, relative to the step; 0 where no point has several buckets to show it."""
    machine = found.on(node.machine)
    deviations = np.zeros(len(_SLOWDOWNS))
    for point, measured, noop_s in zip(node.points, exposed_s, node.noop_s, strict=True):
        if len(gradient_buckets(point)) > 1 and np.isfinite(measured):
            backward = np.full(len(_SLOWDOWNS), _backward_s(machine, point, node))
            delays, transfers = machine.bucket_times_s(point)
            exposed = overlap.exposed_s(
                backward, machine.ready_shares(point), delays, transfers, machine.streams, _SLOWDOWNS[:, None]
            )
            deviations += ((exposed - measured) / noop_s) ** 2
    return float(_SLOWDOWNS[int(np.argmin(deviations))])  # of equals the first


def _backward_s(machine: MachineModel, point: PointSpec, node: Node) -> float:
    return node.slowest * machine.arm_phases_s(point, "ddp")[1]


def _time_s(reading: Reading, column: str) -> float:
    return reading.time_s(column) if reading.has(column) else np.nan
