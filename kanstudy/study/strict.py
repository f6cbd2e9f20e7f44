"""Strict reading: a table of a TOML file becomes a frozen dataclass, or there is one error that says what is wrong.

The fields are the keys, their annotations the types, `key` adds bounds. Nothing unknown passes, nothing is converted
but a whole number where a number is meant.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kanstudy.spec import is_number, is_whole

_MOST_SHOWN = 40


class ProfileError(ValueError):
    """A profile that cannot be used here; the message names file, table, key, value and what is allowed."""


def key(
    default: Any = dataclasses.MISSING,
    *,
    least: float = 1,
    above: float | None = None,
    most: float | None = None,
    one_of: Any = None,
    may_be_empty: bool = True,
) -> Any:
    """A dataclass field that is a key: its default (none: required), the bounds of each number or the choices, and
    whether a list may be empty."""
    bounds = {"least": least, "above": above, "most": most, "one_of": one_of, "may_be_empty": may_be_empty}
    return dataclasses.field(default=default, metadata=bounds)


def allowed(given: str, choices: Iterable[str]) -> str:
    """The choices as text, the first of very many, with the nearest one to what was given."""
    choices = list(choices)
    near = difflib.get_close_matches(given, choices, n=1)
    more = f" and {len(choices) - _MOST_SHOWN} more" if len(choices) > _MOST_SHOWN else ""
    return f"one of {', '.join(choices[:_MOST_SHOWN])}{more}" + (f" (did you mean {near[0]!r}?)" if near else "")


def as_table(value: object, where: str) -> dict[str, Any]:
    """The value, if it is a table; `ProfileError` otherwise."""
    if not isinstance(value, dict):
        raise ProfileError(f"{where} = {value!r}: must be a table")
    return value


def build(cls: type[Any], values: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> Any:
    """The dataclass from a table laid over `defaults`; `ProfileError` names `where`, the key and what is allowed."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            raise ProfileError(f"{where}: unknown key {name!r}: must be {allowed(name, fields)}")
    hints = typing.get_type_hints(cls)
    given = {}
    for name, value in {**(defaults or {}), **values}.items():
        try:
            given[name] = _checked(value, hints[name], fields[name].metadata)
        except _NotAllowedError as error:
            raise ProfileError(f"{where} {name} = {value!r}: must be {error}") from None
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in given:
            raise ProfileError(f"{where}: key {name!r} is missing")
    return cls(**given)


class _NotAllowedError(Exception):
    """What is allowed instead."""


_TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    str: (lambda value: isinstance(value, str) and value != "", "text"),
    int: (is_whole, "a whole number"),
    float: (is_number, "a number"),
}


def _checked(value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise _NotAllowedError("a list")
        if not value and not bounds["may_be_empty"]:
            raise _NotAllowedError("a list of at least one item")
        try:
            return tuple(_checked(item, typing.get_args(hint)[0], bounds) for item in value)
        except _NotAllowedError as error:
            raise _NotAllowedError(f"a list, each item {error}") from None
    if typing.get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise _NotAllowedError("a table")
        try:
            return {name: _checked(item, typing.get_args(hint)[1], bounds) for name, item in value.items()}
        except _NotAllowedError as error:
            raise _NotAllowedError(f"a table, each value {error}") from None
    is_right, wording = _TYPES[hint]
    if not is_right(value):
        raise _NotAllowedError(wording)
    if bounds["one_of"] is not None and value not in bounds["one_of"]:
        raise _NotAllowedError(allowed(value, bounds["one_of"]))
    if hint in (int, float):
        least, above, most = bounds["least"], bounds["above"], bounds["most"]
        if above is not None and value <= above:
            raise _NotAllowedError(f"{wording} > {above}")
        if most is not None and not least <= value <= most:
            raise _NotAllowedError(f"{wording} >= {least} and <= {most}")
        if above is None and value < least:
            raise _NotAllowedError(f"{wording} >= {least}")
    return hint(value)
