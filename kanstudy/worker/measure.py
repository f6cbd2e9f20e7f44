"""One launch: prepare every point, then measure all of them in shuffled rounds."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from kanstudy.model import build_model, count_parameters, flops_per_sample
from kanstudy.record import AllReduce, Arm, Fault, Record, Round, write_record
from kanstudy.spec import PointSpec, RunSpec, data_key
from kanstudy.worker import conditions
from kanstudy.worker.arms import Replica, gradient_bytes, turns, uses_ddp
from kanstudy.worker.collectives import time_allreduce
from kanstudy.worker.dataset import Dataset, ResidentBatches
from kanstudy.worker.instrument import measure_peak_memory, measure_phases
from kanstudy.worker.progress import Progress
from kanstudy.worker.ranks import Ranks, align
from kanstudy.worker.resume import open_record
from kanstudy.worker.timing import Batch, Block, time_block
from kanstudy.worker.training import train

_PILOT_STEPS = 5
_T = TypeVar("_T")


class PointFault(Exception):
    """The point itself cannot be measured: `status` is the record's (`oom`, `nan`), `fault` says why."""

    def __init__(self, status: str, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.status = status
        self.fault = fault


@dataclass
class PointState:
    """A point while it is measured, on this rank. `record` is rank 0's; the others hold none."""

    point: PointSpec
    members: tuple[int, ...]
    group: dist.ProcessGroup
    position: int | None
    data: Dataset
    batches: ResidentBatches | None
    rounds: int
    done: int
    record: Record | None
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    round_s: float = 0.0


class Measurement:
    """The points of one plan, measured by all ranks together. Every public call is collective over the launch."""

    def __init__(self, run: RunSpec, ranks: Ranks, cores: tuple[int, ...] | None) -> None:
        self.run, self.ranks = run, ranks
        self.own_cores = None if run.oversubscribed else cores
        self.progress = Progress(run.progress_file, ranks.rank == 0)
        self.launch_conditions = conditions.describe_launch(run, ranks, cores)
        self.blocks_done = 0
        self.blocks_total = 0

    def measure(self) -> None:
        """Measure what each point still lacks; a record is rewritten after every complete round of its point."""
        self.progress.tell("started", world_size=self.ranks.world_size)
        states = [self._open(point) for point in self.run.points]
        self.blocks_total = sum(
            (state.rounds - state.done) * state.point.blocks_per_round + len(state.point.arms) for state in states
        )
        ready = []
        for state in states:
            if self._out_of_time(0.0):
                return
            if self._guarded(state, self._prepare):
                ready.append(state)
        shuffle = random.Random(f"{self.run.seed}/{self.run.launch}")
        while pending := [state for state in ready if state.done < state.rounds]:
            shuffle.shuffle(pending)
            order = 0
            for state in pending:
                if self._out_of_time(state.round_s):
                    return
                start, first = time.monotonic(), order
                if not self._guarded(state, lambda state, first=first: self._round(state, first)):
                    ready.remove(state)
                order += state.point.blocks_per_round
                state.round_s = max(state.round_s, time.monotonic() - start)
        self.progress.tell("finished")

    # ---- one point -------------------------------------------------------------------------------------------

    def _open(self, point: PointSpec) -> PointState:
        members = self.ranks.members(point)
        position = members.index(self.ranks.rank) if self.ranks.rank in members else None
        operator = getattr(build_model(point), "operator", None)
        details = conditions.of_point(self.launch_conditions, point, members, operator)
        record, done = None, 0
        if self.ranks.rank == 0:
            record = open_record(self.run, point, conditions.fingerprint(details))
            conditions.apply(record, details, members)
            done = record.rounds_of_launch(self.run.launch)
        data = Dataset.open(self.run.data_files[data_key(point)])
        batches = None
        if position is not None:
            batches = ResidentBatches(point, data, getattr(torch, point.dtype), self.ranks.device)
        return PointState(
            point=point,
            members=members,
            group=self.ranks.groups[members],
            position=position,
            data=data,
            batches=batches,
            rounds=self.run.rounds[point.point_id],
            done=self.ranks.from_rank_0(done),
            record=record,
        )

    def _guarded(self, state: PointState, work: Callable[[PointState], None]) -> bool:
        """Do one piece of work on a point; a fault of the point ends its record, not the launch."""
        torch.backends.cuda.matmul.allow_tf32 = state.point.tf32
        torch.backends.cudnn.allow_tf32 = state.point.tf32
        try:
            work(state)
        except PointFault as fault:
            self._save(state, fault.status, fault.fault)
            return False
        finished = state.done >= state.rounds
        if state.record is not None:
            complete = all(
                state.record.rounds_of_launch(index) >= state.rounds for index in range(self.run.launches)
            )
            self._save(state, "ok" if complete else "partial", None)
        if finished:
            self.progress.tell("point", point_id=state.point.point_id, status="ok")
        return True

    def _save(self, state: PointState, status: str, fault: Fault | None) -> None:
        if state.record is not None:
            state.record.status, state.record.error = status, fault
            write_record(state.record, self.run.results_dir)
        if fault is not None:
            self.progress.tell("point", point_id=state.point.point_id, status=status)

    def _prepare(self, state: PointState) -> None:
        """Pilot every arm for its step counts; then, where the record lacks them, losses, phases and messages."""
        point, record = state.point, state.record
        instrumented = self.ranks.from_rank_0(record is not None and record.n_params is not None)
        if instrumented and state.done >= state.rounds:
            return
        for arm in point.arms:
            self._tell_block(state, arm)
            active = turns(arm, state.members, 0)[0]
            blocks = self._blocks(state, arm, active, point.warmup_steps, _PILOT_STEPS)
            step_s = max(block.block_time_s for block in blocks.values()) / _PILOT_STEPS
            self._check_losses(blocks, arm)
            state.steps[arm] = (
                max(point.warmup_steps, math.ceil(point.warmup_s / step_s)),
                max(_PILOT_STEPS, math.ceil(point.block_s / step_s)),
            )
            state.round_s += len(turns(arm, state.members, 0)) * sum(state.steps[arm]) * step_s
        if not instrumented:
            self._train(state)
            for size in point.allreduce_bytes:
                times = self._on(state.members, lambda size=size: time_allreduce(size, self.ranks.device, state.group))
                if record is not None:
                    record.allreduce.append(AllReduce(message_bytes=size, times_s=times[state.members[0]]))
            for arm in point.arms:
                self._instrument(state, arm)
            if record is not None:  # last: it marks the instrumented pass as complete
                model = build_model(point)
                record.n_params = count_parameters(model)
                record.gradient_bytes = gradient_bytes(model.parameters())
                record.flops_per_sample = flops_per_sample(model)

    def _train(self, state: PointState) -> None:
        point = state.point
        if point.train_steps == 0:
            return
        results = self._on(
            state.members, lambda: train(point, self.ranks.device, state.group, state.data, _known(state.position))
        )
        first = results[state.members[0]]
        if first.nan_step is not None:
            raise PointFault("nan", Fault(reason="the loss is not finite in training", step=first.nan_step))
        if len({result.digest for result in results.values()}) > 1:
            raise RuntimeError(f"{point.point_id}: the replicas differ after {point.train_steps} steps of training")
        if state.record is not None:
            state.record.loss_first, state.record.loss_last = first.loss_first, first.loss_last
            state.record.holdout_loss, state.record.out_of_grid_share = first.holdout_loss, first.out_of_grid_share
            state.record.train_steps = point.train_steps

    def _instrument(self, state: PointState, arm: str) -> None:
        point, device = state.point, self.ranks.device
        phases: dict[int, Any] = {}
        memory: dict[int, int] = {}
        group = state.group if uses_ddp(arm) else None
        for active in turns(arm, state.members, 0):
            if point.phase_steps > 0:
                phases |= self._on(
                    active, lambda: measure_phases(point, arm, device, group, state.data, _known(state.position))
                )
            memory |= self._on(
                active, lambda: measure_peak_memory(point, arm, device, group, self._batches(state, arm))
            )
        if state.record is None:
            return
        kept: Arm = state.record.arms[arm]
        kept.peak_memory_bytes = [memory[rank] for rank in sorted(memory)]
        for name in ("forward_s", "backward_s", "optimizer_s", "data_wait_s") if phases else ():
            setattr(kept, name, [getattr(phases[rank], name) for rank in sorted(phases)])
        if phases and phases[min(phases)].bucket_bytes:
            kept.bucket_ready_s = [phases[rank].bucket_ready_s for rank in sorted(phases)]
            kept.bucket_bytes = phases[min(phases)].bucket_bytes

    def _round(self, state: PointState, order: int) -> None:
        """One complete round: every arm once, in an order that is balanced over the rounds."""
        finished: dict[str, Round] = {}
        for arm in balanced_order(state.point.arms, state.done):
            self._tell_block(state, arm)
            blocks: dict[int, Block] = {}
            for active in turns(arm, state.members, state.done):
                blocks |= self._blocks(state, arm, active, *state.steps[arm])
            self._check_losses(blocks, arm)
            finished[arm] = _as_round(blocks, self.run.launch, state.done, order)
            order += len(turns(arm, state.members, state.done))
        if state.record is not None:
            for arm, item in finished.items():
                state.record.arms[arm].rounds.append(item)
        state.done += 1
        self.progress.tell(
            "round",
            point_id=state.point.point_id,
            launch=self.run.launch,
            round=state.done,
            rounds=state.rounds,
        )

    # ---- one block -------------------------------------------------------------------------------------------

    def _blocks(
        self, state: PointState, arm: str, active: tuple[int, ...], warmup: int, steps: int
    ) -> dict[int, Block]:
        """One block on the active ranks, the others waiting."""

        def block() -> Block:
            replica = Replica(state.point, arm, self.ranks.device, state.group if uses_ddp(arm) else None)
            meet = (lambda: align(state.group)) if len(active) > 1 else (lambda: None)
            batches = self._batches(state, arm)
            return time_block(replica.step, batches, warmup, steps, self.ranks.device, meet, self.own_cores)

        return self._on(active, block)

    def _batches(self, state: PointState, arm: str) -> list[Batch]:
        batches = _known(state.batches)
        return batches.global_batches() if arm == "serial_global" else batches.local_batches(_known(state.position))

    def _on(self, active: tuple[int, ...], work: Callable[[], _T]) -> dict[int, _T]:
        """What `work` returns on each active rank, known to all; the others wait. Raises `PointFault` on all ranks
        where one has not the memory. (A rank that lacks it in mid-collective leaves the others to their time-out.)"""
        result: Any = None
        if self.ranks.rank in active:
            try:
                result = work()
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
                result = Fault(reason=f"out of memory: {str(error).splitlines()[0]}", rank=self.ranks.rank)
        results = self.ranks.gather(result)
        for item in results:
            if isinstance(item, Fault):
                raise PointFault("oom", item)
        return {rank: results[rank] for rank in active}

    def _check_losses(self, blocks: dict[int, Block], arm: str) -> None:
        for rank, block in blocks.items():
            if block.nan_step is not None:
                reason = f"the loss is not finite at step {block.nan_step} of {arm}"
                raise PointFault("nan", Fault(reason=reason, arm=arm, rank=rank, step=block.nan_step))

    def _tell_block(self, state: PointState, arm: str) -> None:
        self.progress.tell(
            "block",
            point_id=state.point.point_id,
            arm=arm,
            round=state.done,
            done=self.blocks_done,
            total=self.blocks_total,
        )
        self.blocks_done += 1 if not state.steps.get(arm) else len(turns(arm, state.members, state.done))

    def _out_of_time(self, needed_s: float) -> bool:
        """Whether the next piece of work would end after the deadline, by rank 0's clock."""
        deadline = self.run.deadline_unix_s
        return self.ranks.from_rank_0(deadline is not None and time.time() + needed_s > deadline)


def balanced_order(arms: tuple[str, ...], round_index: int) -> tuple[str, ...]:
    """The arms of one round: rotated a place every two rounds and reversed every other, so that over 2n rounds
    every arm stands in every place equally often and no arm always follows the same one."""
    shift = (round_index // 2) % len(arms)
    rotated = arms[shift:] + arms[:shift]
    return rotated[::-1] if round_index % 2 else rotated


def _as_round(blocks: dict[int, Block], launch: int, index: int, order: int) -> Round:
    ranks = sorted(blocks)
    return Round(
        launch=launch,
        index=index,
        order=order,
        active_ranks=ranks,
        rank_step_times_s=[blocks[rank].step_times_s for rank in ranks],
        rank_block_times_s=[blocks[rank].block_time_s for rank in ranks],
        reference_kernel_s=[blocks[rank].reference_kernel_s for rank in ranks],
        foreign_cpu_share=[blocks[rank].foreign_cpu_share for rank in ranks],
        minor_faults=[blocks[rank].minor_faults for rank in ranks],
        started_utc=min(block.started_utc for block in blocks.values()),
    )


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _known(value: _T | None) -> _T:
    """A value that an active rank always has."""
    if value is None:
        raise RuntimeError("this rank is not a member of the point's group")
    return value
