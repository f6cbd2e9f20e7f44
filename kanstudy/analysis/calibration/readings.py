"""What the records of a calibration say of one rank alone and of the ranks of one node, in logarithms a launch.

Medians over the undisturbed rounds of each launch; arms of a record are compared round by round, free of drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.analysis.statistics.blocks import Blocks, blocks
from kanstudy.analysis.statistics.paired_arms import WITHIN
from kanstudy.record import Arm, Record
from kanstudy.spec import ARMS, PointSpec

TOGETHER = ("concurrent", "ddp_noop")
"""Arms of all ranks at once that do not wait for each other, so that their steps show the spread between ranks."""


@dataclass(frozen=True)
class Reading:
    """One point: `log_times` (launches, columns) of `columns` of the chain, of logarithms of s a step.

    `phases_s` are forward, backward and optimizer of an instrumented step of the first arm.
    `rank_logs` (launches, ranks): how much longer each rank alone takes than their mean, of several ranks.
    `block_sd` is by how much the logarithm of an arm's block varies from round to round, beyond the rounds' drift;
    there are `rounds` in all.
    """

    point: PointSpec
    record: Record
    columns: tuple[str, ...]
    log_times: np.ndarray
    phases_s: tuple[float, float, float]
    rank_logs: np.ndarray | None
    block_sd: float
    rounds: int

    def time_s(self, column: str) -> float:
        """The time of a column of the chain, s a step: the geometric mean over launches."""
        return float(np.exp(self.log_times[:, self.columns.index(column)].mean()))

    def has(self, *columns: str) -> bool:
        """Whether all these columns were measured."""
        return set(columns) <= set(self.columns)


def point_of(record: Record) -> PointSpec:
    """The point of a record, as far as a cost model needs it."""
    return PointSpec(
        experiment=record.experiment,
        scaling=record.scaling,
        world_size=record.world_size,
        global_batch_size=record.global_batch_size,
        dataset=record.dataset,
        n_samples=record.n_samples,
        layer_widths=tuple(record.layer_widths),
        arms=tuple(arm for arm in ARMS if arm in record.arms),
        model=record.model,
        grid_size=record.grid_size,
        spline_order=record.spline_order,
        operator=record.operator,
        placement=record.placement,
        optimizer=record.optimizer,
        learning_rate=record.learning_rate,
        dtype=record.dtype,
        tf32=record.tf32,
        bucket_cap_mb=record.bucket_cap_mb,
        comm_hook=record.comm_hook,
        sync_buffers=record.sync_buffers,
        block_s=record.block_s,
        warmup_steps=record.warmup_steps,
        warmup_s=record.warmup_s,
    )


def read(record: Record) -> Reading:
    """What a record with rounds and phases says."""
    found = blocks(record)
    times = _selected(found)
    columns = tuple(str(column) for column in times.columns)
    arms = [columns.index(column) for column in columns if column in ARMS]
    within = {columns.index(c): columns.index(arm) for c, arm in WITHIN.items() if c in columns and arm in columns}
    logs = np.log(times.to_numpy())
    launch_of = times.index.get_level_values("launch").to_numpy()
    per_launch, spreads = [], []
    for launch in np.unique(launch_of):
        rounds = logs[launch_of == launch]
        level = np.median(rounds[:, arms].mean(axis=1))
        per_launch.append(level + metrics.arm_log_medians(rounds, arms, within))
        free = metrics.drift_free(rounds, arms)[:, arms] if len(arms) > 1 else rounds[:, arms]
        if len(rounds) > 1:
            # the mean over m arms took 1/m of the variance away
            share = len(arms) / (len(arms) - 1) if len(arms) > 1 else 1.0
            spreads.append(share * free.var(axis=0, ddof=1).mean())
    block_sd = float(np.sqrt(np.mean(spreads))) if spreads else 0.0
    return Reading(
        point=point_of(record),
        record=record,
        columns=columns,
        log_times=np.array(per_launch),
        phases_s=_phases(next(arm for name in ARMS if (arm := record.arms.get(name)) is not None)),
        rank_logs=_rank_logs(record, found),
        block_sd=block_sd,
        rounds=len(times),
    )


def step_blocks(records: Sequence[Record], arms: Sequence[str]) -> list[np.ndarray]:
    """Step times of each undisturbed block (ranks, steps) of these arms, free of what lasts and of what is common.

    Each step is divided by its rank's mean over the block, and the block put on the level that is the rank's own in
    this round: beyond what the rank is over all rounds of the launch, and all ranks are in the round.
    """
    found = []
    for record in records:
        kept = _kept(blocks(record))
        for name in arms:
            launches: dict[int, list[np.ndarray]] = {}
            for item in record.arms[name].rounds if name in record.arms else []:
                if (item.launch, item.index) in kept and len({len(steps) for steps in item.rank_step_times_s}) == 1:
                    times = np.array(item.rank_step_times_s, dtype=float)
                    if times.shape[1] > 1 and (times > 0).all():
                        launches.setdefault(item.launch, []).append(times)
            for blocks_s in launches.values():
                means = np.array([times.mean(axis=1) for times in blocks_s])  # (rounds, ranks)
                found += [
                    times / mean[:, None] * level[:, None]
                    for times, mean, level in zip(blocks_s, means, _own_levels(means), strict=True)
                ]
    return found


def _own_levels(means: np.ndarray) -> np.ndarray:
    """Factors (rounds, ranks) by which a rank is slower in a round than it is, and than all are, in the launch.

    Taking two means away takes their share of the variance, which is given back.
    """
    rounds, ranks = means.shape
    if rounds == 1 or ranks == 1:
        return np.ones_like(means)
    logs = np.log(means)
    own = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    levels: np.ndarray = np.exp(own * np.sqrt(rounds / (rounds - 1) * ranks / (ranks - 1)))
    return levels


def _selected(found: Blocks) -> pd.DataFrame:
    """The times of the undisturbed rounds; of a launch without any, of all: a calibration needs each launch."""
    calm = pd.Series(~found.disturbed, index=found.times_s.index)
    return found.times_s[(calm | ~calm.groupby(level="launch").transform("any")).to_numpy()]


def _kept(found: Blocks) -> set[tuple[int, int]]:
    return {(int(launch), int(index)) for launch, index in _selected(found).index}


def _phases(arm: Arm) -> tuple[float, float, float]:
    forward, backward, optimizer = (
        float(np.median(values)) if values else np.nan for values in (arm.forward_s, arm.backward_s, arm.optimizer_s)
    )
    return forward, backward, optimizer


def _rank_logs(record: Record, found: Blocks) -> np.ndarray | None:
    """Each rank's time alone over the ranks' mean, its median over the rounds of each launch (launches, ranks)."""
    if record.world_size == 1 or "serial_local" not in record.arms:
        return None
    kept = _kept(found)
    rounds: dict[int, list[np.ndarray]] = {}
    for item in record.arms["serial_local"].rounds:
        if (item.launch, item.index) in kept:
            means = np.log(metrics.rank_mean_step_times(item.rank_step_times_s))
            rounds.setdefault(item.launch, []).append(means - means.mean())
    return np.array([np.median(values, axis=0) for _, values in sorted(rounds.items())])
