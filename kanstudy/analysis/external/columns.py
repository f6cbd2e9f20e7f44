"""What the columns of a scaling table mean: which counts ranks, which was measured, which tell series apart.

A role that is not given is guessed by the column's name, only if one column alone can have it, and told in the notes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from kanstudy.analysis.external.cells import UNITS, is_figure, is_missing, number, seconds
from kanstudy.analysis.external.read import ExternalError

ROLES = ("world_size", "throughput", "throughput_per_rank", "time", "samples", "repeat")
"""What a column can be named to be. `throughput` is that of all ranks together; `samples` is what a time is for;
`repeat` numbers the repeats of one measurement."""
MEASURES = ("throughput", "throughput_per_rank", "time")

_TIMES = {"time", "times", "runtime", "walltime", "wallclock", "elapsed", "duration", "latency"}
_NO_TIME = {"start", "end", "stamp", "date"}
_SPREADS = {"std", "stdev", "sd", "sem", "err", "error", "var", "cv", "ci", "min", "max", "low", "high", "p95", "p99"}
_LABELS = {"date", "datetime", "timestamp", "day", "month", "year", "version", "precision"}
_NO_VALUE = {"error", "err", "fail", "failed", "oom", "timeout", "n/a", "na", "nan", "none", "null", "-", "--", "?"}

_WORLD_SIZE = re.compile(
    r"(n|num|no|nr|number|number_of|of|total|total_num|total_number_of)?_?"
    r"(gpus?|ranks|mpi_ranks|procs|nproc|processes|devices|tasks|accelerators|tpus|world_?size|np)(_count|_total)?"
    r"|workers|p|(gpu|rank|device|process)_count"
)
_SECOND = r"(per_)?(s|sec|secs|second|seconds)"
_PER_RANK = r"(?P<per_rank>_per_(gpu|rank|device|worker|process))?"
_THROUGHPUT = re.compile(
    r"(.+_)?((imgs?|images?|samples?|seqs?|sequences?|tok|toks|tokens?|examples?|items?|words?|frames?|rows?)_"
    rf"{_SECOND}|throughput(_{_SECOND})?|fps|ips){_PER_RANK}"
)
_REPEAT = re.compile(r"(run|repeat|repetition|rep|replicate|trial|seed|launch|round)s?(_(id|nr|no|number|index))?")


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they mean.

    `ignored` have no meaning here; `texts` are those of them that hold text or dates, which a caller left out of the
    keys, `counts` those of whole numbers, of which some may be settings. `unit_s` is the time column's unit in
    seconds, None if unknown.
    """

    world_size: str
    measure: str
    kind: str
    samples: str | None
    repeats: tuple[str, ...]
    keys: tuple[str, ...]
    ignored: tuple[str, ...]
    texts: frozenset[str]
    counts: frozenset[str]
    unit_s: float | None
    notes: tuple[str, ...]


def plain_name(name: str) -> str:
    """A column's name in lower case, words joined by `_`: `Time (ms)` is time_ms, `img/s` is img_per_s."""
    name = re.sub(r"[(\[]\s*min\s*[)\]]", "_minutes", name, flags=re.IGNORECASE)  # without brackets it is a minimum
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("µ", "u").replace("μ", "u").replace("/", "_per_").lower()
    return re.sub(r"[^a-z0-9]+", "_", words).strip("_")


def time_unit(name: str) -> float | None:
    """The unit that a time column's name ends with, or begins with before `per`, in seconds."""
    words = plain_name(name).split("_")
    words = words[: words.index("per")] if "per" in words else words
    return UNITS.get(words[-1]) if words else None


def understand(
    frame: pd.DataFrame, roles: Mapping[str, str], by: Sequence[str] | None, where: str = "table"
) -> Columns:
    """The meaning of every column: `roles` (column to role) and `by` (the keys) as given, the rest guessed.

    Raises `ExternalError` where a column or role does not exist, and where no column or several could have a role.
    """
    names = [str(name) for name in frame.columns]
    given = _given(names, roles, where)
    notes: list[str] = []
    is_free = [name for name in names if name not in roles and name not in (by or ())]

    def guess(role: str, matches: Callable[[str], bool]) -> str:
        found = [name for name in is_free if matches(name)]
        if len(found) == 1:
            notes.append(f"{found[0]} is taken as {role}")
            return found[0]
        what = f"{_listed(found)} could each be" if found else "no column can be told to be"
        row = "" if found else " (a row of the table must be one measurement, and tell its number of ranks)"
        raise ExternalError(
            f"{where}: {what} the {role.replace('_', ' ')}: name it with --map COLUMN={role}, "
            f"COLUMN one of {_listed(found or is_free)}{row}"
        )

    world_size = given.get("world_size") or [guess("world_size", lambda name: _counts_ranks(frame, name))]
    is_free = [name for name in is_free if name not in world_size]
    kind = next((role for role in MEASURES if role in given), "")
    if not kind:
        kind = _kind(frame, is_free, given)
        if not kind:
            raise ExternalError(
                f"{where}: no column of plain numbers can be told to be what was measured: name it with --map "
                f"COLUMN=throughput, throughput_per_rank or time, COLUMN one of {_listed(is_free)}"
            )
        given[kind] = [guess(kind, lambda name: _measures(frame, name) == kind)]
    measure = given[kind][0]
    repeats = tuple(given.get("repeat", ()))
    if not repeats:
        repeats = tuple(name for name in is_free if _REPEAT.fullmatch(plain_name(name)) and _is_whole(frame[name]))
        notes += [f"{_listed(repeats)} is taken to number repeats"] * bool(repeats)
    taken = {*world_size, measure, *repeats, *given.get("samples", ())}
    if by is None:
        keys = tuple(name for name in names if name not in taken and is_label(frame[name], name))
    else:
        keys = _keys(names, by, taken, where)
    ignored = tuple(name for name in names if name not in taken and name not in keys)
    texts = frozenset(name for name in ignored if is_label(frame[name], name))
    counts = frozenset(name for name in ignored if name not in texts and _is_whole(frame[name]))
    unit_s = time_unit(measure) if kind == "time" else None
    samples = given.get("samples", [None])[0]
    return Columns(world_size[0], measure, kind, samples, repeats, keys, ignored, texts, counts, unit_s, tuple(notes))


