"""`file:PATH:TARGET,TARGET`: a user's CSV or Parquet table; `file:PATH.npz`: arrays `x` and `y`.

Paths are relative to the current folder and may hold spaces and colons. Every column that is no target is a feature.
"""

from __future__ import annotations

import functools
import hashlib
import re
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kanstudy.study.datasets.rows import LARGEST, DataError, Rows, Source, check_targets_vary
from kanstudy.study.strict import allowed

if TYPE_CHECKING:
    import pandas as pd

_LEAST_ROWS = 10
_HOLDOUT_EVERY = 5  # every fifth row of an order that does not depend on the seed
_ORDER_SEED = 0

_asked_for: dict[str, str] = {}
"""What was asked for, by the name given to it: a name has no path, so that it is the same wherever the file lies."""


def source(dataset: str) -> Source:
    """The source of a `file:` string, or of a name that this gave before in this process; read once in a process.

    Its name is `file:STEM-HASH` with a hash of the content and the targets. Raises `DataError` where the string does
    not say a file and its targets, and where the file cannot be used: the message names file, column, row and value.
    """
    path, targets = _parse(_asked_for.get(dataset, dataset))
    try:
        path = path.expanduser().absolute()
        stat = path.stat()
        digest = _digest(path, stat.st_mtime_ns, stat.st_size)
        name = _name(path, targets, digest)
        if dataset in _asked_for and name != dataset:
            raise DataError(f"{path}: changed since the plan was made: plan again")
        rows = _read(path, targets, digest)
    except (OSError, RuntimeError) as error:  # also of a home that nobody has
        said = getattr(error, "strerror", None) or _first_line(error)
        raise DataError(f"{path}: cannot be read: {said}") from error
    if name != dataset:
        _asked_for[name] = f"file:{path}:{','.join(targets)}" if targets else f"file:{path}"
    return Source.of_table(name, rows)


def _parse(dataset: str) -> tuple[Path, tuple[str, ...]]:
    """Path and targets (none of an NPZ file)."""
    rest = dataset.partition(":")[2]
    path, colon, targets = rest.rpartition(":")
    if rest.lower().endswith(".npz"):
        return Path(rest), ()
    if path.lower().endswith(".npz"):
        raise DataError(f"dataset {dataset!r}: targets {targets!r}: must be absent, an NPZ file has them as array y")
    if not colon or not path or rest.lower().endswith((".csv", ".parquet")):
        raise DataError(
            f"dataset {dataset!r}: must be file:PATH:TARGET,TARGET for a .csv or .parquet file, or file:PATH.npz"
        )
    if not path.lower().endswith((".csv", ".parquet")):
        raise DataError(f"dataset {dataset!r}: the file {path!r} must end with .csv, .parquet or .npz")
    names = tuple(name.strip() for name in targets.split(","))
    if "" in names or len(set(names)) < len(names):
        raise DataError(f"dataset {dataset!r}: targets {targets!r}: must be distinct names, separated by commas")
    return Path(path), names


