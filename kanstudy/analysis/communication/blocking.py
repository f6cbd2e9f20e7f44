"""The total of a point's communication: blocking all-reduces of its gradient buckets, with nothing to hide behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.results import fault_text, surroundings
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.record import Record


@dataclass(frozen=True)
class Blocking:
    """`times_s` (buckets,) of each bucket's all-reduce and their sum `total_s`, with the interval of its repeats;
    `point_id`, of the point that measured the messages; `reason`, why there are none."""

    times_s: np.ndarray
    total_s: Estimate
    point_id: str = ""
    reason: str = ""


def bucket_bytes(record: Record) -> list[int]:
    """Bytes of the point's gradient buckets, in the order in which they leave; empty where they were not watched."""
    return next((arm.bucket_bytes for arm in record.arms.values() if arm.bucket_bytes), [])


def blocking(record: Record, records: Sequence[Record]) -> Blocking:
    """Blocking all-reduces of a point's buckets, between two measured message sizes linear in the bytes; blank with the
    reason where a bucket lies outside.

    A plan measures the messages at one point of each world size: they are those of the first record that has them, on
    as many ranks of the same machine under the same conditions.
    """
    buckets = bucket_bytes(record)
    if not buckets:
        return _none("" if fault_text(record) else "the buckets were not watched")
    here = _machine(record)
    measured = next((other for other in [record, *records] if other.allreduce and _machine(other) == here), record)
    messages = sorted((item for item in measured.allreduce if item.times_s), key=lambda item: item.message_bytes)
    if not messages:
        return _none("no blocking all-reduce was measured on these ranks under these conditions")
    sizes = [item.message_bytes for item in messages]
    if not (sizes[0] <= min(buckets) and max(buckets) <= sizes[-1]):
        return _none("no blocking all-reduce of this bucket's size")
    medians = [
        intervals.median(np.array(item.times_s, dtype=float), _seed(measured, item.message_bytes)) for item in messages
    ]
    # each bucket's time is a mean of the two sizes around it: (buckets, sizes)
    shares = np.stack([np.interp(buckets, sizes, one) for one in np.eye(len(sizes))], axis=1)
    times = shares @ np.array([median.value for median in medians])
    return Blocking(times, _total(shares.sum(axis=0), medians), measured.point_id)


def _none(reason: str) -> Blocking:
    return Blocking(np.array([]), MISSING, "", reason)


def _total(weights: np.ndarray, medians: Sequence[Estimate]) -> Estimate:
    """Σ w m of independent medians, w >= 0: from their draws, or else end by end (Bonferroni)."""
    used = [(weight, median) for weight, median in zip(weights, medians, strict=True) if weight]
    value, n = sum(weight * median.value for weight, median in used), min(median.n for _, median in used)
    draws = [weight * median.draws for weight, median in used if median.draws is not None]
    if len(draws) == len(used):
        return intervals.of_draws(value, np.sum(draws, axis=0), n)
    if not all(median.has_interval for _, median in used):
        return intervals.no_interval(value, n)
    low, high = (sum(weight * getattr(median, end) for weight, median in used) for end in ("low", "high"))
    coverage = 1 - sum(1 - median.coverage for _, median in used)
    return Estimate(value, low, high, n, "combined intervals", coverage)


def _seed(record: Record, size: int) -> int:
    return intervals.seed_of(f"{record.point_id} {size}")


def _machine(record: Record) -> tuple:
    """What the time of a blocking all-reduce depends on, besides the message."""
    names = ("source", "world_size", "placement", "device_type", "device_name", "backend", "threads_per_rank")
    return (surroundings(record), *(getattr(record, name) for name in names))
