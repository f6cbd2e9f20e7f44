"""A simulated machine, and what a calibration of one of its nodes measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from fabricate import make_point
from simulated import simulate

from kanstudy.analysis.calibration.calibration import Calibration, calibrate
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.record import Record
from kanstudy.spec import ARMS, PointSpec

LINK = Link(latency_s=1e-4, bytes_per_s=2e9)
NETWORK = Network(inside=LINK, between=LINK, algorithm="gloo")
MACHINE = MachineModel(
    name="simulated",
    flops_per_s=5e10,
    activation_bytes_per_s=2e9,
    launch_s=4e-4,
    optimizer_s=1e-4,
    optimizer_s_per_parameter=2e-9,
    backward_share=0.6,
    contention=0.05,
    ddp_s=1e-4,
    ddp_s_per_byte=2e-10,
    bucket_s=3e-4,
    bucket_s_per_byte=5e-10,
    streams=2,
    overlap_slowdown=0.4,
    ranks_per_node=2,
    network=NETWORK,
)
NOISE = Noise(step_sd=0.05, slow_step_sd=0.03, block_sd=0.01, launch_sd=0.015)
TIMING = {"block_s": 0.1, "warmup_s": 0.0, "phase_steps": 3}


def calibration_points(
    node_ranks: int = 2,
    widths: Sequence[int] = (16, 64, 128),
    grids: Sequence[int] = (5, 15),
    rows: Sequence[int] = (4, 32, 256, 1024, 4096),
    node_rows: Sequence[int] = (32, 512),
    messages: Sequence[int] = (1024, 16384, 131072, 1048576, 4194304),
) -> list[PointSpec]:
    """One rank alone over widths, grids and rows; the ranks of a node at once, the widest over two bucket caps."""
    shared = {"experiment": "calibration", "operator": "fused", **TIMING}
    shapes = [(32, width, width, 1) for width in widths]
    points = [
        make_point(
            world_size=1, global_batch_size=size, layer_widths=shape, grid_size=grid, arms=("serial_global",), **shared
        )
        for shape in shapes
        for grid in grids
        for size in rows
    ]
    node = {"world_size": node_ranks, "scaling": "weak", **shared}
    node["arms"] = ("serial_local", "concurrent", "ddp_noop", "ddp")[:: 1 if node_ranks > 1 else 2]
    sizes = messages if node_ranks > 1 else ()
    for shape in shapes:
        for size in node_rows:
            for cap in (25.0, 0.05) if shape == shapes[-1] else (25.0,):
                own = {"global_batch_size": size * node_ranks, "bucket_cap_mb": cap, "allreduce_bytes": sizes}
                points.append(make_point(layer_widths=shape, **own, **node))
                sizes = ()
    return points


def records(machine: MachineModel = MACHINE, node_ranks: int = 2, **changes) -> list[Record]:
    """What the calibration measures on a machine; a simulated record does not know its backend."""
    drawn = simulate(calibration_points(node_ranks), machine, **({"rounds": 6} | changes))
    for record in drawn:
        record.backend = "gloo"
    return drawn


@cache
def exact() -> Calibration:
    """Of the machine without noise."""
    return calibrate(records())


def strong_point(world_size: int, **changes) -> PointSpec:
    return make_point(
        world_size=world_size, arms=ARMS, **({"block_s": 0.3, "warmup_s": 0.0, "operator": "fused"} | changes)
    )


def noisy(seed: int, **changes) -> MachineModel:
    return replace(MACHINE, noise=replace(NOISE, **changes), name=f"simulated {seed}")
