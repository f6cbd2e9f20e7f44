"""Each experiment's estimates as one tidy frame: a row a point, every value with `_low` and `_high`, and the reason
where one is blank. A record that failed is a row too, with its status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics, rows
from kanstudy.analysis.attribution.chain import baseline
from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.communication.blocking import blocking, bucket_bytes
from kanstudy.analysis.results import fault_text
from kanstudy.analysis.rows import columns, joined, quality
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Arm, Record

_PHASES = ("data_wait", "forward", "backward", "optimizer")


def strong(records: Sequence[Record]) -> pd.DataFrame:
    """Strong scaling: step_time_s, serial_time_s, speedup, efficiency, efficiency_ddp1 (baseline DDP at p = 1),
    efficiency_mean (of mean times), efficiency_all (disturbed rounds kept), karp_flatt, overhead, holdout_loss.

    The baseline is the plain module on one rank, measured in the same rounds; `baseline` names it. Without it,
    speed-up and efficiency are blank and say why. DDP at p = 1 is the point `ddp1_point_id`.
    """
    return _scaling(records, serial_fraction=True)


def weak(records: Sequence[Record]) -> pd.DataFrame:
    """Weak scaling: as `strong`, the baseline being the plain module with the local batch; speedup is E p, how many
    times more rows a second, of which no serial fraction follows; throughput and throughput_per_rank in rows/s."""
    return _scaling(records, serial_fraction=False)


def overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Communication: step_time_s, overhead (1 - T_noop/T_ddp), exposed_ms, and total_comm_s, the blocking all-reduces
    of the same buckets on as many ranks, over their repeats: another quantity, never to be added, of the point
    allreduce_point_id."""
    lines = []
    for record, head in rows.heads(records):
        arms = PairedArms(record)
        share = _overhead(arms)
        total = blocking(record, records)
        row = head | {"buckets": len(bucket_bytes(record)) or np.nan, "allreduce_point_id": total.point_id}
        row |= columns("step_time_s", arms.time("ddp")) | columns("overhead", share)
        row |= columns("exposed_ms", _exposed(arms)) | columns("total_comm_s", total.total_s)
        note = "overhead below 0" if share.value < 0 else ""
        lines.append(row | rows.tail(record, arms, joined(quality(record, arms), note, total.reason)))
    return rows.frame(lines, ("buckets", "allreduce_point_id"), _COMMUNICATION)


def allreduce(records: Sequence[Record]) -> pd.DataFrame:
    """The blocking all-reduce: one row a message size, time_s (of the slowest rank), algbw and busbw in B/s, n."""
    lines = []
    for record, head in rows.heads(records):
        for item in record.allreduce:
            size, p = item.message_bytes, record.world_size
            time = intervals.median(np.array(item.times_s, dtype=float), intervals.seed_of(record.point_id))
            row = head | {"message_bytes": size} | columns("time_s", time)
            algbw = time.mapped(partial(metrics.algorithm_bandwidth, size))
            busbw = time.mapped(partial(metrics.bus_bandwidth, size, world_size=p))
            row |= columns("algbw_bytes_per_s", algbw) | columns("busbw_bytes_per_s", busbw)
            lines.append(row | {"n": time.n, "reason": "one rank: nothing moves" if p == 1 else ""})
    frame = rows.frame(
        lines, ("message_bytes",), ("time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"), tail=("n", "reason")
    )
    return frame.sort_values(["world_size", "point_id", "message_bytes"], ignore_index=True)


def model_size(records: Sequence[Record]) -> pd.DataFrame:
    """Model sizes: n_params, gradient_bytes, serial_time_s, step_time_s, throughput, efficiency, overhead,
    peak_memory_bytes (the fullest rank's, under DDP), params_per_byte."""
    lines = []
    for record, head in rows.heads(records):
        arms, found = PairedArms(record), efficiency(record)
        memory = record.arms["ddp"].peak_memory_bytes if "ddp" in record.arms else None
        peak = max(memory) if memory else np.nan
        row = head | {"n_params": record.n_params, "gradient_bytes": record.gradient_bytes, "peak_memory_bytes": peak}
        row["params_per_byte"] = metrics.parameters_per_byte(record.n_params, peak) if record.n_params else np.nan
        row |= columns("serial_time_s", arms.time("serial_global")) | columns("step_time_s", arms.time("ddp"))
        row |= columns("throughput", _throughput(arms, record.global_batch_size))
        row |= columns("efficiency", found.value) | columns("overhead", _overhead(arms))
        lines.append(row | rows.tail(record, arms, found.reason))
    plain = ("n_params", "gradient_bytes", "peak_memory_bytes", "params_per_byte")
    return rows.frame(lines, plain, ("serial_time_s", "step_time_s", "throughput", "efficiency", "overhead"))