@functools.lru_cache(maxsize=16)
def _digest(path: Path, mtime_ns: int, size: int) -> str:
    """SHA-256 of the content; time and size stand for it in the cache."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(path: Path, targets: tuple[str, ...], digest: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", path.stem)[:40]
    return f"file:{stem}-{hashlib.sha256(repr((digest, targets)).encode()).hexdigest()[:8]}"


@functools.lru_cache(maxsize=4)
def _read(path: Path, targets: tuple[str, ...], digest: str) -> Rows:
    """The file's rows, checked and split; a fifth is held out, the same rows whatever the seed."""
    if targets:
        table = _read_table(path)
        _check_count(len(table), path)  # a column without rows has no type
        x, y, features = _columns(table, targets, path)
    else:
        x, y = _read_arrays(path)
        features = tuple(f"x{number}" for number in range(1, x.shape[1] + 1))
        targets = tuple(f"y{number}" for number in range(1, y.shape[1] + 1))
    _check_count(len(x), path)
    _check_values(np.hstack((x, y)), features + targets, path)
    is_held_out = np.random.default_rng(_ORDER_SEED).permutation(len(x)) % _HOLDOUT_EVERY == 0
    rows = Rows(
        x_train=x[~is_held_out],
        y_train=y[~is_held_out],
        x_holdout=x[is_held_out],
        y_holdout=y[is_held_out],
        feature_names=features,
        target_names=targets,
        origin=f"{path.name}, SHA-256 {digest}; held out: a fifth of the rows, the same whatever the seed",
    )
    check_targets_vary(rows, str(path))  # now, not when the point's turn has come
    return rows


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        if path.suffix.lower() == ".parquet":
            table = pd.read_parquet(path)
            if any(name is not None for name in table.index.names):  # an index with a name is a column
                table = table.reset_index()
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # a row longer than the header loses values
                header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False)
                table = pd.read_csv(path, index_col=False, low_memory=False)
            table.columns = header.iloc[0].str.strip()
    except (OSError, ValueError, NotImplementedError, pd.errors.ParserWarning) as error:  # not a table, or not text
        raise DataError(f"{path}: cannot be read as {path.suffix}: {_first_line(error)}") from error
    names = [str(name) for name in table.columns]
    for number, name in enumerate(names, start=1):
        if not name:
            raise DataError(f"{path}: column {number} has no name: must have one (an index column must go)")
        if names.index(name) < number - 1:
            raise DataError(f"{path}: column name {name!r} is there twice: must be distinct")
    table.columns = pd.Index(names)
    return table


def _columns(
    table: pd.DataFrame, targets: tuple[str, ...], path: Path
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Features (n, in), targets (n, out), and the features' names."""
    for target in targets:
        if target not in table.columns:
            raise DataError(f"{path}: no column {target!r} for a target: must be {allowed(target, table.columns)}")
    features = tuple(name for name in table.columns if name not in targets)
    if not features:
        raise DataError(f"{path}: every column is a target ({', '.join(targets)}): must have one more, for a feature")
    columns = {name: _numbers(table[name], name, path) for name in table.columns}
    x = np.column_stack([columns[name] for name in features])
    return x, np.column_stack([columns[name] for name in targets]), features


def _numbers(column: pd.Series, name: str, path: Path) -> np.ndarray:
    """The column as float64; missing values are NaN. True and false are 1 and 0."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    is_number = pd.to_numeric(column.astype(str), errors="coerce").notna()
    wrong = np.flatnonzero(~is_number.to_numpy() & column.notna().to_numpy())
    row = int(wrong[0]) if len(wrong) else 0
    value = str(column.iloc[row])
    raise DataError(f"{path}: column {name!r} must be numbers: row {row + 1} has {value[:40]!r} ({column.dtype})")


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The arrays x (n, in) and y (n, out) or (n,) of an NPZ file as float64."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = file.files
            arrays = {name: file[name] for name in ("x", "y") if name in names}
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as .npz: {_first_line(error)}") from error
    for name in ("x", "y"):
        if name not in arrays:
            raise DataError(f"{path}: no array {name!r}: must have x and y, has {', '.join(names)}")
    x, y = arrays["x"], arrays["y"]
    y = y[:, None] if y.ndim == 1 else y
    for name, array in (("x", x), ("y", y)):
        if array.dtype.kind not in "fiub":
            raise DataError(f"{path}: array {name!r} is of type {array.dtype}: must be real numbers")
        if array.ndim != 2 or array.shape[1] == 0:
            raise DataError(f"{path}: array {name!r} has shape {array.shape}: must be (rows, columns)")
    if len(x) != len(y):
        raise DataError(f"{path}: x has {len(x)} rows and y {len(y)}: must be equally many")
    return x.astype(np.float64), y.astype(np.float64)


def _check_count(count: int, path: Path) -> None:
    if count < _LEAST_ROWS:
        raise DataError(f"{path}: {count} rows: must be at least {_LEAST_ROWS}")


def _check_values(values: np.ndarray, names: tuple[str, ...], path: Path) -> None:
    wrong = ~(np.abs(values) <= LARGEST)
    if not wrong.any():
        return
    row, column = np.argwhere(wrong)[0]
    what = "is missing" if np.isnan(values[row, column]) else f"is {values[row, column]:g}"
    raise DataError(
        f"{path}: column {names[column]!r} {what} in row {row + 1}, "
        f"{wrong.sum()} values of the file are missing, infinite or too large: must be finite, at most {LARGEST:g}"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
