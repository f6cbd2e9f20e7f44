"""What the frames of estimates have in common: a row a point, led by the point, followed by how far to trust it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pandas as pd

from kanstudy.analysis.paired import PairedArms
from kanstudy.analysis.results import launches, points, surroundings
from kanstudy.analysis.series import WORK_KEYS
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