def phases(records: Sequence[Record]) -> pd.DataFrame:
    """The instrumented steps, a row an arm of a point: data_wait_ms (the batch from disk to device), forward_ms,
    backward_ms (DDP's communication in it), optimizer_ms, last_bucket_ms (from the start of backward until the last
    gradient bucket is complete), each the median over steps of the slowest rank; out_of_grid_share, the largest share
    of any KAN layer's inputs outside its grid, of the hold-out rows after training.

    They end in a wait for the device each, so that they add up to more than a timed step. A point without them is one
    row of arm "none" and says why.
    """
    lines = []
    for record, head in rows.heads(records):
        head["out_of_grid_share"] = max(record.out_of_grid_share or [np.nan])
        arms = {name: arm for name, arm in record.arms.items() if arm.forward_s}
        for name, arm in arms.items():
            times = {f"{phase}_ms": _slowest_ms(getattr(arm, f"{phase}_s")) for phase in _PHASES}
            times["last_bucket_ms"] = _last_bucket_ms(arm)
            lines.append(head | {"arm": name} | times | {"reason": fault_text(record)})
        if not arms:
            reason = fault_text(record) or "no steps were instrumented"
            lines.append(head | {"arm": "none", "reason": reason})
    names = [f"{phase}_ms" for phase in _PHASES]
    return rows.frame(lines, ("arm", *names, "last_bucket_ms", "out_of_grid_share"), (), tail=("reason",))


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


def _scaling(records: Sequence[Record], serial_fraction: bool) -> pd.DataFrame:
    found = {record.point_id: efficiency(record) for record in records}
    series = rows.heads(records)
    one_rank = {  # a label is unique within its experiment only
        (head["experiment"], head["series"]): (record.point_id, found[record.point_id].value)
        for record, head in series
        if record.world_size == 1
    }
    lines = []
    for record, head in series:
        own, arms, p = found[record.point_id], PairedArms(record), record.world_size
        ddp1, alone = one_rank.get((head["experiment"], head["series"]), ("", None))
        note = "no point of one rank: no efficiency with the baseline DDP" if alone is None and arms.n else ""
        speedup = own.value.mapped(partial(np.multiply, p))
        row = head | {"baseline": _baseline_name(record), "ddp1_point_id": ddp1}
        row |= columns("step_time_s", arms.time("ddp")) | columns("serial_time_s", _serial_time(record, arms))
        row |= columns("speedup", speedup) | columns("efficiency", own.value)
        row |= columns("efficiency_ddp1", _with_ddp_baseline(p, own.value, alone))
        row |= columns("efficiency_mean", own.of_means) | columns("efficiency_all", own.all_rounds)
        if serial_fraction:
            fraction = MISSING if p == 1 else speedup.mapped(partial(metrics.karp_flatt, world_size=p))
            row |= columns("karp_flatt", fraction)
        row |= columns("overhead", _overhead(arms))
        row |= columns("throughput", _throughput(arms, record.global_batch_size))
        row |= columns("throughput_per_rank", _throughput(arms, record.local_batch_size))
        row |= {"loss_last": record.loss_last, "holdout_loss": record.holdout_loss}
        lines.append(row | rows.tail(record, arms, joined(own.reason, note)))
    estimated = _SCALING if serial_fraction else tuple(name for name in _SCALING if name != "karp_flatt")
    return rows.frame(lines, ("baseline", "ddp1_point_id"), estimated, middle=("loss_last", "holdout_loss"))


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


def _baseline_name(record: Record) -> str:
    return f"plain module, one rank, {'global' if record.scaling == 'strong' else 'local'} batch"


def _serial_time(record: Record, arms: PairedArms) -> Estimate:
    return arms.time(baseline(record, arms)[0])


def _with_ddp_baseline(p: int, plain: Estimate, one_rank: Estimate | None) -> Estimate:
    """E with DDP at p = 1 as baseline: T_ddp/T_serial of that record times E of the plain baseline of this one."""
    if p == 1:
        return intervals.no_interval(1.0 if np.isfinite(plain.value) else np.nan, plain.n)
    return MISSING if one_rank is None else plain.times(one_rank.mapped(lambda e: 1 / e))


def _overhead(arms: PairedArms) -> Estimate:
    return arms.ratio("ddp_noop", "ddp").mapped(lambda ratio: metrics.communication_overhead(ratio, 1.0))


def _exposed(arms: PairedArms) -> Estimate:
    """Median over rounds of T_ddp - T_noop, ms."""
    if not arms.has("ddp", "ddp_noop"):
        return MISSING
    return arms.median(1e3 * (arms.times_s["ddp"] - arms.times_s["ddp_noop"]))


def _throughput(arms: PairedArms, batch: int) -> Estimate:
    return arms.time("ddp").mapped(lambda t: metrics.throughput(batch, t))


def _slowest_ms(times_s: Sequence[Sequence[float]] | None) -> float:
    """Median over steps of the slowest rank's time, ms; input is [rank][step]."""
    return float(1e3 * np.median(np.max(times_s, axis=0))) if times_s else np.nan


def _last_bucket_ms(arm: Arm) -> float:
    """When, from the start of backward, the last bucket of the slowest rank was complete; median over steps, ms."""
    return _slowest_ms([[max(buckets) for buckets in steps] for steps in arm.bucket_ready_s or []])
