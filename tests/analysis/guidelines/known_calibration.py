"""A machine that is known, and the calibration that its simulated records give."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from calibrated import calibration_points
from fabricate import make_point
from simulated import simulate

from kanstudy.analysis.calibration.calibration import Calibration, calibrate
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.prediction.site import Site
from kanstudy.spec import PointSpec

MACHINE = MachineModel(
    name="known machine",
    flops_per_s=2e10,
    launch_s=1e-3,
    optimizer_s=5e-5,
    optimizer_s_per_parameter=1e-9,
    contention=0.04,
    ddp_s=1e-4,
    ddp_s_per_byte=5e-10,
    network=Network(algorithm="gloo", inside=Link(latency_s=8e-5, bytes_per_s=1e9)),
    streams=2,
    noise=Noise(step_sd=0.01, block_sd=0.003, launch_sd=0.003),
)
CLUSTER = Site(
    ranks_per_node=2,
    nodes=4,
    network=Network(
        algorithm="gloo",
        inside=Link(latency_s=8e-5, bytes_per_s=1e9),
        between=Link(latency_s=1e-4, bytes_per_s=5e9),
        basis="measured",
    ),
    memory_bytes=2**31,
)
ONE_NODE = Site(ranks_per_node=2)
ROWS = (8, 64, 512, 4096)


def points() -> list[PointSpec]:
    """What a calibration measures: one rank alone, two ranks at once, over rows and widths."""
    return calibration_points(
        widths=(64, 512), grids=(5,), rows=ROWS, node_rows=(64, 1024), messages=(1024, 2**18, 2**22)
    )


@cache
def calibration(ddp_s_per_byte: float = MACHINE.ddp_s_per_byte, seed: int = 1) -> Calibration:
    """The calibration of the known machine, from two launches."""
    return calibrate(
        simulate(points(), replace(MACHINE, ddp_s_per_byte=ddp_s_per_byte), rounds=4, launches=2, seed=seed)
    )


def model(world_size: int = 8, **changes: object) -> PointSpec:
    """A model and batch within what is calibrated."""
    return make_point(**{"world_size": world_size, "layer_widths": (32, 256, 256, 1), **changes})