def is_text(column: pd.Series) -> bool:
    """Whether a column holds text or dates: any value that is no figure, aside from missing ones, words such as ERROR
    and the column's own name, where a header stands between the rows."""
    cells = [cell for cell in column if not is_missing(cell)]
    no_value = {*_NO_VALUE, str(column.name).lower()}
    valued = [cell for cell in cells if not (isinstance(cell, str) and cell.lower() in no_value)]
    if not valued:
        return bool(cells)
    return not all(is_figure(cell) for cell in valued)


def is_label(column: pd.Series, name: str) -> bool:
    """Text or a date, or numbers that name a version or a date."""
    return is_text(column) or bool(_LABELS & set(plain_name(name).split("_")))


def _given(names: Sequence[str], roles: Mapping[str, str], where: str) -> dict[str, list[str]]:
    """Columns by the role that they were given."""
    given: dict[str, list[str]] = {}
    for column, role in roles.items():
        if column not in names:
            raise ExternalError(f"{where}: no column {column!r} to be {role}: must be one of {_listed(names)}")
        if role not in ROLES:
            raise ExternalError(f"{where}: column {column!r} cannot be {role!r}: must be one of {', '.join(ROLES)}")
        given.setdefault(role, []).append(column)
        if len(given[role]) > 1 and role != "repeat":
            raise ExternalError(f"{where}: {_listed(given[role])} are both said to be {role}: must be one column")
    measures = [role for role in MEASURES if role in given]
    if len(measures) > 1:
        raise ExternalError(f"{where}: {' and '.join(measures)} are given: must be one of them")
    if "samples" in given and measures and measures != ["time"]:
        raise ExternalError(f"{where}: samples belong to a time, not to a {measures[0]}: leave one out")
    return given


def _kind(frame: pd.DataFrame, names: Sequence[str], given: Mapping[str, Sequence[str]]) -> str:
    """What was measured: throughput where a column tells it, since a time needs to know for how much work it is; "" if
    no column tells anything."""
    if "samples" in given:
        return "time"
    found = {_measures(frame, name) for name in names}
    return next((kind for kind in MEASURES if kind in found), "")


def _keys(names: Sequence[str], by: Iterable[str], taken: set[str], where: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(by))
    for name in keys:
        if name not in names:
            raise ExternalError(f"{where}: --by {name!r} is no column: must be of {_listed(names)}")
        if name in taken:
            raise ExternalError(f"{where}: --by {name!r} cannot be a key: it has a role of its own (see --map)")
    return keys


def _counts_ranks(frame: pd.DataFrame, name: str) -> bool:
    plain = plain_name(name)
    return bool(_WORLD_SIZE.fullmatch(plain)) and plain != "num_workers" and _is_whole(frame[name], share=0.5)


def _measures(frame: pd.DataFrame, name: str) -> str:
    """Which measure a column looks like by its name, "" if none. A column without any number is none."""
    plain = plain_name(name)
    words = set(plain.split("_"))
    if words & _SPREADS or not any(seconds(cell, None) > 0 for cell in frame[name]):
        return ""
    found = _THROUGHPUT.fullmatch(plain)
    if found:
        return "throughput_per_rank" if found["per_rank"] else "throughput"
    if words & _TIMES and not words & _NO_TIME:
        return "time"
    # a unit at the end or before `per`: median_ms, s_per_epoch; not a rate such as steps_per_s
    rate = re.search(r"_per_(s|sec|secs|second|seconds|min|h)$", plain)
    return "time" if time_unit(name) and not rate else ""


def _is_whole(column: pd.Series, share: float = 1.0) -> bool:
    """Whether at least so great a share of the cells that hold something are whole numbers, and any are."""
    values = [number(cell) for cell in column if not is_missing(cell)]
    whole = sum(value == math.floor(value) for value in values if math.isfinite(value))
    return 0 < whole >= share * len(values)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") if names else "(none)"
