"""Predictions that are written down before anything is measured, and the proof that they were.

The file's SHA-256 goes into the provenance of every record that is measured afterwards. Scores are computed from the
file alone, so that what was hashed is what is scored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from kanstudy.files import write_atomically
from kanstudy.record import Record
from kanstudy.spec import PointSpec, point_from_dict
from kanstudy.strict_json import without_nan

FILE = "predictions.json"
PROVENANCE = "prediction"
"""Of a record: `sha256` and `frozen_utc` of the file that was there before it."""


class FrozenError(ValueError):
    """Predictions that cannot be shown to come before the measurements; the message says why."""


@dataclass(frozen=True)
class Frozen:
    """The file's content: `points`, `predictions` (a row a point and predictor), `messages` (a row an all-reduce), and
    `basis`, what they rest on."""

    sha256: str
    frozen_utc: str
    points: tuple[PointSpec, ...]
    predictions: pd.DataFrame
    messages: pd.DataFrame
    basis: dict[str, Any]

    @property
    def provenance(self) -> dict[str, dict[str, str]]:
        """What every record measured from now on must keep."""
        return {PROVENANCE: {"sha256": self.sha256, "frozen_utc": self.frozen_utc}}


def freeze(
    path: Path,
    points: Sequence[PointSpec],
    predictions: pd.DataFrame,
    messages: pd.DataFrame,
    basis: Mapping[str, Any],
) -> Frozen:
    """Write the predictions down, once; `FrozenError` where there are some already."""
    if path.exists():
        raise FrozenError(f"{path}: predictions are frozen already; new ones need another folder")
    values = {
        "frozen_utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "basis": dict(basis),
        "points": [dataclasses.asdict(point) for point in points],
        "predictions": predictions.to_dict("records"),
        "messages": messages.to_dict("records"),
    }
    write_atomically(path, json.dumps(without_nan(values), indent=1, allow_nan=False) + "\n")
    return read(path)


def read(path: Path) -> Frozen:
    """The predictions of a file; `FrozenError` where it is none."""
    try:
        content = path.read_bytes()
        values = json.loads(content)
        return Frozen(
            sha256=hashlib.sha256(content).hexdigest(),
            frozen_utc=values["frozen_utc"],
            points=tuple(point_from_dict(point) for point in values["points"]),
            predictions=pd.DataFrame(values["predictions"]).replace({None: float("nan")}).infer_objects(),
            messages=pd.DataFrame(values["messages"], columns=["point_id", "message_bytes", "time_s"]),
            basis=values["basis"],
        )
    except OSError as error:
        raise FrozenError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FrozenError(f"{path}: no frozen predictions: {error!r}") from error


def check(frozen: Frozen, records: Sequence[Record]) -> None:
    """Raise `FrozenError` unless each record was measured after exactly these predictions, at one of their points."""
    known = {point.point_id for point in frozen.points}
    for record in records:
        said = record.provenance.get(PROVENANCE)
        if not isinstance(said, dict) or said.get("sha256") != frozen.sha256:
            raise FrozenError(
                f"{record.point_id}: was measured after other predictions, or none, than those of the file, whose"
                f" SHA-256 is {frozen.sha256[:12]}..."
            )
        if record.point_id not in known:
            raise FrozenError(f"{record.point_id}: nothing was predicted for it")
        began = min((item.started_utc for arm in record.arms.values() for item in arm.rounds), default="")
        if began and datetime.fromisoformat(began) < datetime.fromisoformat(frozen.frozen_utc):
            raise FrozenError(
                f"{record.point_id}: its first block began at {began}, before the predictions were frozen"
            )
