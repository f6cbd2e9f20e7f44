"""A record's file: one JSON file a point, `<results>/<experiment>/<point_id>.json`, written atomically, read strictly.

Missing is null. What is read is of this schema and consistent in itself, or refused by name. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from kanstudy.files import write_atomically
from kanstudy.record import SCHEMA_VERSION, SOURCES, STATUSES, AllReduce, Arm, Fault, Record, Round
from kanstudy.sizes import kan_terms, widths
from kanstudy.spec import ARMS, SCALINGS, PointSpec
from kanstudy.strict_json import RecordError, as_list, as_object, build_strictly, fits, rounded, without_nan

_OF_RANKS = ("rank_step_times_s", "rank_block_times_s", "reference_kernel_s", "foreign_cpu_share", "minor_faults")
_OF_POINT = sorted(
    {field.name for field in dataclasses.fields(PointSpec)}
    & {field.name for field in dataclasses.fields(Record)} - {"arms", "operator", "train_steps"}
)
"""What a record repeats of its point as it is: the operator is resolved, steps are told once they are trained."""
_INSTRUMENTED = ("forward_s", "backward_s", "optimizer_s", "data_wait_s", "bucket_ready_s")


def record_path(results_dir: Path | str, experiment: str, point_id: str) -> Path:
    """Where the record of a point lies."""
    return Path(results_dir) / experiment / f"{point_id}.json"


def write_record(record: Record, results_dir: Path | str) -> Path:
    """Write the record to its place, atomically. Returns the path; raises `OSError` where that fails."""
    path = record_path(results_dir, record.experiment, record.point_id)
    values = dataclasses.asdict(record)
    # seven digits are finer than any clock resolves a step; they keep a record of many short steps small
    values |= {name: rounded(values[name]) for name in ("arms", "allreduce")}
    text = json.dumps(without_nan(values), separators=(",", ":"), allow_nan=False)
    write_atomically(path, text)
    return path


def read_record(path: Path | str) -> Record:
    """Read and check one record.

    Raises `RecordError` naming file and field where it is not JSON, not of this schema, or inconsistent in itself
    (another point's name, arms with different rounds); `OSError` where it cannot be read.
    """
    path = Path(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON: {error}") from error
    try:
        record = record_from_dict(values)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    if record.point_id != path.stem:
        raise RecordError(f"{path}: point_id {record.point_id!r} does not belong in this file")
    return record


def read_record_of(point: PointSpec, results_dir: Path | str) -> Record:
    """The record of a point, as `read_record` reads it; `RecordError` too where it tells of another point."""
    path = record_path(results_dir, point.experiment, point.point_id)
    record = read_record(path)
    for name in _OF_POINT:
        told, meant = getattr(record, name), getattr(point, name)
        if told != (list(meant) if isinstance(meant, tuple) else meant):
            raise RecordError(f"{path}: of another point: {name} = {told!r}: must be {meant!r}")
    if set(record.arms) != set(point.arms):
        raise RecordError(f"{path}: of another point: arms {', '.join(record.arms)}: must be {', '.join(point.arms)}")
    return record


def record_from_dict(values: object) -> Record:
    """A `Record` from the dictionary that `dataclasses.asdict` gives; `RecordError` names what is wrong."""
    if not isinstance(values, dict):
        raise RecordError("a record is a JSON object")
    version = values.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RecordError(f"schema_version {version!r}: this version of kanstudy reads {SCHEMA_VERSION}")
    # records from before there were injections and links have none
    record = build_strictly(Record, {"injection": "", "injection_step_s": None, "link": ""} | values, "record")
    record.error = None if values["error"] is None else build_strictly(Fault, values["error"], "error")
    record.arms = {name: _arm(name, arm) for name, arm in as_object(values["arms"], "arms").items()}
    record.allreduce = [
        build_strictly(AllReduce, item, "allreduce") for item in as_list(values["allreduce"], "allreduce")
    ]
    for name, allowed in (("status", STATUSES), ("source", SOURCES), ("scaling", SCALINGS)):
        if getattr(record, name) not in allowed:
            raise RecordError(f"{name} {getattr(record, name)!r}: must be one of {', '.join(allowed)}")
    try:
        widths(record.layer_widths)
        if record.model == "kan":
            kan_terms(record.grid_size, record.spline_order)  # where one is None, it says so
    except ValueError as error:
        raise RecordError(str(error)) from error
    for name in ("world_size", "local_batch_size", "launches_planned"):
        if getattr(record, name) < 1:
            raise RecordError(f"{name} = {getattr(record, name)}: must be at least 1")
    for name in ("conditions", "stopping", "ddp_counters"):
        if not isinstance(record.provenance.get(name), dict | None):
            raise RecordError(f"provenance.{name}: must be an object or null")
    if (stopping := record.provenance.get("stopping")) is not None and not _is_stopping(stopping):
        raise RecordError("provenance.stopping: must tell the width that was wanted and of each launch its last look")
    if record.local_batch_size * record.world_size != record.global_batch_size:
        raise RecordError("global_batch_size is not local_batch_size times world_size")
    rounds = {name: sorted((r.launch, r.index) for r in arm.rounds) for name, arm in record.arms.items()}
    if len({tuple(keys) for keys in rounds.values()}) > 1:
        raise RecordError("arms hold different rounds, so they cannot be compared pair by pair")
    if any(len(keys) != len(set(keys)) for keys in rounds.values()):
        raise RecordError("a round is there twice")
    ranks = {rank for arm in record.arms.values() for item in arm.rounds for rank in item.active_ranks}
    if len(ranks) > record.world_size or min(ranks, default=0) < 0:  # of the launch: a group on two nodes is 0 and 2
        raise RecordError(f"active_ranks {sorted(ranks)}: must be {record.world_size} ranks of the launch at most")
    return record


def _is_stopping(told: dict[str, Any]) -> bool:
    """Whether this is what `kanstudy.stopping` writes."""
    looks = {"rounds": int, "half_width": float | None, "why": str}
    launches = told.get("launches")
    return (
        fits(told.get("target_width"), float)
        and isinstance(launches, dict)
        and all(isinstance(look, dict) and set(look) == set(looks) for look in launches.values())
        and all(fits(look[name], hint) for look in launches.values() for name, hint in looks.items())
    )


def _arm(name: str, values: object) -> Arm:
    where = f"arms.{name}"
    if name not in ARMS:
        raise RecordError(f"{where}: must be one of {', '.join(ARMS)}")
    arm = build_strictly(Arm, values, where)
    arm.rounds = [build_strictly(Round, item, f"{where}.rounds") for item in as_list(arm.rounds, f"{where}.rounds")]
    for item in arm.rounds:
        if not item.active_ranks or len(set(item.active_ranks)) < len(item.active_ranks):
            raise RecordError(f"{where}.rounds.active_ranks {item.active_ranks}: must be distinct, at least one")
        for column in _OF_RANKS:
            if len(getattr(item, column)) != len(item.active_ranks):
                raise RecordError(f"{where}.rounds.{column}: one entry an active rank")
        if any(kernel is not None and kernel <= 0 for kernel in item.reference_kernel_s):
            raise RecordError(f"{where}.rounds.reference_kernel_s {item.reference_kernel_s}: must be above 0 or null")
    instrumented = [values for column in _INSTRUMENTED if (values := getattr(arm, column))]
    sizes = {(len(values), len(steps)) for values in instrumented for steps in values}
    buckets = {len(ready) for steps in arm.bucket_ready_s or [] for ready in steps}
    if len(sizes) > 1 or len(buckets) > 1 or 0 in buckets or any(steps == 0 for _, steps in sizes):
        raise RecordError(f"{where}: {', '.join(_INSTRUMENTED)} must be of the same ranks, steps and buckets")
    return arm
