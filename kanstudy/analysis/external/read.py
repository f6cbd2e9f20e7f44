"""Reading tables that others wrote, cell by cell as they stand: nothing is converted here, so nothing is lost.

Text tables give text cells, stripped, with `None` where a cell is empty. What a cell means is decided where it is used,
but for decimal commas, which the whole table tells.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

_DELIMITERS = ",;\t|"
_GROUPED_BY_POINTS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+")
_LARGEST = 256 * 2**20
"""Bytes, unpacked: a table of results is far smaller; a file that unpacks to more would fill the memory."""


class ExternalError(ValueError):
    """A table or log cannot be used; the message is one line and names file, column, value and what is allowed."""


def is_table(path: Path | str) -> bool:
    """Whether a file is a table by its name; else it may be a log."""
    return _kind(Path(path)) in _READERS


def read_table(path: Path | str) -> pd.DataFrame:
    """The table of a .csv, .tsv, .json, .jsonl (each also .gz) or .parquet file: a row a line, columns named by text.

    Raises `ExternalError` where the file cannot be read as what its name says, where rows are longer or shorter than
    the header, and where two columns have one name.
    """
    path = Path(path)
    if not is_table(path):
        kinds = ", ".join(_READERS)
        raise ExternalError(
            f"{path}: its name must end with {kinds} (text also with .gz), or it must be a log with the heading of "
            "nccl-tests, '# size ... time algbw busbw'"
        )
    content = read_bytes(path)
    try:
        frame = _READERS[_kind(path)](content)
    except ExternalError as error:
        raise ExternalError(f"{path}: {error}") from error
    frame = with_text_names(frame, str(path))
    if frame.empty:
        raise ExternalError(f"{path}: holds no rows: must have a header and at least one row")
    return frame


def with_text_names(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """The same rows numbered from 0, columns named by distinct text; `where` begins the message of an error.

    A column without a name, such as an index that was saved, is called `column 1` by its place. Raises `ExternalError`
    where a name is there twice.
    """
    texts = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name).strip() for name in frame.columns]
    names = [name or f"column {place}" for place, name in enumerate(texts, start=1)]
    for place, name in enumerate(names):
        if names.index(name) < place:
            raise ExternalError(f"{where}: column name {name!r} is there twice: must be distinct")
    return frame.set_axis(names, axis=1).reset_index(drop=True)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends with .gz; `ExternalError` where it cannot be read or is too
    large."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
        raise ExternalError(f"{path}: cannot be read: {reason}") from error
    if len(content) > _LARGEST:
        raise ExternalError(f"{path}: holds more than {_LARGEST // 2**20} MiB: must be smaller")
    return content


def as_text(content: bytes) -> str:
    """The text of a file that is UTF-8, or UTF-16 with its mark; `ExternalError` where it is neither."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        byte = content[error.start : error.start + 1].hex()
        raise ExternalError(f"is not UTF-8 text: byte {error.start + 1} is 0x{byte}: save it as UTF-8") from error
    if "\0" in text:
        raise ExternalError(f"is not text: character {text.index(chr(0)) + 1} is 0x00")
    return text


def first_line(error: Exception) -> str:
    """What an error says first."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _csv(content: bytes) -> pd.DataFrame:
    return _delimited(as_text(content))


def _tsv(content: bytes) -> pd.DataFrame:
    return _delimited(as_text(content), "\t")


def _delimited(text: str, delimiter: str = "") -> pd.DataFrame:
    """Rows of text between delimiters (a comma, or what the header has instead). Comments go: what is above the header,
    and lines below it that begin with # and have not as many cells."""
    lines = text.splitlines(keepends=True)
    if not text.strip():
        raise ExternalError("is empty: must have a header and rows")
    start = _header_line(lines)
    lines[start] = lines[start].lstrip("# ")
    delimiter = delimiter or next((mark for mark in _DELIMITERS if mark in lines[start]), ",")
    reader = csv.reader(io.StringIO("".join(lines[start:]), newline=""), delimiter=delimiter, strict=True)
    try:
        rows = [([cell.strip() for cell in row], start + reader.line_num) for row in reader]
    except csv.Error as error:
        raise ExternalError(f"line {start + reader.line_num}: {first_line(error)}") from error
    rows = [(row, line) for row, line in rows if row and row != [""]]
    if not rows:
        raise ExternalError("is empty: must have a header and rows")
    names = rows[0][0]
    while names and not names[-1]:
        names = names[:-1]  # delimiters at the end of every line
    if len(names) == 1:
        raise ExternalError(
            f"the header, line {rows[0][1]}, is one cell, {names[0][:40]!r}: must be cells between commas, semicolons, "
            "tabs or |"
        )
    for row, line in rows[1:]:
        while len(row) > len(names) and not row[-1]:
            row.pop()
        if len(row) != len(names) and not row[0].startswith("#"):
            raise ExternalError(
                f"line {line} has {len(row)} cells, the header in line {rows[0][1]} has {len(names)}: must be equally "
                f"many (a cell that holds {delimiter!r} needs quotes)"
            )
    cells = [row for row, _ in rows[1:] if len(row) == len(names)]
    if delimiter == ";" and any(_DECIMAL_COMMA.fullmatch(cell) for row in cells for cell in row):
        cells = [[_with_point(cell) for cell in row] for row in cells]
    return pd.DataFrame([[cell or None for cell in row] for row in cells], columns=names, dtype=object)


