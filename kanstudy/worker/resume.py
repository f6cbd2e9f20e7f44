"""Finding, continuing and setting aside the record of a point."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from kanstudy.record import Record, blank_record
from kanstudy.record_files import read_record_of, record_path
from kanstudy.run_spec import RunSpec
from kanstudy.spec import PointSpec
from kanstudy.strict_json import RecordError

_OF_AN_ATTEMPT = ("utc", "git", "job", "preflight")
"""What a later attempt adds to the provenance of the first."""


def open_record(run: RunSpec, point: PointSpec, conditions: str) -> Record:
    """The record to go on with: the point's own where it was measured under the same conditions, else a new one.

    What cannot go on (other conditions, unreadable, another point's, not measured) is moved to `aside/` next to it,
    never deleted.
    """
    path = record_path(run.results_dir, point.experiment, point.point_id)
    if not path.exists():
        return blank_record(point, run)
    try:
        record = read_record_of(point, run.results_dir)
    except RecordError:
        set_aside(path)
        return blank_record(point, run)
    has_rounds = any(arm.rounds for arm in record.arms.values())
    if record.source != blank_record(point, run).source:
        set_aside(path)
        return blank_record(point, run)
    if record.conditions != conditions:
        if has_rounds:
            set_aside(path)
        fresh = blank_record(point, run)
        fresh.attempt = record.attempt + 1
        return fresh
    record.status, record.error, record.attempt = "partial", None, record.attempt + 1
    record.profile = run.profile
    record.rounds_planned, record.launches_planned = run.rounds[point.point_id], run.launches
    later = {name: run.provenance[name] for name in _OF_AN_ATTEMPT if name in run.provenance}
    earlier = record.provenance.get("later_attempts", [])
    record.provenance["later_attempts"] = [*earlier, {"attempt": record.attempt} | later]
    return record


def set_aside(path: Path) -> Path:
    """Move a record out of the way under a name that tells when; the new path."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    aside = path.parent / "aside" / f"{path.stem}.{stamp}.json"
    aside.parent.mkdir(exist_ok=True)
    os.replace(path, aside)
    return aside
