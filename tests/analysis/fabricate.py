"""Synthetic records with known truth, written and read through `kanstudy.record`.

The true factors of the attribution give each arm's time; rounds multiply them with a drift that all arms of the round
share and with noise of their own.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from kanstudy.record import AllReduce, Arm, Fault, Record, Round, blank_record
from kanstudy.record_files import record_from_dict
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import ARMS, PointSpec

TRUTH = {
    "batch": 0.95,
    "heterogeneity": 0.97,
    "contention": 0.85,
    "ddp": 0.98,
    "synchronisation": 0.96,
    "data_movement": 0.93,
}
"""Factors of a strong-scaling point; their product is its efficiency."""

DEFAULTS = {
    "experiment": "strong_scaling",
    "scaling": "strong",
    "world_size": 2,
    "global_batch_size": 2048,
    "dataset": "synthetic:32:1",
    "n_samples": 32768,
    "layer_widths": (32, 64, 64, 1),
}


def make_point(**changes) -> PointSpec:
    values = DEFAULTS | changes
    if "arms" not in values:
        first = 0 if values["scaling"] == "strong" else 1
        values["arms"] = ARMS[first:] if values["world_size"] > 1 else (ARMS[first], "ddp_noop", "ddp")
    if values.get("model") == "mlp":
        values = {"grid_size": None, "spline_order": None, "operator": None} | values
    return PointSpec(**values)


def arm_step_times(truth: dict[str, float], scaling: str, p: int, t1: float) -> dict[str, list[list[float]]]:
    """Noise-free times of two steps, [rank][step], of which the chain gives exactly the factors of `truth`.

    `t1` is the serial step of the whole batch (strong) or of the local batch (weak).
    """
    if p == 1:  # one rank has the whole batch and the machine for itself
        truth = truth | dict.fromkeys(("batch", "heterogeneity", "contention", "synchronisation"), 1.0)
    chain = t1 / p if scaling == "strong" else t1
    times = {"serial_global": [[t1, t1]]}
    mean = chain / truth.get("batch", 1.0) if scaling == "strong" else chain
    slowest = mean / truth["heterogeneity"]
    others = (mean * p - slowest) / (p - 1) if p > 1 else slowest
    times["serial_local"] = [[slowest] * 2, *[[others] * 2 for _ in range(p - 1)]]
    concurrent = slowest / truth["contention"]
    times["concurrent"] = [[concurrent] * 2, *[[0.99 * concurrent] * 2 for _ in range(p - 1)]]
    noop = concurrent / truth["ddp"]
    # one rank is slow at the first step, another at the second, so that the maxima outlast every rank's mean
    jitter = 1 / truth["synchronisation"] - 1
    if p > 1:
        ahead = [noop * (1 + jitter), noop * (1 - jitter)]
        times["ddp_noop"] = [ahead, ahead[::-1], *[[0.98 * noop] * 2 for _ in range(p - 2)]]
    else:
        times["ddp_noop"] = [[noop, noop]]
    every_step = noop / truth["synchronisation"]
    times["ddp"] = [[every_step / truth["data_movement"]] * 2 for _ in range(p)]
    return times


def make_record(
    *,
    truth: dict[str, float] | None = None,
    t1: float = 0.08,
    rounds: int = 12,
    launches: int = 1,
    starts: int = 1,
    noise: float = 0.0,
    drift: float = 0.0,
    noise_seed: int = 0,
    status: str = "ok",
    error: Fault | None = None,
    device_name: str | None = "test CPU",
    foreign: dict[int, float] | None = None,
    slow_kernel: dict[int, float] | None = None,
    allreduce: dict[int, list[float]] | None = None,
    profile: str = "test",
    source: str = "measured",
    oversubscribed: bool = False,
    fields: dict | None = None,
    **point_changes,
) -> Record:
    """A record with `rounds` rounds a launch, measured in `starts` starts by turns; `foreign` and `slow_kernel`
    disturb rounds by index."""
    point = make_point(**point_changes)
    run = RunSpec(
        profile=profile,
        experiment=point.experiment,
        points=(point,),
        data_files={data_key(point): "x.npz"},
        results_dir="r",
        progress_file="p",
        rounds={point.point_id: rounds or 1},
        launches=launches,
        oversubscribed=oversubscribed,
    )
    record = blank_record(point, run, status=status)
    record.error, record.device_name, record.source = error, device_name, source
    record.conditions, record.nodes, record.ranks_per_node = "c0", 1, point.world_size
    rng = np.random.default_rng(noise_seed)
    p = point.world_size
    clean = arm_step_times(TRUTH | (truth or {}), point.scaling, p, t1)
    for launch in range(launches):
        for index in range(rounds):
            common = np.exp(drift * rng.standard_normal())
            for order, name in enumerate(point.arms):
                ranks = [index % p] if name == "serial_global" else list(range(p))
                factor = common * np.exp(noise * rng.standard_normal())
                times = [[time * factor for time in clean[name][i]] for i in range(len(ranks))]
                record.arms[name].rounds.append(
                    Round(
                        launch=launch,
                        attempt=1 + index % starts,
                        index=index,
                        order=order,
                        active_ranks=ranks,
                        rank_step_times_s=times,
                        rank_block_times_s=[sum(steps) for steps in times],
                        reference_kernel_s=[0.01 * (slow_kernel or {}).get(index, 1.0)] * len(ranks),
                        foreign_cpu_share=[(foreign or {}).get(index, 0.01)] * len(ranks),
                        minor_faults=[0.0] * len(ranks),
                        started_utc="2026-01-01T00:00:00Z",
                    )
                )
    grid = (point.grid_size or 0) + (point.spline_order or 0) + 1
    edges = sum(a * b for a, b in zip(point.layer_widths, point.layer_widths[1:], strict=False))
    record.n_params = edges * grid
    record.gradient_bytes = 4 * record.n_params
    for name in ("ddp_noop", "ddp"):
        if name in record.arms and rounds:
            record.arms[name].bucket_bytes = [record.gradient_bytes]
            record.arms[name].peak_memory_bytes = [16 * record.n_params + 2**20] * p
    record.allreduce = [AllReduce(message_bytes=size, times_s=times) for size, times in (allreduce or {}).items()]
    for name, value in (fields or {}).items():
        setattr(record, name, value)
    return record_from_dict(json.loads(json.dumps(asdict(record))))


def empty_arms(record: Record) -> Record:
    """The record as a launch that failed leaves it: nothing measured."""
    record.arms = {name: Arm(status=record.status) for name in record.arms}
    return record
