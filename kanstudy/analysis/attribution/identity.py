"""A check between strong and weak scaling: E_strong(p; B) = batch x E_weak(p; B/p), where both have the same work."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.rows import columns, joined
from kanstudy.analysis.series import WORK_KEYS, series_labels
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record


def identity_check(strong: Sequence[Record], weak: Sequence[Record]) -> pd.DataFrame:
    """E_strong(p; B) beside batch x E_weak(p; B/p), wherever both experiments measured the same local batch.

    Columns: series, world_size, local_batch_size, efficiency, batch_times_weak and ratio, the one over the other, each
    with its interval; meaning, what the ratio says; the point_id of both; reason. The chain within the strong record
    is exact, so that `ratio` compares one quantity, the efficiency from the local batch on, between two launches.
    """
    weak_of = {_same_work(record): record for record in weak}
    rows = []
    for record, series in zip(strong, series_labels(strong), strict=True):
        partner = weak_of.get(_same_work(record))
        if record.world_size == 1 or partner is None:
            continue
        own, other = efficiency(record), efficiency(partner)
        product = own.factors["batch"].times(other.value) if own.factors else MISSING
        chain = PairedArms(record).ratio("serial_local_mean", "ddp")
        ratio = chain.times(other.value.mapped(lambda e: 1 / e))
        rows.append(
            {"series": series, "world_size": record.world_size, "local_batch_size": record.local_batch_size}
            | columns("efficiency", own.value)
            | columns("batch_times_weak", product)
            | columns("ratio", ratio)
            | {"meaning": _meaning(ratio), "point_id": record.point_id, "weak_point_id": partner.point_id}
            | {"reason": joined(*dict.fromkeys((own.reason, other.reason)))}
        )
    names = ["series", "world_size", "local_batch_size", "efficiency", "efficiency_low", "efficiency_high"]
    names += ["batch_times_weak", "batch_times_weak_low", "batch_times_weak_high"]
    names += ["ratio", "ratio_low", "ratio_high", "meaning", "point_id", "weak_point_id", "reason"]
    return pd.DataFrame(rows, columns=names)


def _meaning(ratio: Estimate) -> str:
    """What the ratio of one efficiency measured in two launches says."""
    if not ratio.has_interval:
        return "no interval: whether they differ cannot be told"
    if ratio.includes(1):
        return "they agree within their intervals"
    text = f"E strong is {abs(ratio.value - 1):.0%} {'larger' if ratio.value > 1 else 'smaller'}, more than "
    if ratio.method == intervals.OVER_LAUNCHES:
        return f"{text}launches vary"
    return f"{text}the rounds of either launch vary: launches differ by so much, which no interval within one contains"


def _same_work(record: Record) -> tuple:
    """What strong and weak scaling must share for the identity: the work on as many ranks with the same local batch."""
    values = (getattr(record, name) for name in (*WORK_KEYS, "world_size", "local_batch_size"))
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)
