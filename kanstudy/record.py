"""The record: everything measured at one point, its units in the field names.

Missing is None, never -1 or 0. Raw times are kept; what can be derived (medians, efficiencies, bandwidths) is not
stored. All arms of a record hold the same complete rounds, so that they can be compared pair by pair.
`kanstudy.record_files` writes and reads it.

Standard library only: the worker fills records on a cluster's own Python, the analysis reads them anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kanstudy.run_spec import RunSpec
from kanstudy.spec import PointSpec

SCHEMA_VERSION = 1
SOURCES = ("measured", "emulated", "simulated")
STATUSES = ("ok", "partial", "oom", "nan", "failed", "timeout")
FINAL_FAULTS = ("oom", "nan")
"""Faults of the point itself: measuring it again gives the same. `failed` and `timeout` are tried again."""


@dataclass(kw_only=True)
class Round:
    """One arm's blocks in one complete round.

    `launch` is the launch that the round was planned for, `attempt` the start of all ranks that measured it: a launch
    that was interrupted goes on in another attempt. Lists run over `active_ranks`, in their order.
    `rank_step_times_s[i][k]` is the k-th timed step of rank `active_ranks[i]`; `rank_block_times_s[i]` is first start
    to last end. `order` is the block's place among all blocks of its round. `reference_kernel_s` times a fixed kernel
    just before the block (the machine's own drift), `foreign_cpu_share` is the share of the rank's cores that others
    used meanwhile, `minor_faults` counts page faults a step.
    """

    launch: int
    attempt: int
    index: int
    order: int
    active_ranks: list[int]
    rank_step_times_s: list[list[float]]
    rank_block_times_s: list[float]
    reference_kernel_s: list[float]
    foreign_cpu_share: list[float | None]
    minor_faults: list[float | None]
    started_utc: str


@dataclass(kw_only=True)
class Arm:
    """One arm of a point: its rounds, and what the separate instrumented pass saw, `[rank][step]`.

    `bucket_ready_s[rank][step][bucket]` is when a gradient bucket was complete, from the start of backward;
    `bucket_bytes[bucket]` its size. `peak_memory_bytes[rank]` is the most that tensors held during a step:
    parameters, gradients, optimizer state, data of the step, activations and buckets.
    """

    status: str = "ok"
    rounds: list[Round] = field(default_factory=list)
    forward_s: list[list[float]] | None = None
    backward_s: list[list[float]] | None = None
    optimizer_s: list[list[float]] | None = None
    data_wait_s: list[list[float]] | None = None
    bucket_ready_s: list[list[list[float]]] | None = None
    bucket_bytes: list[int] | None = None
    peak_memory_bytes: list[int] | None = None


@dataclass(kw_only=True)
class AllReduce:
    """Blocking all-reduces of one message size; `times_s[i]` is the slowest rank's time of repeat i."""

    message_bytes: int
    times_s: list[float]


@dataclass(kw_only=True)
class Fault:
    """Why a record is not `ok`: what happened, in which arm and step (from 0, warm-up included), on which rank."""

    reason: str
    arm: str | None = None
    rank: int | None = None
    step: int | None = None
    log_tail: str | None = None


@dataclass(kw_only=True)
class Record:
    """All that was measured at one point; see the groups of fields. `flops_per_sample` counts the matrix products
    of forward and backward (three times forward's 2·in·out·terms), for one row of data."""

    # identity
    point_id: str
    experiment: str
    profile: str
    source: str
    status: str
    conditions: str | None
    seed: int
    attempt: int = 1
    error: Fault | None = None
    schema_version: int = SCHEMA_VERSION
    # scale
    world_size: int
    nodes: int | None
    ranks_per_node: int | None
    placement: str
    threads_per_rank: int
    oversubscribed: bool = False
    backend: str
    device_type: str
    device_name: str | None
    # batch, data
    scaling: str
    local_batch_size: int
    global_batch_size: int
    dataset: str
    n_samples: int
    optimizer: str
    learning_rate: float
    # model
    model: str
    layer_widths: list[int]
    grid_size: int | None
    spline_order: int | None
    operator: str | None
    n_params: int | None = None
    gradient_bytes: int | None = None
    flops_per_sample: float | None = None
    # settings
    bucket_cap_mb: float
    comm_hook: str
    sync_buffers: bool
    dtype: str
    tf32: bool
    # how it was measured
    rounds_planned: int
    launches_planned: int
    block_s: float
    warmup_steps: int
    warmup_s: float
    # put in on purpose: see kanstudy.injection; one dose is so many seconds a step
    injection: str = ""
    injection_step_s: float | None = None
    # between the ranks: see kanstudy.emulated_link
    link: str = ""
    # what was measured
    arms: dict[str, Arm]
    loss_first: float | None = None
    loss_last: float | None = None
    holdout_loss: float | None = None
    train_steps: int | None = None
    out_of_grid_share: list[float] | None = None
    allreduce: list[AllReduce] = field(default_factory=list)
    # provenance
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def series_batch(self) -> int:
        """The batch that stays over the world sizes of a curve: global in strong scaling, local in weak."""
        return self.global_batch_size if self.scaling == "strong" else self.local_batch_size

    @property
    def launch_numbers(self) -> list[int]:
        """The launches that this record holds rounds of."""
        return sorted({item.launch for arm in self.arms.values() for item in arm.rounds})

    def rounds_of_launch(self, launch: int) -> int:
        """Complete rounds that this record holds of one launch."""
        return min((sum(r.launch == launch for r in arm.rounds) for arm in self.arms.values()), default=0)


def blank_record(point: PointSpec, run: RunSpec, status: str = "partial") -> Record:
    """The record of a point of which nothing is measured yet: all that the plan alone tells."""
    return Record(
        point_id=point.point_id,
        experiment=point.experiment,
        profile=run.profile,
        source="emulated" if point.injection or point.link else "measured",
        status=status,
        conditions=None,
        seed=point.seed,
        world_size=point.world_size,
        nodes=None,
        ranks_per_node=None,
        placement=point.placement,
        threads_per_rank=run.threads_per_rank,
        oversubscribed=run.oversubscribed,
        backend=run.backend,
        device_type=run.device,
        device_name=None,
        scaling=point.scaling,
        local_batch_size=point.local_batch_size,
        global_batch_size=point.global_batch_size,
        dataset=point.dataset,
        n_samples=point.n_samples,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        model=point.model,
        layer_widths=list(point.layer_widths),
        grid_size=point.grid_size,
        spline_order=point.spline_order,
        operator=point.operator,
        bucket_cap_mb=point.bucket_cap_mb,
        comm_hook=point.comm_hook,
        sync_buffers=point.sync_buffers,
        dtype=point.dtype,
        tf32=point.tf32,
        rounds_planned=run.rounds[point.point_id],
        launches_planned=run.launches,
        block_s=point.block_s,
        warmup_steps=point.warmup_steps,
        warmup_s=point.warmup_s,
        injection=point.injection,
        link=point.link,
        arms={arm: Arm() for arm in point.arms},
        provenance=dict(run.provenance),
    )
