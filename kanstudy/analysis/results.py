"""Records as data frames: what lies in a results folder, what does not belong there, and what is still missing.

A folder of results holds `<experiment>/<point_id>.json`, and `plans/<experiment>.json`, what was last asked for.
Nothing is dropped: a file that is no record becomes a row of `problems`, a point without a record a row of
`planned_versus_done`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kanstudy.analysis.nodes import node_set
from kanstudy.analysis.series import series_keys, series_labels
from kanstudy.record import Record
from kanstudy.record_files import read_record
from kanstudy.sizes import widths_text
from kanstudy.stopping import decisions
from kanstudy.strict_json import RecordError, as_object, build_strictly
from kanstudy.wanted import wanted_of

RESERVED = ("plans", "data", "logs", "jobs", "notebooks", "aside", "figures", "bench", "beside")
"""Folders of a results folder that hold no records."""

_NOT_SCALAR = ("arms", "allreduce", "provenance", "error", "out_of_grid_share")


class ResultsError(ValueError):
    """Records that cannot be analysed together; the message names the files."""


@dataclass(frozen=True)
class Results:
    """Records of a folder, and `problems` (path, reason): the files there that are no records of this study."""

    records: list[Record]
    problems: pd.DataFrame

    @property
    def points(self) -> pd.DataFrame:
        """One row a record, see `points`."""
        return points(self.records)


def experiments(results_dir: Path | str) -> list[str]:
    """The experiments that a folder has records of, by name."""
    folder = _existing(results_dir)
    return sorted(path.name for path in folder.iterdir() if path.name not in RESERVED and any(path.glob("*.json")))


def load(results_dir: Path | str, experiment: str | None = None) -> Results:
    """The records of a folder, of one experiment or of all, in the order of their plan; others by world size and name.

    Raises `ResultsError` where the folder does not exist or `experiment` is no name, and where two records are the same
    point of the same series, so that it is open which is meant.
    """
    folder = _existing(results_dir)
    if experiment is not None and not _is_name(experiment):
        raise ResultsError(f"experiment = {experiment!r}: must be the name of one, such as strong_scaling, or None")
    records, problems = [], []
    for name in experiments(folder) if experiment is None else [experiment]:
        for path in sorted((folder / name).glob("*.json")):
            try:
                record = read_record(path)
                if record.experiment != name:
                    raise RecordError(f"{path}: experiment {record.experiment!r} does not belong in this folder")
                records.append(record)
            except (RecordError, OSError) as error:
                problems.append({"path": str(path.relative_to(folder)), "reason": str(error)})
    place = {point_id: number for number, point_id in enumerate(_planned(folder))}
    records.sort(key=lambda r: (r.experiment, place.get(r.point_id, len(place)), r.world_size, r.point_id))
    _refuse_duplicates(records)
    return Results(records, pd.DataFrame(problems, columns=["path", "reason"]))


def _planned(folder: Path) -> list[str]:
    """The points of all plans in the folder, as they were planned; a plan that cannot be read orders nothing."""
    names: list[str] = []
    for path in sorted(folder.glob("plans/*.json")):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            names += _read_plan(path).points
    return names


def points(records: Sequence[Record]) -> pd.DataFrame:
    """One row a record: its plain fields, and series, n_rounds, launches, reason (empty where it is ok)."""
    names = [field.name for field in dataclasses.fields(Record) if field.name not in _NOT_SCALAR]
    rows = []
    for record in records:
        row = {name: getattr(record, name) for name in names}
        row["layer_widths"] = widths_text(record.layer_widths)
        row["n_rounds"] = min((len(arm.rounds) for arm in record.arms.values()), default=0)
        row["launches"] = launches(record)
        row["reason"] = fault_text(record)
        rows.append(row)
    frame = pd.DataFrame(rows, columns=[*names, "n_rounds", "launches", "reason"])
    frame["series"] = series_labels(records)
    return frame


def planned_versus_done(results_dir: Path | str) -> pd.DataFrame:
    """One row a planned point or a file: experiment, point_id, world_size, status, rounds_done, rounds_planned (over
    all launches), reason.

    The status is the record's, `missing` where there is none, `unreadable` where the file is no record; what no plan
    asks for is there too, and says so, as does what was not measured.
    """
    folder = _existing(results_dir)
    loaded = load(folder)
    records = {(record.experiment, record.point_id): record for record in loaded.records}
    bad = {(Path(path).parent.name, Path(path).stem): reason for path, reason in loaded.problems.to_numpy()}
    rows = []
    for path in sorted(folder.glob("plans/*.json")):
        try:
            plan = _read_plan(path)
        except (OSError, ValueError, RecursionError) as error:
            reason = f"not a plan: {error}"
            rows.append(_row(path.stem, f"plans/{path.name}", None, "unreadable", 0, None, reason))
            continue
        for name, per_launch in plan.rounds.items():
            experiment, size, width = plan.experiment, plan.points[name], plan.target_width.get(name)
            key, total = (experiment, name), per_launch * plan.launches
            record = records.pop(key, None)
            if record is None:
                status = "unreadable" if key in bad else "missing"
                rows.append(_row(experiment, name, size, status, 0, total, bad.pop(key, "")))
                continue
            done = sum(record.rounds_of_launch(index) for index in record.launch_numbers if index < plan.launches)
            status = wanted_of(plan, name).state(record)
            why = fault_text(record) or (decisions(record) if width is not None else "")
            rows.append(_row(experiment, name, size, status, done, total, _joined(_made(record), why)))
    for (experiment, name), record in records.items():
        reason = _joined(_made(record), fault_text(record), "in no plan kept here")
        done = sum(map(record.rounds_of_launch, record.launch_numbers))
        rows.append(_row(experiment, name, record.world_size, record.status, done, None, reason))
    rows += [_row(experiment, name, None, "unreadable", 0, None, reason) for (experiment, name), reason in bad.items()]
    columns = ["experiment", "point_id", "world_size", "status", "rounds_done", "rounds_planned", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"world_size": "Int64", "rounds_planned": "Int64"})


@dataclass(kw_only=True)
class _Plan:
    """What is read of a plan: `points[name]` is the world size."""

    experiment: str
    launches: int
    rounds: dict[str, int]
    points: dict[str, int]
    target_width: dict[str, float]


def _read_plan(path: Path) -> _Plan:
    """`OSError` or `ValueError` where that is none."""
    values = as_object(json.loads(path.read_text(encoding="utf-8")), "plan")
    kept = {field.name: values[field.name] for field in dataclasses.fields(_Plan) if field.name in values}
    points = as_object(kept.get("points"), "points")
    kept["points"] = {name: as_object(point, name).get("world_size") for name, point in points.items()}
    # plans from before there were adaptive rounds have no widths
    plan: _Plan = build_strictly(_Plan, {"target_width": {}} | kept, "plan")
    if set(plan.rounds) != set(plan.points):
        raise RecordError("plan: rounds must be given for every point and no other")
    if not all(0 < rounds * plan.launches < 2**63 for rounds in plan.rounds.values()):
        raise RecordError(f"plan: rounds and launches = {plan.launches}: must be at least 1")
    return plan


def _made(record: Record) -> str:
    """The source of a record that was not measured."""
    return "" if record.source == "measured" else record.source


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def starts(record: Record) -> set[tuple[int, int]]:
    """The starts of all ranks that the record's rounds come from: an interrupted launch goes on in another."""
    return {(item.launch, item.attempt) for arm in record.arms.values() for item in arm.rounds}