def _with_point(cell: str) -> str:
    """`1.234,5` as `1234.5`: where commas are decimal, points group thousands."""
    is_number = _DECIMAL_COMMA.fullmatch(cell) or _GROUPED_BY_POINTS.fullmatch(cell)
    return cell.replace(".", "").replace(",", ".") if is_number else cell


def _header_line(lines: Sequence[str]) -> int:
    """The first line that is neither empty nor a comment; a `#` line just above it with as many delimiters is it."""
    is_text = [bool(line.strip()) and not line.lstrip().startswith("#") for line in lines]
    first = is_text.index(True) if True in is_text else 0
    here, above = (re.sub(r'"[^"]*"', "", line) for line in (lines[first], lines[first - 1] if first else ""))
    is_heading = above.startswith("#") and any(here.count(mark) == above.count(mark) > 0 for mark in _DELIMITERS)
    return first - 1 if is_heading else first


def _json(content: bytes) -> pd.DataFrame:
    """A list of objects, or an object of columns, each a list or an object of rows, or one that holds `data`."""
    found = _parsed(as_text(content))
    if isinstance(found, dict) and isinstance(found.get("data"), list):
        names = found.get("columns")
        if isinstance(names, list) and all(isinstance(row, list) for row in found["data"]):
            if any(len(row) != len(names) for row in found["data"]):
                raise ExternalError(f"'data' has rows that do not have {len(names)} cells, as 'columns' says")
            return _framed(lambda: pd.DataFrame(found["data"], columns=names, dtype=object))
        found = found["data"]
    if isinstance(found, list):
        return _records(found)
    if isinstance(found, dict) and found and all(isinstance(column, list) for column in found.values()):
        if len({len(column) for column in found.values()}) > 1:
            raise ExternalError("its columns are lists of different lengths: must be equally long")
        return _framed(lambda: pd.DataFrame(found, dtype=object))
    if isinstance(found, dict) and found and all(isinstance(column, dict) for column in found.values()):
        return _framed(lambda: pd.DataFrame(found, dtype=object))
    raise ExternalError("its JSON must be a list of objects, one a row, or an object of columns")


def _json_lines(content: bytes) -> pd.DataFrame:
    return _records([_parsed(line) for line in as_text(content).splitlines() if line.strip()])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except ExternalError:
        raise
    except (ValueError, RecursionError) as error:
        raise ExternalError(f"cannot be read as JSON: {first_line(error)}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which a name must not be there twice: only the last would be kept."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = max(found, key=[name for name, _ in pairs].count)
        raise ExternalError(f"an object of its JSON has {twice!r} twice: must be distinct")
    return found


def _records(rows: Sequence[Any]) -> pd.DataFrame:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ExternalError(f"row {number} of its JSON is {str(row)[:40]!r}: must be an object of columns")
    return _framed(lambda: pd.DataFrame(list(rows), dtype=object))


def _framed(make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A frame of JSON values, each a number, text, true, false or null."""
    frame = make()
    for place, name in enumerate(frame.columns):
        for number, value in enumerate(frame.iloc[:, place], start=1):
            if isinstance(value, list | dict):
                raise ExternalError(
                    f"column {str(name)!r}, row {number} is {str(value)[:40]!r}: must be a number or text"
                )
    return frame


def _parquet(content: bytes) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except Exception as error:  # whatever the reader makes of a file that is none
        raise ExternalError(f"cannot be read as .parquet: {first_line(error)[:200]}") from error
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


_READERS: dict[str, Callable[[bytes], pd.DataFrame]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
