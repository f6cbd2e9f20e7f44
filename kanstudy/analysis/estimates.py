"""Each experiment's estimates as one tidy frame: a row a point, every value with `_low` and `_high`, and the reason
where one is blank. A record that failed is a row too, with its status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from kanstudy.analysis import intervals, metrics
from kanstudy.analysis.attribution import baseline, columns, efficiency, joined, quality
from kanstudy.analysis.intervals import MISSING, Estimate
from kanstudy.analysis.paired import PairedArms
from kanstudy.analysis.results import launches, points
from kanstudy.record import Record

_FROM_RECORD = (
    "point_id",
    "experiment",
    "source",
    "profile",
    "status",
    "conditions",
    "device_name",
    "series",
    "dataset",
    "model",
    "layer_widths",
    "grid_size",
    "placement",
    "oversubscribed",
    "world_size",
    "global_batch_size",
    "local_batch_size",
)


def strong(records: Sequence[Record], relative_to_smallest: bool = False) -> pd.DataFrame:
    """Strong scaling: step_time_s, serial_time_s, speedup, efficiency, efficiency_ddp1 (baseline DDP at p = 1),
    efficiency_mean (of mean times), efficiency_all (disturbed rounds kept), karp_flatt, overhead, holdout_loss.

    The baseline is the plain module on one rank, measured in the same rounds; `baseline` names it. Without it,
    speed-up and efficiency are blank and say why; with `relative_to_smallest` they are then relative to DDP at the
    smallest world size of the series, E = S p0/p from medians, and the baseline says so.
    """
    return _scaling(records, relative_to_smallest)


def weak(records: Sequence[Record], relative_to_smallest: bool = False) -> pd.DataFrame:
    """Weak scaling: as `strong`, the baseline being the plain module with the local batch; speedup is E p, how many
    times more rows a second; throughput and throughput_per_rank in rows/s."""
    return _scaling(records, relative_to_smallest)


def overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Communication: step_time_s, overhead (1 - T_noop/T_ddp), exposed_ms, and total_comm_s, the blocking all-reduces
    of the same buckets: another quantity, never to be added."""
    rows = []
    for record, head in _heads(records):
        arms = PairedArms(record)
        share = _overhead(arms)
        total, why = _blocking_allreduce(record)
        row = head | {"bucket_cap_mb": record.bucket_cap_mb, "comm_hook": record.comm_hook}
        row |= {"sync_buffers": record.sync_buffers, "buckets": len(_buckets(record)) or np.nan}
        row |= columns("step_time_s", arms.time("ddp")) | columns("overhead", share)
        row |= columns("exposed_ms", _exposed(arms)) | columns("total_comm_s", total)
        note = "overhead below 0" if share.value < 0 else ""
        rows.append(row | _tail(record, arms, joined(quality(record, arms), note, why)))
    return _frame(rows, ("bucket_cap_mb", "comm_hook", "sync_buffers", "buckets"), _COMMUNICATION)


def allreduce(records: Sequence[Record]) -> pd.DataFrame:
    """The blocking all-reduce: one row a message size, time_s (of the slowest rank), algbw and busbw in B/s, n."""
    rows = []
    for record, head in _heads(records):
        for item in record.allreduce:
            size, p = item.message_bytes, record.world_size
            time = intervals.median(np.array(item.times_s, dtype=float), intervals.seed_of(record.point_id))
            row = head | {"message_bytes": size} | columns("time_s", time)
            algbw = time.mapped(partial(metrics.algorithm_bandwidth, size))
            busbw = time.mapped(partial(metrics.bus_bandwidth, size, world_size=p))
            row |= columns("algbw_bytes_per_s", algbw) | columns("busbw_bytes_per_s", busbw)
            rows.append(row | {"n": time.n, "reason": "one rank: nothing moves" if p == 1 else ""})
    frame = _frame(rows, ("message_bytes",), ("time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"), tail=("n", "reason"))
    return frame.sort_values(["world_size", "point_id", "message_bytes"], ignore_index=True)


