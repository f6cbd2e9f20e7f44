"""Before the rounds of a point: how many steps make a block, and all that is not timed in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import fmean, median

from kanstudy.injection import whole_periods
from kanstudy.model import build_model, count_parameters, flops_per_sample
from kanstudy.record import AllReduce, Fault
from kanstudy.worker.arms import gradient_bytes, turns, uses_ddp
from kanstudy.worker.blocks import PointFault, PointState, run_blocks, together
from kanstudy.worker.collectives import time_allreduce
from kanstudy.worker.injection import Injector
from kanstudy.worker.instrument import Phases, measure_peak_memory, measure_phases
from kanstudy.worker.ranks import Ranks
from kanstudy.worker.training import train

_PILOT_STEPS = 5
_UNIT_STEPS = 50


def pilot(ranks: Ranks, state: PointState, arm: str) -> None:
    """Find the arm's steps a block from a few steps, the same on all ranks. Collective over the launch."""
    point, active = state.point, turns(arm, state.members, 0)
    blocks = run_blocks(ranks, state, arm, active[0], (point.warmup_steps, _PILOT_STEPS), None)
    step_s = max(median(block.step_times_s) for block in blocks.values())  # one stall must not shorten all blocks
    warmup = max(point.warmup_steps, math.ceil(point.warmup_s / step_s))
    steps = max(_PILOT_STEPS, math.ceil(point.block_s / step_s))
    state.steps[arm] = whole_periods(warmup, point.injection), whole_periods(steps, point.injection)
    state.round_s += len(active) * sum(state.steps[arm]) * step_s


def inject(ranks: Ranks, state: PointState) -> None:
    """From here on the point's steps have what it has injected, if anything. Collective over the launch.

    A dose is the mean over the ranks of their steps with the local batch, each alone; the record keeps it, so that all
    its rounds have the same.
    """
    if not state.point.injection:
        return
    step_s = ranks.from_rank_0(state.record and state.record.injection_step_s)
    if step_s is None:
        steps = (state.point.warmup_steps, _UNIT_STEPS)
        alone = [run_blocks(ranks, state, "serial_local", (member,), steps, None)[member] for member in state.members]
        step_s = fmean(median(block.step_times_s) for block in alone)
    if state.record is not None:
        state.record.injection_step_s = step_s
    if state.position is not None:
        state.injector = Injector(state.point, state.position, step_s)


def instrument(ranks: Ranks, state: PointState, tell: Callable[[], None]) -> None:
    """Losses, message times, phases and memory into the record. Collective over the launch.

    `tell` is called between its parts, and in training now and then, as a sign of life to the launcher.
    Raises `PointFault` where training gives no finite loss or memory lacks, and `RuntimeError` where the replicas
    differ after training: then DDP did not do what it is there for.
    """
    tell()
    _train(ranks, state, tell)
    for size in state.point.allreduce_bytes:
        tell()
        times = together(ranks, state.members, partial(time_allreduce, size, ranks.device, state.group))
        if state.record is not None:
            state.record.allreduce.append(AllReduce(message_bytes=size, times_s=times[state.members[0]]))
    for arm in state.point.arms:
        tell()
        _instrument_arm(ranks, state, arm)
    if state.record is not None:  # last: it marks the record as instrumented
        model = build_model(state.point)
        state.record.n_params = count_parameters(model)
        state.record.gradient_bytes = gradient_bytes(model.parameters())
        state.record.flops_per_sample = flops_per_sample(model)


def is_instrumented(ranks: Ranks, state: PointState) -> bool:
    """Whether an earlier launch did all this already. Collective over the launch."""
    return bool(ranks.from_rank_0(state.record is not None and state.record.n_params is not None))


def _train(ranks: Ranks, state: PointState, tell: Callable[[], None]) -> None:
    point, record = state.point, state.record
    if point.train_steps == 0:
        return
    results = together(
        ranks, state.members, lambda: train(point, ranks.device, state.group, state.data, state.position or 0, tell)
    )
    first = results[state.members[0]]
    if first.nan_step is not None:
        raise PointFault("nan", Fault(reason="the loss is not finite in training", step=first.nan_step))
    if len({result.digest for result in results.values()}) > 1:
        raise RuntimeError(f"{point.point_id}: the replicas differ after {point.train_steps} steps of training")
    if record is not None:
        record.loss_first, record.loss_last, record.train_steps = first.loss_first, first.loss_last, point.train_steps
        record.holdout_loss, record.out_of_grid_share = first.holdout_loss, first.out_of_grid_share


def _instrument_arm(ranks: Ranks, state: PointState, arm: str) -> None:
    point, device = state.point, ranks.device
    group = state.group if uses_ddp(arm) else None
    phases: dict[int, Phases] = {}
    memory: dict[int, int] = {}
    for active in turns(arm, state.members, 0):
        if point.phase_steps > 0:
            phases |= together(
                ranks,
                active,
                lambda: measure_phases(point, arm, device, group, state.data, state.position or 0, state.injector),
            )
        memory |= together(
            ranks, active, lambda: measure_peak_memory(point, arm, device, group, state.batches_of(arm, device))
        )
    if state.record is None:
        return
    kept = state.record.arms[arm]
    kept.peak_memory_bytes = [memory[rank] for rank in sorted(memory)]
    if not phases:
        return
    seen = [phases[rank] for rank in sorted(phases)]
    kept.forward_s = [phase.forward_s for phase in seen]
    kept.backward_s = [phase.backward_s for phase in seen]
    kept.optimizer_s = [phase.optimizer_s for phase in seen]
    kept.data_wait_s = [phase.data_wait_s for phase in seen]
    if seen[0].bucket_bytes:
        kept.bucket_ready_s = [phase.bucket_ready_s for phase in seen]
        kept.bucket_bytes = seen[0].bucket_bytes
    if all(phase.ddp_counters for phase in seen):  # by name, [rank][step], for a cross-check alone
        names = seen[0].ddp_counters[0]
        counters = {name: [[step[name] for step in phase.ddp_counters] for phase in seen] for name in names}
        state.record.provenance = state.record.provenance | {"ddp_counters": counters}
