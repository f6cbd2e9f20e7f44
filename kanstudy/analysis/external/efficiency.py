"""Speed-up and efficiency of scaling results that this project did not measure.

S(p) = R(p)/R(p0) of the rates of work R, E(p) = S(p) p0/p, with p0 = 1 unless relative values are asked for. The rate
is the throughput of all ranks, or 1/T (strong scaling) or p/T (weak scaling, so that E = T(1)/T(p)) of a time T. Ratios
are those of medians over repeats, their intervals as `intervals` describes. A series is what shares every key; nothing
crosses series but a baseline that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from kanstudy.analysis.external.cells import label, number
from kanstudy.analysis.external.columns import Columns, plain_name, understand
from kanstudy.analysis.external.points import Point, by_series, flags, point, ranks
from kanstudy.analysis.external.read import ExternalError, with_text_names
from kanstudy.analysis.external.rows import Differences, Key, Row, grouped, judge, row_list
from kanstudy.analysis.statistics.intervals import Estimate

SCALINGS = ("strong", "weak")
RATIOS = ("speedup", "parallel_efficiency")


@dataclass(frozen=True)
class Analysis:
    """What a scaling table says.

    `efficiency` has a line a key and world size: the keys, `world_size`, the median of what was measured
    (`throughput`, `time_s`, or `time` in a unit that the table does not state), `speedup` and `parallel_efficiency`
    with `_low` and `_high`, `baseline_world_size`, `n` (rows behind it), `rows` (their numbers, from 1) and `reason`:
    why a value is blank and what is odd about it. `unused` has `row`, every column of the table, and `reason`; a
    column of the table that bears one of these names has ` (table)` behind it. `repeats` has the ratios of every
    single row of points that repeat, to the median of their baseline.
    """

    efficiency: pd.DataFrame
    unused: pd.DataFrame
    repeats: pd.DataFrame
    keys: tuple[str, ...]
    columns: Columns
    scaling: str
    planned: int
    notes: tuple[str, ...]

    @property
    def used(self) -> int:
        """Rows of the table behind `efficiency`; with those of `unused` they are all, `planned`."""
        return int(self.efficiency["n"].sum())

    @property
    def blank(self) -> int:
        """Used rows without an efficiency, for want of a baseline."""
        return int(self.efficiency.loc[self.efficiency["parallel_efficiency"].isna(), "n"].sum())


def analyse(
    frame: pd.DataFrame,
    *,
    roles: Mapping[str, str] | None = None,
    scaling: str | None = None,
    by: Sequence[str] | None = None,
    baseline: Mapping[str, str] | None = None,
    relative: bool = False,
    repeats: bool = False,
    where: str = "table",
) -> Analysis:
    """Speed-up and parallel efficiency of every series of a table (a row a measurement).

    `roles` says what columns are (`{"gpus": "world_size"}`, see `external.columns.ROLES`), `by` which are keys (by
    default those of text and dates), `baseline` which values of key columns the baseline has where it is not of the
    same series (`{"impl": "no_ddp"}`), `relative` that the smallest world size is the baseline, `repeats` that rows of
    the same key and world size repeat one measurement. `scaling`, strong or weak, is needed for times without samples.
    Raises `ExternalError`: one line that begins with `where`.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ExternalError(f"{where}: is {type(frame).__name__}: must be a data frame with a row a measurement")
    frame = with_text_names(frame, where)
    by = (by,) if isinstance(by, str) else by
    if by is not None and not (isinstance(by, Sequence) and all(isinstance(name, str) for name in by)):
        raise ExternalError(f"{where}: by = {by!r}: must be a list of columns")
    columns = understand(frame, _pairs("roles", roles, where), by, where)
    scaling_of = _scalings(scaling, frame, columns, where)
    stated = _stated(frame, columns, _pairs("baseline", baseline, where), where)
    differences = Differences(frame, columns)
    rows = judge(frame, columns, repeats, differences)
    is_rate = _is_rate(columns)
    groups = grouped(rows)
    series = by_series([point(*at, group, is_rate, scaling_of(at[0])) for at, group in groups.items()])
    planned: dict[tuple[Key, int], list[Row]] = {}
    for row in rows:
        planned.setdefault((row.key, row.world_size), []).append(row)
    lines, dots = [], []
    for key, members in series.items():
        base_key = tuple(stated.get(name, value) for name, value in zip(columns.keys, key, strict=True))
        others = series.get(base_key, [])
        base = others[0] if others and (relative or others[0].world_size == 1) else None
        for before, found in zip([None, *members], members, strict=False):
            found.relate(base)
            told = _baseline_told(found, planned.get((base_key, 1), []), stated, relative)
            lost = [row for row in planned[key, found.world_size] if row.reason]
            if lost:
                told.append(f"{len(lost)} of {len(lost) + len(found.rows)} rows here unused ({row_list(lost)})")
            told += _crossing(found, columns, differences)
            told += flags(found, before, columns, is_rate, scaling_of(key))
            lines.append(_line(found, told))
            dots += _dots(found, is_rate) if len(found.rows) > 1 else []
    measure = "throughput" if is_rate else "time_s" if columns.unit_s else "time"
    head = ("world_size", measure, *(f"{name}{end}" for name in RATIOS for end in ("", "_low", "_high")))
    head += ("baseline_world_size", "n", "rows", "reason")
    keys = tuple(_apart(name, head) for name in columns.keys)
    unused = frame.set_axis([_apart(str(name), ("row", "reason")) for name in frame.columns], axis=1)
    unused.insert(0, "row", np.arange(1, len(frame) + 1))
    unused["reason"] = [row.reason for row in rows]
    return Analysis(
        efficiency=pd.DataFrame(lines, columns=[*keys, *head]).astype({"baseline_world_size": "Int64"}),
        unused=unused[unused["reason"] != ""].reset_index(drop=True),
        repeats=pd.DataFrame(dots, columns=[*keys, "world_size", *RATIOS]),
        keys=keys,
        columns=columns,
        scaling=" and ".join(sorted({scaling_of(row.key) for row in rows} - {""})),
        planned=len(frame),
        notes=(*columns.notes, *_notes(columns, series, differences, rows)),
    )


