"""A machine that is known, its calibration and held-out settings, for tests of what is predicted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from simulated import simulate

from kanstudy.analysis.held_out.frozen import Frozen
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.emulated_link import parse
from kanstudy.record import Record
from kanstudy.spec import PointSpec
from kanstudy.study import held_out
from kanstudy.study.profile import load_profile

MACHINE = MachineModel(
    name="known machine",
    flops_per_s=4e9,
    activation_bytes_per_s=4e9,
    launch_s=3e-4,
    optimizer_s=5e-5,
    optimizer_s_per_parameter=1e-9,
    contention=0.04,
    ddp_s=1e-4,
    network=Network(algorithm="gloo", inside=Link(latency_s=8e-5, bytes_per_s=1e9)),
    streams=2,
    noise=Noise(step_sd=0.03, block_sd=0.005, launch_sd=0.005),
)
HOSTS = Link(latency_s=1e-4, bytes_per_s=5e8)
"""What the hosts themselves add to an emulated link."""
PROFILE = load_profile("laptop")


def over(link: str, machine: MachineModel = MACHINE) -> MachineModel:
    """The known machine whose ranks reach each other over an emulated link."""
    asked = parse(link)
    s_per_byte = 1 / HOSTS.bytes_per_s + 1 / asked.bytes_per_s
    inside = Link(latency_s=HOSTS.latency_s + asked.latency_s, bytes_per_s=1 / s_per_byte)
    return replace(machine, network=replace(machine.network, inside=inside))


def measured(points: Sequence[PointSpec], rounds: int, launches: int, seed: int = 0) -> list[Record]:
    """What would be measured there."""
    records = []
    for point in points:
        [record] = simulate([point], over(point.link) if point.link else MACHINE, rounds, launches, seed)
        record.source = "emulated" if point.link else "measured"
        record.link = point.link
        records.append(record)
    return records


def calibration_records(seed: int = 1) -> list[Record]:
    """The calibration of the profile, three launches."""
    return measured(held_out.calibration_plan(PROFILE).points, 3, 3, seed)


def held_out_records(frozen: Frozen, launches: int = 3, seed: int = 2) -> list[Record]:
    """What was predicted, measured a minute later."""
    records = measured(frozen.points, 3, launches, seed)
    later = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="milliseconds")
    for record in records:
        record.provenance |= frozen.provenance
        for arm in record.arms.values():
            for item in arm.rounds:
                item.started_utc = later
    return records
