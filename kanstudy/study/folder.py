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

from kanstudy.files import write_atomically
from kanstudy.record import Record
from kanstudy.record_files import read_record_of
from kanstudy.spec import PointSpec
from kanstudy.strict_json import RecordError
from kanstudy.study.plan import ExperimentPlan
from kanstudy.wanted import wanted_of

_NOT_WRITABLE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
)
"""What a disk says that is full, over its quota or the user's limit, read-only, another's, broken or gone."""
BESIDE = "beside"
"""Folder of a bundle's results that holds the simulated ones that were shown beside them."""


class FolderError(RuntimeError):
    """The results folder cannot be used: it cannot be written, or another study is writing it."""


class FolderBusyError(FolderError):
    """Another study is writing it."""


@contextlib.contextmanager
def opened(results: Path) -> Iterator[None]:
    """Make the folder and hold its lock; `FolderError` where that cannot be, or where the folder cannot be written any
    more."""
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
                raise FolderBusyError(f"results folder {results}: {holder} is running a study in it") from error
            # some network file systems have no locks: go on without
        os.truncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        raise FolderError(f"results folder {results}: cannot be written: {error.strerror}") from error
    finally:
        os.close(handle)


def write_plan(plan: ExperimentPlan, results: Path) -> None:
    """Keep the plan with the results; `OSError` where that fails."""
    values = {
        "experiment": plan.experiment,
        "profile": plan.profile.name,
        "launches": plan.launches,
        "rounds": plan.rounds,
        "target_width": plan.target_width,
        "note": plan.note,
        "points": {point.point_id: dataclasses.asdict(point) for point in plan.points},
    }
    write_atomically(results / "plans" / f"{plan.experiment}.json", json.dumps(values, indent=1))


def find_record(results: Path, point: PointSpec) -> Record | None:
    """The record of a point, None where there is none; `RecordError` where what is there is none, or another's."""
    try:
        return read_record_of(point, results)
    except FileNotFoundError:
        return None


def check_measured(plan: ExperimentPlan, results: Path) -> None:
    """`FolderError` where a point's record is there, but simulated: it would pass for what was to be measured."""
    for point in plan.points:
        with contextlib.suppress(RecordError, OSError):
            record = find_record(results, point)
            if record is not None and record.source == "simulated":
                raise FolderError(f"results folder {results}: its records are simulated; measure into another folder")


def simulated_beside(results: Path) -> list[Path]:
    """The folders of simulated records that are shown with these results, by their names: those beside this one, or,
    where the results come out of a bundle, those that lay beside it then, in its folder `beside`."""
    there = results / BESIDE if (results / BESIDE).is_dir() else results.parent
    return [path for path in sorted(there.glob("*-simulated")) if path.is_dir() and path != results]


def states(plan: ExperimentPlan, results: Path) -> dict[str, str]:
    """Each planned point's status by what the plan wants; `missing` or `unreadable` where there is no such record."""
    return {point.point_id: _state(plan, results, point) for point in plan.points}


def _state(plan: ExperimentPlan, results: Path, point: PointSpec) -> str:
    try:
        record = find_record(results, point)
    except (RecordError, OSError):
        return "unreadable"
    machine = plan.profile.machine
    if record is None or record.threads_per_rank != machine.threads_per_rank:
        return "missing"
    if machine.device not in ("auto", record.device_type):
        return "missing"
    return wanted_of(plan, point.point_id).state(record)
