"""A calibration as one JSON file, so that it can be carried to another machine; read strictly."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from kanstudy.analysis import results
from kanstudy.analysis.calibration.calibration import Calibration, CalibrationError, calibrate
from kanstudy.analysis.calibration.domain import HOW
from kanstudy.files import write_atomically

SCHEMA_VERSION = 2
EXPERIMENT = "calibration"


def save(calibration: Calibration, path: Path | str) -> None:
    """Write a calibration whole; `OSError` where that fails."""
    values = {"kind": EXPERIMENT, "schema_version": SCHEMA_VERSION, **dataclasses.asdict(calibration)}
    write_atomically(Path(path), json.dumps(values, separators=(",", ":"), allow_nan=False))


def load(path: Path | str) -> Calibration:
    """A calibration from its file, or fitted to the records of a results folder.

    Raises `CalibrationError` naming file and field where it is not one, `OSError` where it cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        return of_results(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, dict) or values.get("kind") != EXPERIMENT:
        raise CalibrationError(f"{path}: kind must be {EXPERIMENT!r}: this is no calibration")
    if values.get("schema_version") != SCHEMA_VERSION:
        version = values.get("schema_version")
        raise CalibrationError(f"{path}: schema_version {version!r}: this version of kanstudy reads {SCHEMA_VERSION}")
    del values["kind"], values["schema_version"]
    try:
        found: Calibration = _built(Calibration, values, EXPERIMENT)
        _check_machines(found)
    except ValueError as error:
        raise CalibrationError(f"{path}: {error}") from error
    return found


def of_results(folder: Path | str) -> Calibration:
    """The calibration that the records of a results folder give; `CalibrationError` where there are none."""
    try:
        loaded = results.load(folder, EXPERIMENT)
    except results.ResultsError as error:
        raise CalibrationError(str(error)) from error
    if not loaded.records:
        raise CalibrationError(f"{folder}: no records of the experiment {EXPERIMENT}: {HOW}")
    return calibrate(loaded.records)


def _check_machines(found: Calibration) -> None:
    """`ValueError` unless estimate and refits are constants of a machine."""
    if not found.draws:
        raise ValueError(f"{EXPERIMENT}.draws is empty: must be refits of the constants")
    for constants in (found.constants, *found.draws):
        _ = dataclasses.replace(found, constants=constants).machine


def _built(hint: Any, value: Any, where: str) -> Any:
    """The value of JSON as what an annotation says; `ValueError` names the place where it is not that."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is types.UnionType:
        return None if value is None else _built(next(part for part in parts if part is not type(None)), value, where)
    if dataclasses.is_dataclass(kind):
        return _object(kind, value, where)
    if kind is tuple:
        count = None if parts[-1] is Ellipsis else len(parts)
        if not isinstance(value, list) or count not in (None, len(value)):
            raise ValueError(f"{where}: must be a list{'' if count is None else f' of {count}'}")
        inner = [parts[0]] * len(value) if count is None else parts
        return tuple(
            _built(part, item, f"{where}[{i}]") for i, (part, item) in enumerate(zip(inner, value, strict=True))
        )
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not 0 <= value <= sys.float_info.max:
        raise ValueError(f"{where} = {value!r}: must be a finite number >= 0")
    if kind is float and number:
        return float(value)
    if kind is not float and isinstance(value, kind) and (kind is not int or number):
        return value
    raise ValueError(f"{where} = {value!r}: must be {getattr(kind, '__name__', kind)}")


def _object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object")
    hints = get_type_hints(kind)
    for name in sorted(set(value) ^ set(hints)):
        raise ValueError(
            f"{where}: field {name!r} is {'unknown' if name in value else 'missing'}: the file was not"
            " written by this version; calibrate again: kanstudy run --only calibration, then kanstudy predict"
        )
    return kind(**{name: _built(hints[name], value[name], f"{where}.{name}") for name in hints})