def launches(record: Record) -> int:
    """Launches that the record's rounds come from."""
    return len({launch for launch, _ in starts(record)})


def fault_text(record: Record) -> str:
    """Why a record is not ok, in one line; empty for one that is."""
    if record.status == "ok":
        return ""
    if record.error is None:
        done, wanted = sum(map(record.rounds_of_launch, record.launch_numbers)), record.rounds_planned
        text = f"{record.status}: {done} of {wanted * record.launches_planned} rounds"
        return f"{text}, {why}" if (why := decisions(record)) else text
    places = [
        f"{name} {value}" for name in ("rank", "arm", "step") if (value := getattr(record.error, name)) is not None
    ]
    return f"{record.status}: {record.error.reason}" + (f" ({', '.join(places)})" if places else "")


def _existing(results_dir: Path | str) -> Path:
    if not isinstance(results_dir, str | Path) or not Path(results_dir).is_dir():
        given = str(results_dir) if isinstance(results_dir, Path) else results_dir
        raise ResultsError(f"results_dir = {given!r}: must be a folder that exists")
    return Path(results_dir)


def _is_name(experiment: object) -> bool:
    """Whether it names a folder within another."""
    return isinstance(experiment, str) and experiment not in ("", "..") and Path(experiment).name == experiment


def surroundings(record: Record) -> str:
    """The conditions but for the ranks, which differ by world size: of the hosts all that the launch had."""
    conditions = dict(record.provenance.get("conditions") or {})
    for name in ("hosts", "ranks", "operator", "tf32"):
        conditions.pop(name, None)
    return json.dumps([node_set(record), conditions], sort_keys=True, default=str)


def _row(experiment: str, name: str, size: int | None, status: str, done: int, total: int | None, reason: str) -> dict:
    return {
        "experiment": experiment,
        "point_id": name,
        "world_size": size,
        "status": status,
        "rounds_done": done,
        "rounds_planned": total,
        "reason": reason,
    }


def _refuse_duplicates(records: Sequence[Record]) -> None:
    seen: dict[tuple, Record] = {}
    for record, series in zip(records, series_keys(records), strict=True):
        first = seen.setdefault((record.world_size, *series), record)
        if first is not record:
            raise ResultsError(
                f"{record.experiment}: {first.point_id}.json and {record.point_id}.json are the same series at "
                f"world size {record.world_size}: move one of them out of the results folder"
            )
