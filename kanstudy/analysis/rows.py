"""What the frames of estimates have in common: a row a point, led by the point, followed by how far to trust it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis.results import fault_text, launches, points, surroundings
from kanstudy.analysis.series import WORK_KEYS
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record

HEAD = ("point_id", "experiment", "profile", "status", "conditions", "surroundings", "series", *WORK_KEYS)
HEAD += ("oversubscribed", "world_size", "global_batch_size", "local_batch_size")
QUALITY = ("n_rounds", "n_disturbed", "launches", "trusted", "method", "reason")


def heads(records: Sequence[Record]) -> list[tuple[Record, dict]]:
    """Each record with the columns `HEAD` of its row. `surroundings` is equal where the conditions are, but for the
    ranks, which differ by world size; blank where a launch failed before it saw them."""
    frame = points(records)
    frame["surroundings"] = [_surroundings(record) for record in records]
    return list(zip(records, frame[list(HEAD)].to_dict("records"), strict=True))


def _surroundings(record: Record) -> str | None:
    if record.conditions is None:
        return None
    return hashlib.sha256(surroundings(record).encode()).hexdigest()[:12]


def tail(record: Record, arms: PairedArms, reason: str) -> dict:
    """The columns `QUALITY` of a row."""
    return {
        "n_rounds": arms.n,
        "n_disturbed": arms.blocks.dropped,
        "launches": launches(record),
        "trusted": arms.blocks.trusted,
        "method": arms.time("ddp").method,
        "reason": reason,
    }


def frame(
    rows: list[dict],
    plain: Sequence[str],
    estimated: Sequence[str],
    middle: Sequence[str] = (),
    tail: Sequence[str] = QUALITY,
) -> pd.DataFrame:
    """Rows with all their columns, in a fixed order, though there be none; `estimated` ones with their intervals."""
    values = [f"{name}{end}" for name in estimated for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*HEAD, *plain, *values, *middle, *tail])


def quality(record: Record, arms: PairedArms) -> str:
    """What a reader must know of the rounds behind a record's numbers; empty where all is well."""
    notes = [fault_text(record)]
    if 0 < arms.n < intervals.ORDER_STATISTICS_FROM and not arms.by_launch:
        notes.append(f"{arms.n} round{'s' * (arms.n > 1)}: too few for an interval")
    if arms.n and not arms.blocks.trusted:
        every = arms.blocks.dropped == len(arms.blocks.disturbed)
        kept = "all are kept" if every else "they are left out"
        notes.append(f"untrusted: {arms.blocks.dropped} of {len(arms.blocks.disturbed)} rounds disturbed, {kept}")
    if record.oversubscribed:
        notes.append("more ranks than cores")
    return joined(*notes)


def joined(*notes: str) -> str:
    """Notes as one text."""
    return "; ".join(filter(None, notes))


def columns(name: str, estimate: Estimate) -> dict[str, float]:
    """An estimate as three columns of a table."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def value_text(row: pd.Series, name: str, scale: float = 1.0, digits: int = 2) -> str:
    """A value with its interval, as "0.93 [0.91, 0.95]"; without one it says so."""
    low, high = row[f"{name}_low"] * scale, row[f"{name}_high"] * scale
    text = f"{row[name] * scale:.{digits}f}"
    return text + (f" [{low:.{digits}f}, {high:.{digits}f}]" if np.isfinite(low) else " (no interval)")