def _pairs(name: str, given: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """What columns are said to be, names as text."""
    if not isinstance(given, Mapping | None):
        raise ExternalError(f"{where}: {name} = {given!r}: must be a dictionary by column")
    return {str(column): str(said) for column, said in (given or {}).items()}


def _is_rate(columns: Columns) -> bool:
    """Whether the values of rows are throughputs, of which no scaling needs to be known; else they are times."""
    return columns.kind != "time" or columns.samples is not None


def _scalings(
    given: str | None, frame: pd.DataFrame, columns: Columns, where: str
) -> Callable[[Key], Literal["strong", "weak", ""]]:
    """Strong or weak for each key: as given, or as a key column says that holds nothing else; "" if it is no matter."""
    if given is not None and given not in SCALINGS:
        raise ExternalError(f"{where}: scaling {given!r}: must be strong or weak")
    told = {name: {str(label(cell)).lower() for cell in frame[name]} for name in columns.keys}
    place, name = next(((at, name) for at, name in enumerate(told) if told[name] <= set(SCALINGS)), (0, ""))
    if given and name and told[name] != {given}:
        raise ExternalError(f"{where}: scaling {given}: column {name!r} says {' and '.join(sorted(told[name]))} itself")
    if name and given is None:
        return lambda key: "weak" if str(key[place]).lower() == "weak" else "strong"
    if given is None and not _is_rate(columns):
        raise ExternalError(
            f"{where}: column {columns.measure!r} is a time, which does not say whether the work grew with the ranks: "
            "--scaling strong (the same work) or weak (the same work a rank), or --map COLUMN=samples for how much"
        )
    return lambda _: "weak" if given == "weak" else "strong" if given else ""


def _stated(frame: pd.DataFrame, columns: Columns, baseline: Mapping[str, str], where: str) -> dict[str, str | None]:
    """The baseline's values of key columns, as labels."""
    stated: dict[str, str | None] = {}
    for name, value in baseline.items():
        if name not in columns.keys:
            keys = ", ".join(columns.keys) or "(there is none: name keys with --by)"
            raise ExternalError(f"{where}: --baseline column {name!r} is no key: must be one of {keys}")
        there = dict.fromkeys(label(cell) for cell in frame[name])
        same = [found for found in there if (found or "") == value or number(found) == number(value)]
        if not same:
            shown = ", ".join(repr(found) for found in list(there)[:8]) + (" ..." if len(there) > 8 else "")
            raise ExternalError(f"{where}: --baseline {name}={value}: no such value: must be one of {shown}")
        stated[name] = same[0]
    return stated


def _baseline_told(found: Point, at_one: Sequence[Row], stated: Mapping[str, str | None], relative: bool) -> list[str]:
    """Where the baseline is another than one rank of the same series, or why there is none."""
    where = " and ".join(f"{name}={value or ''}" for name, value in stated.items())
    if found.base is None:
        if at_one and not relative:
            return [f"no baseline: world size 1 is there but cannot be used ({row_list(at_one)})"]
        size = "any world size" if relative else "world size 1"
        return [f"no baseline: no row at {size}{f' with {where}' if where else ' under this key'}"]
    told = [f"relative to {ranks(found.base.world_size)}"] if found.base.world_size > 1 else []
    return told + ([f"baseline of {where}"] if where and found.key != found.base.key else [])


def _crossing(found: Point, columns: Columns, differences: Differences) -> list[str]:
    """What was left out of the keys and differs among a point's rows (text, dates, whole numbers, which may be
    settings), or from its baseline's (text and dates: counts grow with the ranks)."""
    inside = [name for name in differences.among(found.rows) if name in columns.texts | columns.counts]
    told = [f"its rows differ in {', '.join(inside)}"] if inside else []
    if found.base is not None and found.base is not found:
        across = [name for name in differences.among([*found.rows, *found.base.rows]) if name in columns.texts]
        told += [f"baseline differs in {', '.join(across)}"] if across else []
    return told


def _line(found: Point, told: Sequence[str]) -> list[object]:
    def ends(ratio: Estimate) -> list[float]:
        return [ratio.value, ratio.low, ratio.high]

    base = found.base.world_size if found.base else None
    numbers = " ".join(str(row.number) for row in found.rows)
    head = [*found.key, found.world_size, found.value, *ends(found.speedup), *ends(found.efficiency)]
    return [*head, base, len(found.rows), numbers, "; ".join(told)]


def _dots(found: Point, is_rate: bool) -> list[list[object]]:
    """The ratios of each row of a point."""
    lines: list[list[object]] = []
    for row in found.rows if found.base else []:
        ratio = row.value / found.value if is_rate else found.value / row.value
        ratios = (found.speedup.value * ratio, found.efficiency.value * ratio)
        lines.append([*found.key, found.world_size, *ratios])
    return lines


def _apart(name: str, own: Sequence[str]) -> str:
    """A column name of the table beside ours."""
    return f"{name} (table)" if name in own else name


def _notes(
    columns: Columns, series: Mapping[Key, Sequence[Point]], differences: Differences, rows: Sequence[Row]
) -> list[str]:
    notes = []
    if columns.ignored:
        notes.append(f"not used: {', '.join(columns.ignored)} (a column of settings is a key if named with --by)")
    points = [found for members in series.values() for found in members]
    repeated = [found for found in points if len(found.rows) > 1]
    differ = dict.fromkeys(name for found in repeated for name in differences.among(found.rows))
    if differ:
        notes.append(f"repeats of one point differ in {', '.join(differ)}")
    if any(not found.rate.has_interval for found in repeated):
        notes.append("a ratio has an interval only if both its points have at least 6 repeats")
    sizes = {found.world_size for found in points}
    if len(series) == len(points) and len(sizes) > 1 and all(found.base in (None, found) for found in points):
        used = [row for found in points for row in found.rows]
        single = [name for name in columns.keys if _is_apart(name, used, differences)]
        which = f": {', '.join(single)} has other values at every world size" if single else ""
        notes.append(f"no series has two world sizes{which}; leave out of the keys, with --by, what is no setting")
    for place, name in enumerate(columns.keys):
        blank = [row for row in rows if row.key[place] is None]
        if 0 < len(blank) < len(rows):
            told = f"{name} is blank in {row_list(blank)}: blank is a value of its own"
            notes.append(f"{told}; write it into every row where the value above is meant")
    varying = [name for name in differences.among(rows) if "samples" in plain_name(name)]
    if varying and not _is_rate(columns):
        notes.append(f"{varying[0]} varies: if the time is for so many samples, say --map {varying[0]}=samples")
    return notes


def _is_apart(name: str, rows: Sequence[Row], differences: Differences) -> bool:
    """Whether no value of a column is there at two world sizes."""
    sizes: dict[Key, set[int]] = {}
    for row in rows:
        sizes.setdefault(differences.values([name], row), set()).add(row.world_size)
    return all(len(found) == 1 for found in sizes.values())
