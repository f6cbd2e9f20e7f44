"""Records of a machine that is not there, through the schema of measured ones: what the worker would have written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import flops_per_sample, layer_bytes, n_parameters
from kanstudy.analysis.statistics.intervals import seed_of
from kanstudy.record import AllReduce, Arm, Fault, Record, Round, blank_record
from kanstudy.run_spec import RunSpec
from kanstudy.spec import PointSpec

SHORTEST_BLOCK = 4
"""Steps of a block, however long one takes."""
_KERNEL_S = 1e-3
_ALLREDUCE_REPEATS = 20
_BEST = {"cpu": "fused", "cuda": "compiled"}
"""What the operator `auto` stands for."""
_STARTED = "1970-01-01T00:00:00.000+00:00"


@dataclass(frozen=True)
class Blocks:
    """An arm's blocks: `times_s` (launches, rounds, active ranks, steps); `active` (rounds, active ranks) names the
    ranks; `foreign_cpu` (launches, rounds, active ranks); `order` (launches, rounds), its place in the round."""

    times_s: np.ndarray
    active: np.ndarray
    foreign_cpu: np.ndarray
    order: np.ndarray


def draw(
    point: PointSpec, machine: MachineModel, launches: int, rounds: int, rng: np.random.Generator
) -> dict[str, Blocks]:
    """The blocks of every arm of a point."""
    noise, n_arms = machine.noise, len(point.arms)
    orders = rng.permuted(np.broadcast_to(np.arange(n_arms), (launches, rounds, n_arms)), axis=-1)
    disturbed = rng.random((launches, rounds, 1)) < noise.burst_share
    shifted = rounds * rng.random((launches, 1))
    drawn = {}
    for place, arm in enumerate(point.arms):
        times, active = _undisturbed(point, machine, arm, launches, rounds, rng)
        # ranks that run together are one block
        together = 1 if arm in ("concurrent", "ddp_noop", "ddp") else active.shape[1]
        factors = noise.block_factors(launches, rounds, together, rng)
        order = orders[..., place]
        began = np.arange(rounds) + order / n_arms  # in rounds
        factors = factors * np.exp(noise.drift_per_round * began + noise.level_shift * (began > shifted))[..., None]
        foreign = noise.burst_foreign_cpu * (disturbed & (rng.random((launches, rounds, together)) < 0.5))
        times = times * (factors / (1 - foreign))[..., None]
        drawn[arm] = Blocks(times, active, np.broadcast_to(foreign, times.shape[:3]), order)
    return drawn


def _undisturbed(
    point: PointSpec, machine: MachineModel, arm: str, launches: int, rounds: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Step times (launches, rounds, active ranks, steps) without the noise of blocks, and who is active."""
    p = point.world_size
    active = (np.arange(rounds) % p)[:, None] if arm == "serial_global" else np.tile(np.arange(p), (rounds, 1))
    phases = machine.arm_phases_s(point, arm)
    step_s = sum(phases)
    if arm == "ddp":
        step_s += float(machine.exposed_s(point, np.array(phases[1])))
    steps = max(SHORTEST_BLOCK, round(point.block_s / step_s))
    warmed = max(point.warmup_steps, int(np.ceil(point.warmup_s / step_s)))
    factors = machine.noise.step_factors((launches, rounds, active.shape[1], steps), warmed, rng)
    factors *= machine.slowness(p)[active][None, :, :, None]
    if arm != "ddp":
        return sum(phases) * factors, active
    slowest = factors.max(axis=2, keepdims=True)
    times = sum(phases) * slowest + machine.exposed_s(point, phases[1] * slowest)
    return np.broadcast_to(times, factors.shape), active


def record_of(point: PointSpec, machine: MachineModel, run: RunSpec) -> Record:
    """The record of a point of a run, whose rounds, launches and seed it has; `oom` where memory does not hold it."""
    record = blank_record(point, run, status="ok")
    if point.operator == "auto":
        point = replace(point, operator=_BEST[run.device])
    record.operator, record.source = point.operator, "simulated"
    record.conditions, record.device_name = f"simulated: {machine.name}", machine.name
    layout = machine.layout(point)
    record.nodes, record.ranks_per_node, record.attempt = len(layout), max(layout), run.launches
    record.provenance = {"machine": repr(machine), "seed": run.seed}
    for arm in point.arms:
        if not machine.fits(point, arm):
            need = machine.peak_memory_bytes(point, arm)
            record.status = record.arms[arm].status = "oom"
            record.error = Fault(reason=f"out of memory: {need} of {machine.memory_bytes:.0f} bytes", arm=arm, rank=0)
            return record
    rng = np.random.default_rng([run.seed, seed_of(record.point_id)])
    for arm, blocks in draw(point, machine, run.launches, record.rounds_planned, rng).items():
        record.arms[arm].rounds = [
            _round(blocks, launch, index) for launch in range(run.launches) for index in range(record.rounds_planned)
        ]
    _instrument(record, point, machine)
    return record


def _round(blocks: Blocks, launch: int, index: int) -> Round:
    times, foreign = blocks.times_s[launch, index], blocks.foreign_cpu[launch, index]
    return Round(
        launch=launch,
        attempt=launch + 1,
        index=index,
        order=int(blocks.order[launch, index]),
        active_ranks=blocks.active[index].tolist(),
        rank_step_times_s=times.tolist(),
        rank_block_times_s=times.sum(axis=-1).tolist(),
        reference_kernel_s=(_KERNEL_S / (1 - foreign)).tolist(),
        foreign_cpu_share=foreign.tolist(),
        minor_faults=[0.0] * len(times),
        started_utc=_STARTED,
    )


def _instrument(record: Record, point: PointSpec, machine: MachineModel) -> None:
    """What the separate instrumented pass would see, noise-free: phases, buckets, memory, messages."""
    p, slowness, steps = point.world_size, machine.slowness(point.world_size), point.phase_steps
    record.gradient_bytes = sum(layer_bytes(point))
    record.n_params = n_parameters(point)
    record.flops_per_sample = float(flops_per_sample(point))
    for size in point.allreduce_bytes:
        times = [machine.allreduce_s(point, size)] * _ALLREDUCE_REPEATS
        record.allreduce.append(AllReduce(message_bytes=size, times_s=times))
    for name, arm in record.arms.items():
        ranks = [0] if name == "serial_global" else list(range(p))
        arm.peak_memory_bytes = [machine.peak_memory_bytes(point, name)] * len(ranks)
        if steps:
            _phases(arm, name, point, machine, slowness[ranks])


def _phases(arm: Arm, name: str, point: PointSpec, machine: MachineModel, slowness: np.ndarray) -> None:
    steps = point.phase_steps
    forward, backward, optimizer = (phase * slowness for phase in machine.arm_phases_s(point, name))
    whole = backward
    if name == "ddp":
        slowest = backward.max()
        whole = np.full_like(backward, slowest + float(machine.exposed_s(point, np.array(slowest))))
    arm.forward_s, arm.backward_s, arm.optimizer_s, arm.data_wait_s = (
        [[float(value)] * steps for value in values] for values in (forward, whole, optimizer, 0 * forward)
    )
    if name in ("ddp_noop", "ddp"):
        arm.bucket_bytes = gradient_buckets(point)
        ready = machine.ready_shares(point)
        arm.bucket_ready_s = [[(ready * value).tolist()] * steps for value in backward]