def model_size(records: Sequence[Record]) -> pd.DataFrame:
    """Model sizes: n_params, gradient_bytes, serial_time_s, step_time_s, throughput, efficiency, overhead,
    peak_memory_bytes (the fullest rank's, under DDP), params_per_byte."""
    rows = []
    for record, head in _heads(records):
        arms, found = PairedArms(record), efficiency(record)
        memory = record.arms["ddp"].peak_memory_bytes if "ddp" in record.arms else None
        peak = max(memory) if memory else np.nan
        row = head | {"n_params": record.n_params, "gradient_bytes": record.gradient_bytes, "peak_memory_bytes": peak}
        row["params_per_byte"] = metrics.parameters_per_byte(record.n_params, peak) if record.n_params else np.nan
        row |= columns("serial_time_s", arms.time("serial_global")) | columns("step_time_s", arms.time("ddp"))
        row |= columns("throughput", _throughput(arms, record.global_batch_size))
        row |= columns("efficiency", found.value) | columns("overhead", _overhead(arms))
        rows.append(row | _tail(record, arms, found.reason))
    plain = ("n_params", "gradient_bytes", "peak_memory_bytes", "params_per_byte")
    return _frame(rows, plain, ("serial_time_s", "step_time_s", "throughput", "efficiency", "overhead"))


def per_round(records: Sequence[Record]) -> pd.DataFrame:
    """What each round alone says, for the dots of a figure: speedup, efficiency, overhead, throughput, disturbed."""
    frames = []
    for record in records:
        arms = PairedArms(record, all_rounds=True)
        if not arms.has("ddp"):
            continue
        times = arms.times_s
        blank = pd.Series(np.nan, index=times.index)
        base, scale = baseline(record, arms)
        speedup = metrics.speed_up(times.get(base, blank), times["ddp"]) * scale * record.world_size
        frames.append(
            pd.DataFrame(
                {
                    "point_id": record.point_id,
                    "world_size": record.world_size,
                    "efficiency": speedup / record.world_size,
                    "speedup": speedup,
                    "overhead": metrics.communication_overhead(times.get("ddp_noop", blank), times["ddp"]),
                    "throughput": metrics.throughput(record.global_batch_size, times["ddp"]),
                    "disturbed": arms.blocks.disturbed,
                }
            ).reset_index()
        )
    names = ["launch", "round", "point_id", "world_size", "efficiency", "speedup", "overhead", "throughput"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*names, "disturbed"])


def _scaling(records: Sequence[Record], relative_to_smallest: bool) -> pd.DataFrame:
    heads = _heads(records)
    arms = {record.point_id: PairedArms(record) for record, _ in heads}
    found = {record.point_id: efficiency(record) for record, _ in heads}
    rows = []
    for record, head in heads:
        own, times, p = found[record.point_id], arms[record.point_id], record.world_size
        curve = (head["experiment"], head["series"])  # a label is unique within its experiment only
        series = [other for other, its in heads if (its["experiment"], its["series"]) == curve]
        value, base_name, note = own.value, _baseline_name(record), ""
        no_base = [other for other in series if found[other.point_id].no_baseline]
        if relative_to_smallest and no_base:
            value, base_name = _relative(record, series, arms)
        one_rank = next((found[other.point_id].value for other in series if other.world_size == 1), None)
        if p > 1 and one_rank is None and times.n:
            note = "no point of one rank: no efficiency with the baseline DDP"
        speedup = value.mapped(partial(np.multiply, p))
        row = head | {"baseline": base_name}
        row |= columns("step_time_s", times.time("ddp")) | columns("serial_time_s", _serial_time(record, times))
        row |= columns("speedup", speedup) | columns("efficiency", value)
        row |= columns("efficiency_ddp1", _with_ddp_baseline(p, own.value, one_rank))
        row |= columns("efficiency_mean", own.of_means) | columns("efficiency_all", own.all_rounds)
        row |= columns("karp_flatt", MISSING if p == 1 else speedup.mapped(partial(metrics.karp_flatt, world_size=p)))
        row |= columns("overhead", _overhead(times))
        row |= columns("throughput", _throughput(times, record.global_batch_size))
        row |= columns("throughput_per_rank", _throughput(times, record.local_batch_size))
        row |= {"loss_last": record.loss_last, "holdout_loss": record.holdout_loss}
        rows.append(row | _tail(record, times, joined(own.reason, note)))
    return _frame(rows, ("baseline",), _SCALING, middle=("loss_last", "holdout_loss"))


_SCALING = (
    "step_time_s",
    "serial_time_s",
    "speedup",
    "efficiency",
    "efficiency_ddp1",
    "efficiency_mean",
    "efficiency_all",
    "karp_flatt",
    "overhead",
    "throughput",
    "throughput_per_rank",
)
_COMMUNICATION = ("step_time_s", "overhead", "exposed_ms", "total_comm_s")
_QUALITY = ("n_rounds", "n_disturbed", "launches", "trusted", "method", "reason")


