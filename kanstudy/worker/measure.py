"""One launch: prepare every point, then measure all of them in shuffled rounds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import torch

from kanstudy import stopping
from kanstudy.model.operators import resolve_operator
from kanstudy.record import Fault, Round
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import PointSpec
from kanstudy.wanted import wanted_of
from kanstudy.worker import conditions, interruption
from kanstudy.worker.arms import turns
from kanstudy.worker.blocks import PointFault, PointState, run_blocks
from kanstudy.worker.dataset import Dataset
from kanstudy.worker.first_steps import take_first_steps
from kanstudy.worker.prepare import inject, instrument, is_instrumented, pilot
from kanstudy.worker.progress import Progress
from kanstudy.worker.ranks import Ranks
from kanstudy.worker.resume import open_record
from kanstudy.worker.timing import Block


class Measurement:
    """The points of one plan, measured by all ranks together; `cores` are this rank's own, if it has any.

    Every rank makes the same object and calls `measure`, which is collective over the launch.
    """

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
                    self._tell_time_is_spent([state for state in ready if state.done < state.rounds])
                    return
                start = time.monotonic()
                if not self._guarded(state, partial(self._round, order=order)):
                    ready.remove(state)
                order += state.point.blocks_per_round
                state.round_s = max(state.round_s, time.monotonic() - start)
        self.progress.tell("finished")

    def _open(self, point: PointSpec) -> PointState:
        ranks, members = self.ranks, self.ranks.members(point)
        operator = None
        if point.operator is not None and point.spline_order is not None:
            operator = resolve_operator(point.operator, self.run.device, point.spline_order)
        details = conditions.of_point(self.launch_conditions, point, members, operator)
        wanted = wanted_of(self.run, point.point_id)
        most, target = wanted.rounds, wanted.target_width
        record, done, rounds = None, 0, most
        if ranks.rank == 0:
            record = open_record(self.run, point, conditions.fingerprint(details))
            conditions.apply(record, details, members, ranks.hosts)
            done = record.rounds_of_launch(self.run.launch)
            if target is not None and done in (*stopping.LOOKS, most):  # rounds that an earlier plan asked for
                stopping.look(record, self.run.launch, target, most)
            rounds = done if wanted.has_launch(record, self.run.launch) else most
        done, rounds = ranks.from_rank_0((done, rounds))
        data = Dataset.open(self.run.data_files[data_key(point)])
        return PointState(
            point=point,
            members=members,
            group=ranks.groups[members],
            position=members.index(ranks.rank) if ranks.rank in members else None,
            data=data,
            rounds=rounds,
            done=done,
            record=record,
            operator=operator,
        )

    def _guarded(self, state: PointState, work: Callable[[PointState], None]) -> bool:
        """Do one piece of work on a point and save its record; a fault of the point ends it, not the launch."""
        torch.backends.cuda.matmul.allow_tf32 = state.point.tf32
        torch.backends.cudnn.allow_tf32 = state.point.tf32
        try:
            work(state)
        except PointFault as fault:
            if state.record is not None and fault.fault.arm is not None:
                state.record.arms[fault.fault.arm].status = fault.status
            self._save(state, fault.status, fault.fault)
            state.release()
            self.progress.tell("point", point_id=state.point.point_id, status=fault.status)
            return False
        complete = state.record is not None and wanted_of(self.run, state.point.point_id).has_rounds(state.record)
        self._save(state, "ok" if complete else "partial", None)
        if state.done >= state.rounds:
            self.progress.tell("point", point_id=state.point.point_id, status="ok")
        return True

    def _save(self, state: PointState, status: str, fault: Fault | None) -> None:
        if state.record is not None:
            state.record.status, state.record.error = status, fault
            write_record(state.record, self.run.results_dir)

    def _prepare(self, state: PointState) -> None:
        instrumented = is_instrumented(self.ranks, state)
        if instrumented and state.done >= state.rounds:
            return
        preparing = partial(self.progress.tell, "preparing", point_id=state.point.point_id)
        take_first_steps(self.ranks, state, preparing)
        inject(self.ranks, state)
        for arm in state.point.arms:
            self._tell_block(state, arm, 1)
            pilot(self.ranks, state, arm)
        if not instrumented:
            instrument(self.ranks, state, preparing)

    def _round(self, state: PointState, order: int) -> None:
        """One complete round: every arm once, in an order that is balanced over the rounds."""
        finished: dict[str, tuple[dict[int, Block], int]] = {}
        for arm in balanced_order(state.point.arms, state.done):
            together = turns(arm, state.members, state.done)
            self._tell_block(state, arm, len(together))
            blocks: dict[int, Block] = {}
            for active in together:
                blocks |= run_blocks(self.ranks, state, arm, active, state.steps[arm], self.own_cores)
            finished[arm] = blocks, order
            order += len(together)
        if state.record is not None:
            for arm, (blocks, place) in finished.items():
                item = _as_round(blocks, self.run.launch, state.record.attempt, state.done, place)
                state.record.arms[arm].rounds.append(item)
        state.done += 1
        self._look(state)
        self.progress.tell(
            "round",
            point_id=state.point.point_id,
            launch=self.run.launch,
            round=state.done,
            rounds=state.rounds,
        )

    def _look(self, state: PointState) -> None:
        """End an adaptive point whose interval is narrow enough, on all ranks: rank 0 decides."""
        target = self.run.target_width.get(state.point.point_id)
        if target is None or state.done not in (*stopping.LOOKS, state.rounds):
            return
        enough = state.record is not None and stopping.look(state.record, self.run.launch, target, state.rounds)
        if self.ranks.from_rank_0(enough):
            self.blocks_total -= (state.rounds - state.done) * state.point.blocks_per_round
            state.rounds = state.done

    def _tell_time_is_spent(self, states: list[PointState]) -> None:
        """Of the adaptive points that wanted more rounds."""
        for state in states:
            target = self.run.target_width.get(state.point.point_id)
            if state.record is not None and target is not None and state.done:
                stopping.out_of_time(state.record, self.run.launch, target)
                write_record(state.record, self.run.results_dir)

    def _tell_block(self, state: PointState, arm: str, blocks: int) -> None:
        self.progress.tell(
            "block",
            point_id=state.point.point_id,
            arm=arm,
            round=state.done,
            done=self.blocks_done,
            total=self.blocks_total,
        )
        self.blocks_done += blocks

    def _out_of_time(self, needed_s: float) -> bool:
        """Whether the next piece of work would end after the deadline by rank 0's clock, or it was asked to end."""
        deadline = self.run.deadline_unix_s
        is_over = interruption.is_asked() or (deadline is not None and time.time() + needed_s > deadline)
        return bool(self.ranks.from_rank_0(is_over))


def balanced_order(arms: tuple[str, ...], round_index: int) -> tuple[str, ...]:
    """The arms of one round: rotated a place every two rounds and reversed every other, so that over 2n rounds
    every arm stands in every place equally often and no arm always follows the same one."""
    shift = (round_index // 2) % len(arms)
    rotated = arms[shift:] + arms[:shift]
    return rotated[::-1] if round_index % 2 else rotated


def _as_round(blocks: dict[int, Block], launch: int, attempt: int, index: int, order: int) -> Round:
    ranks = sorted(blocks)
    return Round(
        launch=launch,
        attempt=attempt,
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
