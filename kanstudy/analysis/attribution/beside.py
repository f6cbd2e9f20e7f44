"""What stands beside a waterfall: load balance, data wait, and the part of a step that does not shrink with the batch.

None of them is a factor of the efficiency. Load balance is what heterogeneity and contention leave between the ranks
once all run; data wait is seen in the instrumented steps only, since timed ones keep their data on the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics, rows
from kanstudy.analysis.attribution.fixed_part import fixed_parts
from kanstudy.analysis.rows import columns, joined, quality
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Arm, Record

_BALANCED = ("ddp_noop", "concurrent")
"""Arms in which all ranks compute at once and none waits for another, the closest to training first."""
_PHASES = ("data_wait_s", "forward_s", "backward_s", "optimizer_s")


def beside(records: Sequence[Record]) -> pd.DataFrame:
    """One row a point: load_balance (mean over maximum over ranks of the time a step, of the arm load_balance_arm, the
    median over rounds), data_wait_share (of an instrumented DDP step), fixed_time_s and fixed_share (t0, and t0 over
    the serial step with the global batch), optimizer_share (of t0), fixed_sizes (the world sizes of the line), each
    with its interval, and how far to trust them."""
    fixed = fixed_parts(records)
    lines = []
    for record, head in rows.heads(records):
        arms, part = PairedArms(record), fixed.get(record.point_id)
        name = next((arm for arm in _BALANCED if record.world_size > 1 and arms.has(arm)), "")
        row = head | {"load_balance_arm": name, "fixed_sizes": " ".join(map(str, part.sizes)) if part else ""}
        row |= columns("load_balance", _load_balance(record, arms, name) if name else MISSING)
        row |= columns("data_wait_share", _data_wait(record))
        row |= columns("fixed_time_s", part.time_s if part else MISSING)
        row |= columns("fixed_share", part.share if part else MISSING)
        row |= columns("optimizer_share", part.optimizer if part else MISSING)
        reason = joined(quality(record, arms), part.note if part else "")
        lines.append(row | rows.tail(record, arms, reason))
    estimated = ("load_balance", "data_wait_share", "fixed_time_s", "fixed_share", "optimizer_share")
    return rows.frame(lines, ("load_balance_arm", "fixed_sizes"), estimated)


def _load_balance(record: Record, arms: PairedArms, name: str) -> Estimate:
    """Mean over maximum over ranks of their mean time a step, over the rounds that count; 1 is even."""
    times = {(item.launch, item.index): item.rank_step_times_s for item in record.arms[name].rounds}
    means = [metrics.rank_mean_step_times(times[key]) for key in arms.times_s.index]
    return arms.median(np.array([ranks.mean() / ranks.max() for ranks in means]))


def _data_wait(record: Record) -> Estimate:
    """The slowest rank's wait for its batch over the slowest rank's step, the median over the instrumented steps."""
    arm = record.arms.get("ddp", Arm())
    phases = [getattr(arm, name) for name in _PHASES]
    if not all(phases):
        return MISSING
    times_s = np.array(phases, dtype=float)  # [phase][rank][step]
    share = times_s[0].max(axis=0) / times_s.sum(axis=0).max(axis=0)
    return intervals.median(share, intervals.seed_of(record.point_id))
