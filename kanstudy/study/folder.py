"""The results folder: one study at a time writes it, it holds its own plans, and it can be asked how far it is.

`<results>/<experiment>/<point_id>.json` records, `plans/<experiment>.json` what was last asked for, `data/` prepared
data sets, `logs/<experiment>/<launch>/` what the ranks said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanstudy.files import write_atomically
from kanstudy.record import Record, RecordError, read_record, record_path
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.series import SERIES

if TYPE_CHECKING:
    import pandas as pd


class FolderError(RuntimeError):
    """The results folder cannot be used: it cannot be written, or another study is writing it."""


@contextlib.contextmanager
def opened(results: Path) -> Iterator[None]:
    """Make the folder and hold its lock; `FolderError` where that cannot be."""
    lock = results / ".lock"
    try:
        results.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise FolderError(f"results folder {results}: cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                holder = os.read(handle, 200).decode(errors="replace") or "another process"
                raise FolderError(f"results folder {results}: {holder} is running a study in it") from error
            # some network file systems have no locks: go on without
        try:
            os.truncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except OSError as error:  # the disk is full
            raise FolderError(f"results folder {results}: cannot be written: {error.strerror}") from error
        yield
    finally:
        os.close(handle)


def write_plan(plan: ExperimentPlan, results: Path) -> None:
    """Keep the plan with the results; `OSError` where that fails."""
    values = {
        "experiment": plan.experiment,
        "profile": plan.profile.name,
        "launches": plan.launches,
        "rounds": plan.rounds,
        "note": plan.note,
        "points": {point.point_id: dataclasses.asdict(point) for point in plan.points},
    }
    write_atomically(results / "plans" / f"{plan.experiment}.json", json.dumps(values, indent=1))


def find_record(results: Path, experiment: str, point_id: str) -> Record | None:
    """The record of a point, None where there is none; `RecordError` where it is not readable."""
    try:
        return read_record(record_path(results, experiment, point_id))
    except FileNotFoundError:
        return None


def state_of(results: Path, experiment: str, point_id: str, rounds: int, launches: int) -> str:
    """The status of a point's record measured by what is wanted; `missing` or `unreadable` where there is none."""
    try:
        record = find_record(results, experiment, point_id)
    except (RecordError, OSError):
        return "unreadable"
    if record is None:
        return "missing"
    return "partial" if record.status == "ok" and not record.is_complete(rounds, launches) else record.status


def status(results: Path | str) -> pd.DataFrame:
    """How far each point is, from the plans and records of a results folder; empty where there is nothing.

    One row a point: experiment, point, planned (by the last run), status (a record's, or `missing`, `unreadable`),
    rounds_done and rounds_planned (complete rounds, over all launches), attempt, reason.
    """
    import pandas as pd

    results = Path(results)
    rows = []
    for experiment in _experiments(results):
        plan = _read_plan(results / "plans" / f"{experiment}.json")
        recorded = sorted(path.stem for path in (results / experiment).glob("*.json"))
        for point_id in [*plan["rounds"], *(name for name in recorded if name not in plan["rounds"])]:
            rows.append(_row(results, experiment, point_id, plan))
    return pd.DataFrame(rows)


def _experiments(results: Path) -> list[str]:
    found = {path.stem for path in results.glob("plans/*.json")}
    found |= {path.name for path in results.iterdir() if path.name in SERIES} if results.is_dir() else set()
    known = [name for name in SERIES if name in found]
    return known + sorted(found - set(known))


def _read_plan(path: Path) -> dict[str, Any]:
    """The kept plan; without points where there is none that can be read."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        return {"rounds": dict(plan["rounds"]), "launches": int(plan["launches"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"rounds": {}, "launches": 1}


def _row(results: Path, experiment: str, point_id: str, plan: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"experiment": experiment, "point": point_id, "planned": point_id in plan["rounds"]}
    try:
        record, problem = find_record(results, experiment, point_id), None
    except (RecordError, OSError) as error:
        record, problem = None, str(error)
    rounds, launches = plan["rounds"].get(point_id), plan["launches"]
    if rounds is None and record is not None:
        rounds, launches = record.rounds_planned, record.launches_planned
    done = 0 if record is None else sum(record.rounds_of_launch(index) for index in range(launches))
    fault = None if record is None else record.error
    if fault is not None:
        problem = fault.reason if fault.rank is None else f"rank {fault.rank}: {fault.reason}"
    return row | {
        "status": state_of(results, experiment, point_id, rounds or 1, launches),
        "rounds_done": done,
        "rounds_planned": (rounds or 0) * launches,
        "attempt": None if record is None else record.attempt,
        "reason": problem or "",
    }
