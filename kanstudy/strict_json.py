"""JSON files of dataclasses, read strictly: every field there and of its type, none unknown. Standard library only."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints


class RecordError(ValueError):
    """A file that is no valid record; the message names the file, the field and what is wrong."""


def build_strictly(cls: type[Any], values: object, where: str) -> Any:
    """The dataclass from exactly its fields; `RecordError` names one that is unknown, missing or of another type.

    A field that is itself a dataclass, or holds some, is left for the caller to build.
    """
    names = {item.name for item in dataclasses.fields(cls)}
    given = set(as_object(values, where))
    for name in sorted(given - names):
        raise RecordError(f"{where}: unknown field {name!r}")
    for name in sorted(names - given):
        raise RecordError(f"{where}: field {name!r} is missing")
    built = cls(**values)  # type: ignore[arg-type]  # a mapping, checked above
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        value = getattr(built, item.name)
        if not fits(value, hints[item.name]):
            raise RecordError(f"{where}: {item.name} = {repr(value)[:60]}: must be {item.type}")
    return built


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


def fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is of the type that a field is annotated with. Numbers must be finite; `null` among the
    numbers of a list stands for NaN, see `without_nan`. A list is a tuple, too."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is types.UnionType:
        return any(fits(value, part) for part in parts)
    if kind is tuple:
        return isinstance(value, list | tuple) and all(fits(item, parts[0]) for item in value)
    if kind is list:
        inner = parts[0] | None if parts[0] is float else parts[0]
        return isinstance(value, list) and all(fits(item, inner) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if kind is dict:
        return isinstance(value, dict) and all(fits(item, parts[1]) for item in value.values())
    return kind is Any or dataclasses.is_dataclass(kind) or isinstance(value, kind)


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
