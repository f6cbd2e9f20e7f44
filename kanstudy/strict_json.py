"""JSON files of dataclasses, read strictly: every field there, none unknown. Standard library only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any


class RecordError(ValueError):
    """A file that is no valid record; the message names the file, the field and what is wrong."""


def build_strictly(cls: type[Any], values: object, where: str) -> Any:
    """The dataclass from exactly its fields; `RecordError` names one that is unknown or missing."""
    names = {item.name for item in dataclasses.fields(cls)}
    given = set(as_object(values, where))
    for name in sorted(given - names):
        raise RecordError(f"{where}: unknown field {name!r}")
    for name in sorted(names - given):
        raise RecordError(f"{where}: field {name!r} is missing")
    return cls(**values)  # type: ignore[arg-type]  # a mapping, checked above


def as_object(value: object, where: str) -> dict[str, Any]:
    """The value, an object of JSON; `RecordError` naming the place otherwise."""
    if not isinstance(value, dict):
        raise RecordError(f"{where}: must be an object")
    return value


def as_list(value: object, where: str) -> list[Any]:
    """The value, a list of JSON; `RecordError` naming the place otherwise."""
    if not isinstance(value, list):
        raise RecordError(f"{where}: must be a list")
    return value


def rounded(value: Any) -> Any:
    """Seven significant digits: finer than any clock resolves, and records of many short times stay small."""
    return _mapped(value, lambda number: float(f"{number:.7g}"))


def without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: both become null."""
    return _mapped(value, lambda number: number if math.isfinite(number) else None)


def _mapped(value: Any, change: Callable[[float], float | None]) -> Any:
    if isinstance(value, float):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change) for item in value]
    return value
