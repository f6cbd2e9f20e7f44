"""Which rows of a scaling table can be used, and why the others cannot. Nothing is averaged unless it repeats."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kanstudy.analysis.external.cells import is_missing, label, number, seconds
from kanstudy.analysis.external.columns import Columns

Key = tuple[str | None, ...]
"""The values of the key columns; a missing one is a value of its own."""

_LARGEST_WORLD = 10**8


@dataclass
class Row:
    """One row of the table: its number (1 is the first below the header), what it says, why it cannot be used.

    `world_size` is 0 where it cannot be told, `value` (of all ranks, or in seconds) NaN.
    """

    number: int
    key: Key
    world_size: int
    value: float
    reason: str


class Differences:
    """In which columns without a role, keys aside, rows of a table differ: what else may tell them apart."""

    def __init__(self, frame: pd.DataFrame, columns: Columns) -> None:
        self._columns = columns
        self._labels = [[label(cell) for cell in line] for line in frame.itertuples(index=False, name=None)]
        self._places = {str(name): place for place, name in enumerate(frame.columns)}

    def values(self, names: Sequence[str], row: Row) -> Key:
        """What a row has in some columns."""
        return tuple(self._labels[row.number - 1][self._places[name]] for name in names)

    def are_same(self, one: Row, other: Row) -> bool:
        """Whether two rows are the same in every column."""
        return self._labels[one.number - 1] == self._labels[other.number - 1]

    def among(self, rows: Sequence[Row]) -> list[str]:
        """The columns in which these rows differ."""
        return [name for name in self._columns.ignored if len({self.values([name], row) for row in rows}) > 1]


def judge(frame: pd.DataFrame, columns: Columns, repeats: bool, differences: Differences) -> list[Row]:
    """Every row of the table, those that cannot be used with the reason.

    Rows of one key and world size are repeats if `repeats` says so, or if a column numbers them; else none of them
    can be used, since they are of different things, and the reason names the columns that tell them apart.
    """
    has_units = _has_units(frame, columns)
    rows = []
    for place, found in enumerate(frame.to_dict("records"), start=1):
        world_size, why = _world_size(found[columns.world_size], columns.world_size)
        value, why_not = _value(found, columns, world_size, has_units)
        key = tuple(label(found[name]) for name in columns.keys)
        rows.append(Row(place, key, world_size, value, why or why_not))
    if not repeats:
        for group in grouped(rows).values():
            _settle(group, columns, differences)
    return rows


def grouped(rows: Sequence[Row]) -> dict[tuple[Key, int], list[Row]]:
    """The usable rows by key and world size, in the order of the table."""
    groups: dict[tuple[Key, int], list[Row]] = {}
    for row in rows:
        if not row.reason:
            groups.setdefault((row.key, row.world_size), []).append(row)
    return groups


def row_list(rows: Sequence[Row]) -> str:
    """`row 3`, `rows 3, 5 and 40 more`."""
    shown = ", ".join(str(row.number) for row in rows[:5])
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def _world_size(cell: object, name: str) -> tuple[int, str]:
    value = number(cell)
    if math.isfinite(value) and value == math.floor(value) and 1 <= value <= _LARGEST_WORLD:
        return int(value), ""
    return 0, f"{name} {_shown(cell)}: must be a whole number of ranks from 1 to {_LARGEST_WORLD}"


def _value(found: Mapping[Hashable, Any], columns: Columns, world_size: int, has_units: bool) -> tuple[float, str]:
    """What the row measured: throughput of all ranks (samples/s where a time has samples), or a time in seconds."""
    name, cell = columns.measure, found[columns.measure]
    is_time = columns.kind == "time"
    value = seconds(cell, columns.unit_s) if is_time else number(cell)
    if is_time and has_units and not columns.unit_s and not math.isnan(number(cell)):
        return math.nan, f"{name} {_shown(cell)}: has no unit, others in its column have"
    if not (math.isfinite(value) and value > 0):
        return math.nan, f"{name} {_shown(cell)}: must be a plain number above 0"
    if columns.kind == "throughput_per_rank":
        value *= world_size
    if columns.samples is not None:
        samples = number(found[columns.samples])
        if not (math.isfinite(samples) and samples > 0):
            return math.nan, f"{columns.samples} {_shown(found[columns.samples])}: must be a plain number above 0"
        value = samples / value
    if not (1e-100 < value < 1e100 or not world_size):
        return math.nan, f"{name} {_shown(cell)}: must be between 1e-100 and 1e100"
    return value, ""


def _has_units(frame: pd.DataFrame, columns: Columns) -> bool:
    """Whether cells of the time column name their own units."""
    return columns.kind == "time" and any(
        math.isnan(number(cell)) and not math.isnan(seconds(cell, None)) for cell in frame[columns.measure]
    )


def _settle(group: Sequence[Row], columns: Columns, differences: Differences) -> None:
    """Of usable rows of one key and world size: leave what repeats one measurement, give the others a reason."""
    by_number: dict[Key, list[Row]] = {}
    for row in group:
        by_number.setdefault(differences.values(columns.repeats, row), []).append(row)
    for rows in by_number.values():
        for row in rows[1:]:
            if differences.are_same(row, rows[0]):
                row.reason = f"the same as row {rows[0].number} in every column"
        rest = [row for row in rows if not row.reason]
        if len(rest) > 1:
            same = "".join(f" and {name}" for name in columns.repeats)
            advice = _advice(differences.among(rest), columns)
            for row in rest:
                others = row_list([other for other in rest if other is not row])
                row.reason = f"same key and world size{same} as {others}, {advice}"


def _advice(differ: Sequence[str], columns: Columns) -> str:
    if not differ:
        return f"but another {columns.measure}: no column tells them apart (--repeats if they repeat one measurement)"
    by = ",".join([*columns.keys, *differ])
    or_repeats = "" if columns.texts & set(differ) else ", or --repeats if they repeat one measurement"
    return f"but they differ in {', '.join(differ)}: make what is a setting a key (--by {by}){or_repeats}"


def _shown(cell: object) -> str:
    return "is missing" if is_missing(cell) else f"is {str(cell)[:40]!r}"
