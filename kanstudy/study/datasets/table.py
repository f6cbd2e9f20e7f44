"""A user's CSV or Parquet table as numbers: what cannot be one is named with column, row and value."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kanstudy.study.datasets.rows import LARGEST, DataError, listed
from kanstudy.study.strict import allowed

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: Path) -> pd.DataFrame:
    """The table of a file, its columns named by distinct text; `DataError` where it is none, `OSError` where it cannot
    be opened."""
    import pandas as pd

    try:
        table = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read as {path.suffix}: {first_line(error)}: save it as UTF-8") from error
    except (OSError, ValueError, NotImplementedError, pd.errors.ParserWarning) as error:  # not a table, or not text
        raise DataError(f"{path}: cannot be read as {path.suffix}: {first_line(error)}") from error
    names = [str(name) for name in table.columns]
    for number, name in enumerate(names, start=1):
        if not name:
            raise DataError(f"{path}: column {number} has no name: must have one (an index column must go)")
        if names.index(name) < number - 1:
            raise DataError(f"{path}: column name {name!r} is there twice: must be distinct")
    table.columns = pd.Index(names)
    return table


def columns_of(
    table: pd.DataFrame, targets: tuple[str, ...], path: Path
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Features (n, in), targets (n, out), and the features' names; `DataError` where a column is not of finite
    numbers."""
    for target in targets:
        if target not in table.columns:
            hint = " (a name that holds a comma needs quotes)" if any("," in name for name in table.columns) else ""
            raise DataError(
                f"{path}: no column {target!r} for a target: must be {allowed(target, table.columns)}{hint}"
            )
    features = tuple(name for name in table.columns if name not in targets)
    if not features:
        raise DataError(f"{path}: every column is a target ({', '.join(targets)}): must have one more, for a feature")
    _check_numbers(table, path)
    columns = {name: table[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in table.columns}
    check_values(columns.items(), path)
    x = np.column_stack([columns.pop(name) for name in features])
    return x, np.column_stack([columns[name] for name in targets]), features


def check_values(columns: Collection[tuple[str, np.ndarray]], path: Path) -> None:
    """Raise `DataError` on values that are missing, infinite or too large: the first of them, and how many where."""
    wrong = {name: rows for name, column in columns if len(rows := np.flatnonzero(~(np.abs(column) <= LARGEST)))}
    if not wrong:
        return
    first = min(wrong, key=lambda name: wrong[name][0])
    value = dict(columns)[first][wrong[first][0]]
    what = "is missing" if np.isnan(value) else f"is {value:g}"
    raise DataError(
        f"{path}: column {first!r} {what} in row {wrong[first][0] + 1}, {sum(map(len, wrong.values()))} values of the"
        f" file ({listed(wrong)}) are missing, infinite or too large: fill them in, or take their rows out; values must"
        f" be finite, at most {LARGEST:g}"
    )


def first_line(error: Exception) -> str:
    """What an error says first."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    table = pd.read_parquet(path)
    has_names = any(name is not None for name in table.index.names)  # an index with a name is a column
    return table.reset_index() if has_names else table


def _csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a row longer than the header loses values
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False)
        _check_delimiter(header.iloc[0].to_list(), path)
        table = pd.read_csv(path, index_col=False, low_memory=False)
    table.columns = header.iloc[0].str.strip()
    return table


def _check_delimiter(header: list[str], path: Path) -> None:
    """Raise `DataError` where another mark than the comma parts the header into more cells."""
    text = ",".join(header)
    for mark in ";\t|":
        if text.count(mark) >= len(header):
            raise DataError(f"{path}: the header is {text[:60]!r}: must be cells between commas, not {mark!r}")


def _check_numbers(table: pd.DataFrame, path: Path) -> None:
    """Raise `DataError` on columns that are not of numbers, all of them at once; true and false are 1 and 0."""
    import pandas as pd

    wrong = [name for name in table.columns if not _is_of_numbers(table[name])]
    if not wrong:
        return
    column = table[wrong[0]]
    is_number = pd.to_numeric(column.astype(str), errors="coerce").notna()
    rows = np.flatnonzero(~is_number.to_numpy() & column.notna().to_numpy())
    row = int(rows[0]) if len(rows) else 0
    others = f"; nor are numbers in {listed(wrong[1:])}" if wrong[1:] else ""
    raise DataError(
        f"{path}: column {wrong[0]!r} must be numbers: row {row + 1} has {str(column.iloc[row])[:40]!r}"
        f" ({column.dtype}){others}; encode such columns (a date as days, a category as columns of 0 and 1), or take"
        " them out"
    )


def _is_of_numbers(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column)
