"""How much of the all-reduce is hidden: blocking all-reduces of the same buckets less the exposed data movement.

Beside it stands what follows from when buckets are ready and how long each takes, if nothing else slows it: where the
link works beside the processor, as on a GPU, both agree. On gloo the cores that train also copy and sum, about two
thirds of a blocking all-reduce: nothing can hide that, so hidden is less than predicted and often negative. A laptop's
overlap is never to be read as a cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis import rows
from kanstudy.analysis.communication.blocking import Blocking, blocking
from kanstudy.analysis.machine_model.overlap import exposed_s
from kanstudy.analysis.rows import columns, joined, quality
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.tables.layouts import SCALE, TEXT, Column
from kanstudy.record import Record

_ESTIMATED = ("blocking_ms", "exposed_ms", "hidden_ms", "hidden_share")
_PREDICTED = ("predicted_exposed_ms", "predicted_hidden_share")
_COUNTED = "counted_exposed_ms"
OVERLAP = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "bucket_cap_mb": SCALE["bucket_cap_mb"],
    "buckets": Column("buckets", 1, 0),
    "blocking_ms": Column("blocking (ms)", digits=3),
    "exposed_ms": Column("exposed data movement (ms)", digits=3),
    "hidden_ms": Column("hidden (ms)", digits=3),
    "hidden_share": Column("hidden (%)", 100, 0),
    "predicted_exposed_ms": Column("exposed, predicted (ms)", digits=3),
    "predicted_hidden_share": Column("hidden, predicted (%)", 100, 0),
    "counted_exposed_ms": Column("exposed, DDP's counters (ms)", digits=3),
    "n_rounds": Column("rounds"),
    "reason": Column("note"),
    "point_id": TEXT["point_id"],
    "allreduce_point_id": Column("all-reduce point"),
}


def overlap(records: Sequence[Record]) -> pd.DataFrame:
    """A row a point of several ranks: blocking_ms, the all-reduces of its buckets one by one; exposed_ms, the data
    movement that a step waits for, without synchronisation (median over rounds of T_ddp less the slowest rank at every
    step without communication); hidden_ms and hidden_share, the difference, over blocking_ms.

    predicted_exposed_ms and predicted_hidden_share are what `scheduled_exposed_s` gives, counted_exposed_ms is DDP's
    own count in the instrumented steps, where torch has it. What is negative or above the total is shown, and `reason`
    says so.
    """
    lines = []
    for record, head in rows.heads(records):
        if record.world_size == 1:
            continue
        arms, total = PairedArms(record), blocking(record, records)
        whole, exposed = total.total_s.mapped(lambda seconds: 1e3 * seconds), exposed_ms(arms)
        hidden = _of_both(lambda whole, exposed: whole - exposed, whole, exposed)
        share = _of_both(lambda whole, exposed: 1 - exposed / whole, whole, exposed)
        row = head | {"buckets": len(total.times_s) or np.nan, "allreduce_point_id": total.point_id}
        row |= columns("blocking_ms", whole) | columns("exposed_ms", exposed)
        row |= columns("hidden_ms", hidden) | columns("hidden_share", share) | _predicted(record, total)
        row[_COUNTED] = counted_exposed_ms(record)
        unmeasured = "" if np.isfinite(exposed.value) or not arms.n else "no step without communication was measured"
        note = joined(quality(record, arms), unmeasured, total.reason, *_flags(record, hidden, exposed))
        lines.append(row | rows.tail(record, arms, note))
    return rows.frame(lines, ("buckets", "allreduce_point_id"), _ESTIMATED, middle=(*_PREDICTED, _COUNTED))


def exposed_ms(arms: PairedArms) -> Estimate:
    """Data movement that a step waits for, ms: median over rounds of T_ddp less ddp_noop's slowest rank at every
    step."""
    if not arms.has("ddp", "ddp_noop_every_step"):
        return MISSING
    times = arms.times_s
    return arms.median(1e3 * (times["ddp"] - times["ddp_noop_every_step"]))


def counted_exposed_ms(record: Record) -> float:
    """DDP's count of communication after the last gradient, ms: median over steps of the rank that waits least, since
    the others wait for that one, too. NaN where this torch does not count."""
    counters = record.provenance.get("ddp_counters")
    if not counters:
        return np.nan
    exposed = np.array(counters["communication_s"]) - np.array(counters["overlap_s"])  # (ranks, steps)
    return float(1e3 * np.median(exposed.min(axis=0)))


def scheduled_exposed_s(record: Record, bucket_times_s: np.ndarray) -> np.ndarray:
    """By how much the buckets' all-reduces, one after another, outlast backward in each instrumented step without
    communication (steps,), s, given how long each takes (buckets,), if nothing else slows it.

    A bucket leaves when the slowest rank has it and the one before it arrived, and backward ends with the slowest
    rank's. Empty where the buckets were not watched, or are others than those of the times.
    """
    arm = record.arms.get("ddp_noop")
    if arm is None or not arm.bucket_ready_s or not arm.backward_s or not len(bucket_times_s):
        return np.empty(0)
    ready, ends = np.max(arm.bucket_ready_s, axis=0), np.max(arm.backward_s, axis=0)
    if ready.shape[1] != len(bucket_times_s):
        return np.empty(0)
    in_order = np.maximum.accumulate(ready, axis=1)  # DDP keeps the order, on which the ranks must agree
    return np.maximum(0.0, exposed_s(ends, in_order / ends[:, None], np.zeros(1), bucket_times_s))


def _predicted(record: Record, total: Blocking) -> dict[str, float]:
    exposed = scheduled_exposed_s(record, total.times_s)
    if not len(exposed):
        return dict.fromkeys(_PREDICTED, np.nan)
    middle = float(np.median(exposed))
    return dict(zip(_PREDICTED, (1e3 * middle, 1 - middle / total.times_s.sum()), strict=True))


def _of_both(function: Callable[..., np.ndarray], one: Estimate, other: Estimate) -> Estimate:
    """A function, monotone in each, of two independent estimates: from their draws, if of one kind, or else from the
    corners of their intervals (Bonferroni)."""
    value, n = float(function(one.value, other.value)), min(one.n, other.n)
    if one.draws is not None and other.draws is not None and one.method == other.method:
        return intervals.of_draws(value, function(one.draws, other.draws), n, one.method)
    if not (one.has_interval and other.has_interval):
        return intervals.no_interval(value, n)
    corners = [float(function(a, b)) for a in (one.low, one.high) for b in (other.low, other.high)]
    return Estimate(value, min(corners), max(corners), n, "combined intervals", one.coverage + other.coverage - 1)


def _flags(record: Record, hidden: Estimate, exposed: Estimate) -> list[str]:
    """What else is in the difference of two measurements, what is odd about it, and whether that may be noise."""
    found = []
    if record.backend == "gloo":
        found.append("gloo: the cores that train also copy and sum, which nothing hides")
    if record.sync_buffers:
        found.append("the broadcast of buffers is among what is exposed")
    if hidden.value < 0:
        odd = "hidden below 0: more is exposed than blocking all-reduces take"
        found.append(odd + (", though it may be none" if hidden.includes(0) else ""))
    if exposed.value < 0:
        odd = "hidden above the total: DDP is faster with communication than without"
        found.append(odd + (", though it may be none" if exposed.includes(0) else ""))
    return found