def _heads(records: Sequence[Record]) -> list[tuple[Record, dict]]:
    frame = points(records)
    return list(zip(records, frame[list(_FROM_RECORD)].to_dict("records"), strict=True))


def _tail(record: Record, arms: PairedArms, reason: str) -> dict:
    return {
        "n_rounds": arms.n,
        "n_disturbed": arms.blocks.dropped,
        "launches": launches(record),
        "trusted": arms.blocks.trusted,
        "method": arms.time("ddp").method,
        "reason": reason,
    }


def _frame(
    rows: list[dict],
    plain: Sequence[str],
    estimated: Sequence[str],
    middle: Sequence[str] = (),
    tail: Sequence[str] = _QUALITY,
) -> pd.DataFrame:
    """Rows with all their columns, in a fixed order, though there be none."""
    values = [f"{name}{end}" for name in estimated for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*_FROM_RECORD, *plain, *values, *middle, *tail])


def _baseline_name(record: Record) -> str:
    return f"plain module, one rank, {'global' if record.scaling == 'strong' else 'local'} batch"


def _serial_time(record: Record, arms: PairedArms) -> Estimate:
    return arms.time(baseline(record, arms)[0])


def _with_ddp_baseline(p: int, plain: Estimate, one_rank: Estimate | None) -> Estimate:
    """E with DDP at p = 1 as baseline: T_ddp/T_serial of that record times E of the plain baseline of this one."""
    if p == 1:
        return intervals.no_interval(1.0 if np.isfinite(plain.value) else np.nan, plain.n)
    return MISSING if one_rank is None else plain.times(one_rank.mapped(lambda e: 1 / e))


def _relative(record: Record, series: Sequence[Record], arms: dict[str, PairedArms]) -> tuple[Estimate, str]:
    """E relative to DDP at the smallest measured world size p0 of the series, from medians: S p0/p, or weak T0/T."""
    measured = [other for other in series if arms[other.point_id].has("ddp")]
    if not measured:
        return MISSING, ""
    smallest = min(measured, key=lambda other: other.world_size)
    p0, name = smallest.world_size, f"DDP at p = {smallest.world_size}, the smallest measured"
    if record is smallest:
        return intervals.no_interval(1.0, arms[record.point_id].n), name
    ratio = arms[smallest.point_id].time("ddp").times(arms[record.point_id].time("ddp").mapped(lambda t: 1 / t))
    if record.scaling == "weak":
        return ratio, name
    return ratio.mapped(lambda r: metrics.strong_efficiency(r, 1.0, record.world_size, p0)), name


def _overhead(arms: PairedArms) -> Estimate:
    return arms.ratio("ddp_noop", "ddp").mapped(lambda ratio: metrics.communication_overhead(ratio, 1.0))


def _exposed(arms: PairedArms) -> Estimate:
    """Median over rounds of T_ddp - T_noop, ms."""
    if not arms.has("ddp", "ddp_noop"):
        return MISSING
    return intervals.median(1e3 * (arms.times_s["ddp"] - arms.times_s["ddp_noop"]).to_numpy(), arms.seed)


def _throughput(arms: PairedArms, batch: int) -> Estimate:
    return arms.time("ddp").mapped(lambda t: metrics.throughput(batch, t))


def _buckets(record: Record) -> list[int]:
    return next((arm.bucket_bytes for arm in record.arms.values() if arm.bucket_bytes), [])


def _blocking_allreduce(record: Record) -> tuple[Estimate, str]:
    """The time of blocking all-reduces of the point's buckets, s, from the message sizes that the record has; between
    two of them linear in the bytes. Blank, with the reason, where a bucket lies outside."""
    medians = {item.message_bytes: float(np.median(item.times_s)) for item in record.allreduce if item.times_s}
    sizes, buckets = sorted(medians), _buckets(record)
    if not sizes or not buckets:
        return MISSING, ""
    if not (sizes[0] <= min(buckets) and max(buckets) <= sizes[-1]):
        return MISSING, "no blocking all-reduce of this bucket's size"
    times = np.interp(buckets, sizes, [medians[size] for size in sizes])
    return intervals.no_interval(float(times.sum()), min(len(item.times_s) for item in record.allreduce)), ""
