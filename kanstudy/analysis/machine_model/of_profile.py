"""The machine that a profile's constants describe: rates of a data sheet, times the share of them that is assumed to be
reached. No calibration: what comes of it is as good as those assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanstudy.analysis.machine_model.model import MachineModel, spread_ranks
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.machine_model.work import kernels, tensor_bytes, word_bytes
from kanstudy.analysis.network.network import Network
from kanstudy.spec import PointSpec

NEEDED = ("memory_gb_per_s", "flops_share", "memory_share", "launch_us")
"""Keys of `[device]` without which there is no machine, beside the peak rate of the point's products."""
_HIDDEN = 8.0
"""The `launch_exponent` of a GPU: of launches and work nearly the longer counts."""
_UPDATE = {"adam": (14, 18), "sgd": (2, 3)}
"""Kernels of torch's optimizers on a GPU, and numbers that they read and write for each parameter."""
_DDP_KERNELS, _DDP_COPIES = 3, 4
"""Of each tensor: into the bucket, divided, and back; and how often its bytes are read or written by that."""


def of_profile(
    point: PointSpec, device: Mapping[str, Any], network: Network, *, ranks_per_node: int | None, nodes: int | None
) -> MachineModel:
    """The machine for models of the point's kind: its operator and depth decide what launches cost.

    `device` are the values of `[device]`; see `kanstudy.study.cluster.Device`. Raises `ValueError` naming the keys that
    are not stated.
    """
    peak = "peak_tflops_tf32" if point.tf32 else "peak_tflops_fp32"
    missing = [name for name in (peak, *NEEDED) if not device[name]]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(f"{', '.join(missing)} {verb} not stated: must be a number > 0")
    launch_s = 1e-6 * device["launch_us"]
    bytes_per_s = 1e9 * device["memory_gb_per_s"] * device["memory_share"]
    update_kernels, update_numbers = _UPDATE[point.optimizer]
    n_tensors = sum(map(len, tensor_bytes(point)))
    return MachineModel(
        name=f"{device['name'] or 'device'}, assumed constants",
        flops_per_s=1e12 * device[peak] * device["flops_share"],
        activation_bytes_per_s=bytes_per_s,
        launch_s=launch_s * kernels(point),
        launch_exponent=_HIDDEN,
        optimizer_s=launch_s * update_kernels,
        optimizer_s_per_parameter=update_numbers * word_bytes(point) / bytes_per_s,
        rank_slowness=spread_ranks((nodes or 1) * (ranks_per_node or 1), device["device_sd"], seed=0),
        ddp_s=launch_s * _DDP_KERNELS * n_tensors,
        ddp_s_per_byte=_DDP_COPIES / bytes_per_s,
        ranks_per_node=ranks_per_node,
        nodes=nodes,
        network=network,
        overlap_slowdown=device["overlap_slowdown"],
        memory_bytes=2**30 * device["memory_gib"] or None,
        noise=Noise(step_sd=device["step_sd"], block_sd=device["block_sd"]),
    )
