"""What nccl-tests measured: the table that `all_reduce_perf` prints, or the same as CSV, for other tools to use.

algbw = bytes/time and busbw = algbw 2(n-1)/n for an all-reduce of n ranks (nccl-tests, doc/PERFORMANCE.md). Both are
computed again from size and time, which have more digits, and checked against what the log says.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from kanstudy.analysis.external.cells import label, number
from kanstudy.analysis.external.columns import plain_name
from kanstudy.analysis.external.read import ExternalError
from kanstudy.analysis.metrics import algorithm_bandwidth, bus_bandwidth

HALVES = ("out-of-place", "in-place")
_TAGS = re.compile(
    r"^((\[[^]\s]*\d+,\d+\]<std\w+>:"  # mpirun --tag-output
    r"|\[\d+\]|\s*[\w.-]+:(?=\s)"  # mpiexec -l, srun --label, pdsh
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?\]?"  # timestamps of containers
    r"|([A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d( \d{4}<std\w+>:)?"  # of ts, mpirun --timestamp-output
    r")\s?)+"
)
_RANK = re.compile(r"#?\s*Rank\s+(\d{1,9})\b")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*(\S+)")
_BROKEN_ROW = re.compile(r"\s*\d+\s+\d+\s+(float|double|half|bfloat16|fp8|u?int)")
_SIZES = {"size", "size_b", "size_bytes", "bytes", "message_bytes", "message_size_bytes"}
_CSV_NAME = re.compile(
    r"((?P<out>oop|out_of_place)_|(?P<into>ip|in_place)_)?"
    r"(time_)?(?P<what>us|time|algbw|busbw|wrong)(_(gb_per_s|gb_s|gbs|gbps))?"
)


@dataclass(frozen=True)
class NcclLog:
    """One run of `all_reduce_perf`.

    `rows` has `message_bytes in_place time_s algbw_bytes_per_s busbw_bytes_per_s`, a row a size and half of the table.
    `unused` has `row`, `text` and `reason`, a row a line of the log or a half of it. `average_busbw` is the mean over
    `rows` as the log prints the values, in bytes/s: what nccl-tests calls "Avg bus bandwidth".
    """

    rows: pd.DataFrame
    unused: pd.DataFrame
    ranks: int
    average_busbw: float
    planned: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Half:
    """Half a row as the log prints it; `time` in us, bandwidths in GB/s."""

    row: int
    text: str
    size: str
    in_place: bool
    time: str
    algbw: str
    busbw: str
    wrong: str
    problem: str = ""


def is_nccl_log(text: str) -> bool:
    """Whether a text has the heading of an nccl-tests table."""
    return any(_heading(line) for line in text.splitlines())


def is_nccl_table(frame: pd.DataFrame) -> bool:
    """Whether a table is one of nccl-tests: sizes, times and bandwidths."""
    found = {match["what"] for match in map(_csv_match, frame.columns) if match}
    return _size_column(frame) is not None and "busbw" in found and bool(found & {"us", "time"})


def parse_log(text: str, ranks: int | None = None, where: str = "log") -> NcclLog:
    """The run that a log shows, whatever else was printed between its lines.

    `ranks` is needed where the log lists none, and must agree where it does. Raises `ExternalError`, beginning with
    `where`: two runs in one log, or several processes that each ran alone; no row; a number of ranks that is missing
    or does not fit the log's own bandwidths.
    """
    lines = [_TAGS.sub("", line) for line in text.splitlines()]
    listed = [int(found[1]) for found in map(_RANK.match, lines) if found]
    if listed.count(0) > 1:
        raise ExternalError(
            f"{where}: {listed.count(0)} 'Rank 0' lines: must be one run of all ranks together (nccl-tests built "
            "without MPI runs every process alone; two runs in one log must be taken apart)"
        )
    if listed and sorted(listed) != list(range(len(listed))):
        raise ExternalError(f"{where}: its 'Rank' lines are of ranks {sorted(listed)}: must be 0 to {len(listed) - 1}")
    headings = [line for line in lines if _heading(line)]
    if len(headings) != 1:
        raise ExternalError(f"{where}: {len(headings)} headings with size, time, algbw and busbw: must be 1")
    if listed and ranks is not None and ranks != len(listed):
        raise ExternalError(f"{where}: --ranks {ranks}: the log lists {len(listed)} ranks: must be the same")
    units = next((found for line in lines if line[:1] == "#" and (found := re.findall(r"\((\w?s)\)", line))), [])
    if any(unit != "us" for unit in units):
        raise ExternalError(f"{where}: times in ({units[0]}): must be in (us)")
    names = headings[0].lstrip("# ").split()
    average = next((found[1] for found in map(_AVERAGE.match, lines) if found), None)
    result = _result(list(_halves(lines, names)), len(listed) or ranks, number(average), where)
    ends_early = () if average else ("the log ends before its average busbw: sizes may be missing",)
    return replace(result, notes=(*result.notes, *ends_early))


def parse_table(frame: pd.DataFrame, ranks: int | None = None, where: str = "table") -> NcclLog:
    """The same from a table with columns such as size_b, oop_us, oop_algbw, oop_busbw, ip_us, ...; errors as of
    `parse_log`."""
    size, halves = _size_column(frame), []
    columns: dict[tuple[bool, str], str] = {}
    for name in frame.columns:
        match = _csv_match(name)
        if match:
            columns[bool(match["into"]), "time" if match["what"] == "us" else match["what"]] = str(name)
    if size is None or not columns:
        raise ExternalError(f"{where}: no columns size_b, oop_us, oop_algbw, oop_busbw or ip_us, ip_algbw, ip_busbw")
    for place, line in enumerate(frame.to_dict("records"), start=1):
        for in_place in sorted({half for half, what in columns if what == "time"}):
            cell = {what: label(line[name]) or "" for (half, what), name in columns.items() if half == in_place}
            text = ",".join(label(value) or "" for value in line.values())
            shown = (cell.get(what, "") for what in ("time", "algbw", "busbw", "wrong"))
            halves.append(_Half(place, text, label(line[size]) or "", in_place, *shown))
    return _result(halves, ranks, math.nan, where)


def _heading(line: str) -> bool:
    line = _TAGS.sub("", line)
    return line.startswith("#") and {"size", "time", "algbw", "busbw"} <= set(line.lstrip("# ").split())


def _csv_match(name: object) -> re.Match[str] | None:
    return _CSV_NAME.fullmatch(plain_name(str(name)))


def _size_column(frame: pd.DataFrame) -> str | None:
    return next((str(name) for name in frame.columns if plain_name(str(name)) in _SIZES), None)


def _halves(lines: Sequence[str], names: Sequence[str]) -> Iterator[_Half]:
    """The halves of every row below the heading; what begins like a row and is none has a problem."""
    starts = [place for place, name in enumerate(names) if name == "time"]
    for place, line in enumerate(lines, start=1):
        cells = line.split()
        if len(cells) == len(names) and all(re.fullmatch(r"\d+", cell) for cell in cells[:2]):
            what = dict(zip(names[: starts[0]], cells, strict=False))
            redop, root = what.get("redop", ""), what.get("root", "-1")
            why = f"is of no all-reduce: redop {redop}, root {root}" if redop == "none" or root != "-1" else ""
            for half, start in enumerate(starts[:2]):
                end = (*starts[1:2], len(names))[half] if half < 1 else len(names)
                found = dict(zip(names[start:end], cells[start:end], strict=True))
                time, algbw, busbw, wrong = (found.get(name, "") for name in ("time", "algbw", "busbw", "#wrong"))
                yield _Half(place, line, cells[0], bool(half), time, algbw, busbw, wrong, why)
        elif _BROKEN_ROW.match(line):
            problem = f"has {len(cells)} values, the heading {len(names)}: broken by another message"
            yield _Half(place, line, cells[0], False, "", "", "", "", problem)


def _result(halves: Sequence[_Half], ranks: int | None, average: float, where: str) -> NcclLog:
    if not halves:
        raise ExternalError(f"{where}: no row of an nccl-tests table: must have sizes, times and bandwidths")
    n = _ranks(halves, ranks, where)
    rows, unused, printed = [], [], []
    for half in halves:
        reason = half.problem or _problem(half, n)
        if reason:
            unused.append((half.row, half.text.strip(), reason if half.problem else f"{_half(half)} {reason}"))
            continue
        size, time_s = int(number(half.size)), number(half.time) * 1e-6
        bandwidths = algorithm_bandwidth(size, time_s), bus_bandwidth(size, time_s, n)
        rows.append((size, half.in_place, time_s, *bandwidths))
        own = number(half.busbw)
        printed.append(bandwidths[1] if math.isnan(own) else own * 1e9)
    if not rows:
        raise ExternalError(f"{where}: none of its {len(unused)} rows can be used: {unused[0][2]}")
    head = ["message_bytes", "in_place", "time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"]
    mean = sum(printed) / len(printed)
    notes = []
    if any(half.wrong == "N/A" for half in halves):
        notes.append("#wrong is N/A: the run did not check its sums")
    if math.isfinite(average) and abs(average * 1e9 - mean) > 0.011e9 + 1e-3 * mean:
        notes.append(f"the log's own average busbw is {average:g} GB/s, that of the rows used {mean / 1e9:.2f}")
    frame = pd.DataFrame(unused, columns=["row", "text", "reason"])
    return NcclLog(pd.DataFrame(rows, columns=head), frame, n, mean, len(halves), tuple(notes))


def _ranks(halves: Sequence[_Half], ranks: int | None, where: str) -> int:
    """The number of ranks, which the ratio of busbw and algbw must support."""
    bandwidths = [(number(half.algbw), number(half.busbw)) for half in halves]
    largest = sorted((pair for pair in bandwidths if pair[0] > 0 and pair[1] > 0), reverse=True)[:5]
    ratio = statistics.median([busbw / algbw for algbw, busbw in largest]) if largest else math.nan
    rounding = 0.015 / largest[-1][0] + 1e-4 if largest else math.nan  # two decimals of each
    fitting = round(2 / (2 - ratio)) if 1 <= ratio < 1.99 else None  # 2(n-1)/n = ratio
    hint = f" (busbw/algbw is {ratio:.3f}, as of {fitting} ranks)" if fitting else ""
    if ranks is None:
        raise ExternalError(f"{where}: the number of ranks is not in it{hint}: say it with --ranks N")
    if ranks < 2:
        raise ExternalError(
            f"{where}: {ranks} rank: an all-reduce needs at least 2 (of several processes, each alone, nccl-tests was "
            "built without MPI)"
        )
    factor = 2 * (ranks - 1) / ranks
    if abs(ratio - factor) > rounding:
        raise ExternalError(
            f"{where}: {ranks} ranks: busbw/algbw would be {factor:.3f} and is {ratio:.3f}: must be "
            f"{f'{fitting} ranks' if fitting else 'another number of ranks'}, or this is no all-reduce"
        )
    return ranks


def _problem(half: _Half, ranks: int) -> str:
    """Why half a row cannot be used, "" if it can."""
    size, time, algbw, busbw, wrong = (
        number(value) for value in (half.size, half.time, half.algbw, half.busbw, half.wrong)
    )
    if not (size > 0 and math.isfinite(size) and size == math.floor(size)):
        return f"size is {half.size!r}: must be a whole number of bytes above 0"
    if not 1e-6 < time < 1e15:
        return f"time is {half.time!r}: must be microseconds above 0"
    if wrong > 0:
        return f"#wrong is {half.wrong}: so many values of the result were wrong"
    checks: Mapping[str, tuple[float, float]] = {
        "algbw": (algbw, algorithm_bandwidth(size, time * 1e-6) / 1e9),
        "busbw": (busbw, bus_bandwidth(size, time * 1e-6, ranks) / 1e9),
    }
    for name, (told, own) in checks.items():
        if math.isfinite(told) and abs(told - own) > 0.0101 + 2e-3 * own:  # two decimals, and three digits of a time
            return f"{name} is {told:g} GB/s, but size and time give {own:.4g}"
    return ""


def _half(half: _Half) -> str:
    return HALVES[half.in_place]
