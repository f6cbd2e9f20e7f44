"""The part of a step that does not shrink with the batch: t0 of T1(b) = t0 + t1 b, the optimizer's step in it.

A strong-scaling record times one rank at two batch sizes, T1(B) and T1(B/p), in the same rounds. With a = t0 / T1(B)

    T1(B/p) / T1(B) = a + (1 - a) / p,    so that    a = (1/batch - 1) / (p - 1),

where batch = T1(B) / (p T1(B/p)) is the factor of the attribution. The world sizes p of a series share B, and thus a:
the line through them is the mean of their a, weighted by 1/variance (generalised least squares on T1(B/p) / T1(B)).
What the line alone would make of the batch factor is 1 / (1 + a (p - 1)); the rest of the factor is the device working
differently on a smaller batch. From one world size the line goes through both batch sizes, and there is no rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import chi2

from kanstudy.analysis.series import series_keys
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record

_SMALLEST_VARIANCE = 1e-18
"""Of a share whose rounds do not differ but for rounding."""
_BENT_BELOW = 0.05


@dataclass(frozen=True)
class FixedPart:
    """What does not shrink with the batch, of one record: `share` = t0 / T1(B), `time_s` = t0, `factor`, what it alone
    would make of the batch factor, and `optimizer`, the optimizer's step over t0.

    `sizes` are the world sizes whose line it is; `note` what to know of the line. The optimizer's time is that of the
    instrumented steps on the local batch, so that `optimizer` may exceed 1; its interval is t0's alone, and it is
    missing where t0 cannot be told from 0. Each may be negative: then a small batch is worked on better.
    """

    share: Estimate
    time_s: Estimate
    factor: Estimate
    optimizer: Estimate
    sizes: tuple[int, ...]
    note: str


def fixed_parts(records: Sequence[Record]) -> dict[str, FixedPart]:
    """The fixed part of each record (by point_id) that holds both batch sizes: strong scaling on several ranks."""
    members: dict[tuple, list[tuple[Record, PairedArms, Estimate]]] = {}
    for record, key in zip(records, series_keys(records), strict=True):
        arms = PairedArms(record)
        batch = arms.ratio("serial_global", "serial_local_mean", 1 / record.world_size)
        if record.scaling == "strong" and record.world_size > 1 and np.isfinite(batch.value):
            share = batch.mapped(partial(_share_of, record.world_size))
            members.setdefault(key, []).append((record, arms, share))
    found = {}
    for series in members.values():
        line = _line([share for *_, share in series]) if len(series) > 1 else None
        for record, arms, share in series:
            sizes = tuple(sorted(other.world_size for other, *_ in series)) if line else (record.world_size,)
            own, note = line or (share, "the fixed part is a line through two batch sizes: all of the batch factor")
            if own.value < 0:
                below = "the fixed part is below 0: a row of the smaller batch takes less time"
                note = "; ".join(filter(None, (note, below)))
            found[record.point_id] = _of_record(record, arms, own, sizes, note)
    return found


def _share_of(p: int, batch: np.ndarray) -> np.ndarray:
    return (1 / batch - 1) / (p - 1)


def _line(shares: Sequence[Estimate]) -> tuple[Estimate, str] | None:
    """The share that several world sizes have in common; None where one has no draws to be weighted by."""
    draws = [share.draws for share in shares if share.draws is not None]
    if len(draws) < len(shares):
        return None
    values, together = np.array([share.value for share in shares]), np.array(draws)
    variances = np.maximum(together.var(axis=1), _SMALLEST_VARIANCE)
    weights = (1 / variances) / (1 / variances).sum()
    methods = {share.method for share in shares}
    method = methods.pop() if len(methods) == 1 else intervals.BOOTSTRAP
    n = min(share.n for share in shares)
    share = intervals.of_draws(float(weights @ values), weights @ together, n, method)
    misfit = float(((values - share.value) ** 2 / variances).sum())
    bent = chi2.sf(misfit, len(shares) - 1) < _BENT_BELOW
    return share, "the time over the batch is no straight line: the fixed part is a rough one" if bent else ""


def _of_record(record: Record, arms: PairedArms, share: Estimate, sizes: tuple[int, ...], note: str) -> FixedPart:
    p = record.world_size
    serial = arms.time("serial_global")
    value = share.value * serial.value
    if share.draws is not None and serial.draws is not None:
        time_s = intervals.of_draws(value, share.draws * serial.draws, share.n, share.method)
    else:
        rounds = arms.times_s
        per_round = (p * rounds["serial_local_mean"] - rounds["serial_global"]) / (p - 1)
        time_s = intervals.of_rounds(value, per_round.to_numpy())
    steps = record.arms["serial_local"].optimizer_s
    optimizer = float(np.median(np.mean(steps, axis=0))) if steps else np.nan
    told = time_s.has_interval and time_s.low > 0 and np.isfinite(optimizer)
    return FixedPart(
        share=share,
        time_s=time_s,
        factor=share.mapped(lambda a: 1 / (1 + a * (p - 1))),
        optimizer=time_s.mapped(lambda t0: optimizer / t0) if told else MISSING,
        sizes=sizes,
        note=note,
    )
