"""`file:PATH:TARGET,TARGET`: a user's CSV or Parquet table; `file:PATH.npz`: arrays `x` and `y`.

Paths are relative to the current folder and may hold spaces and colons. Every column that is no target is a feature. A
target whose name holds a comma is written in quotes, as in a CSV file.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import os
import re
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from kanstudy.study.datasets.remarks import remarks
from kanstudy.study.datasets.rows import DataError, Rows, Source, check_targets_vary
from kanstudy.study.datasets.table import check_values, columns_of, first_line, read_table

_LEAST_ROWS = 10
_HOLDOUT_EVERY = 5  # every fifth row of an order that does not depend on the seed
_ORDER_SEED = 0
_TABLE = re.compile(r"(?P<path>.*?[^/]\.(csv|parquet))(:(?P<targets>.*))?", re.IGNORECASE | re.DOTALL)
"""The path ends where its ending comes first, so that names of targets may hold colons."""

_asked_for: dict[str, tuple[Path, tuple[str, ...]]] = {}
"""Path and targets by the name given to them: a name has no path, so that it is the same wherever the file lies."""


def source(dataset: str) -> Source:
    """The source of a `file:` string, or of a name that this gave before in this process; read once in a process.

    Its name is `file:STEM-HASH` with a hash of the content and the targets. Raises `DataError` where the string does
    not say a file and its targets, and where the file cannot be used: the message names file, column, row and value.
    """
    path, targets = _asked_for.get(dataset) or _parse(dataset)
    try:
        stat = path.stat()
        digest = _digest(path, stat.st_mtime_ns, stat.st_size)
        name = _name(path, targets, digest)
        if dataset in _asked_for and name != dataset:
            raise DataError(f"{path}: changed since the plan was made: plan again")
        rows = _read(path, targets, digest)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or first_line(error)}") from error
    _asked_for[name] = path, targets
    return Source.of_table(name, rows)


def _parse(dataset: str) -> tuple[Path, tuple[str, ...]]:
    """Absolute path and targets (none of an NPZ file)."""
    rest = dataset.partition(":")[2]
    if rest.lower().endswith(".npz"):
        return _absolute(rest), ()
    before, colon, after = rest.rpartition(":")
    if before.lower().endswith(".npz"):
        raise DataError(f"dataset {dataset!r}: targets {after!r}: must be absent, an NPZ file has them as array y")
    found = _TABLE.fullmatch(rest)
    if found is None and colon and before:
        raise DataError(f"dataset {dataset!r}: the file {before!r} must end with .csv, .parquet or .npz")
    if found is None or found["targets"] is None:
        raise DataError(
            f"dataset {dataset!r}: must be file:PATH:TARGET,TARGET for a .csv or .parquet file, or file:PATH.npz"
        )
    try:
        names = [name.strip() for name in next(csv.reader([found["targets"]], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        names = []
    if not names or "" in names or len(set(names)) < len(names):
        raise DataError(
            f"dataset {dataset!r}: targets {found['targets']!r}: must be distinct names, separated by commas, in quotes"
            " where they hold one"
        )
    return _absolute(found["path"]), tuple(names)


def _absolute(path: str) -> Path:
    return Path(os.path.expanduser(path)).absolute()


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
        table = read_table(path)
        _check_count(len(table), path)  # a column without rows has no type
        x, y, features = columns_of(table, targets, path)
        del table
    else:
        x, y = _read_arrays(path)
        _check_count(len(x), path)
        features = tuple(f"x{number}" for number in range(1, x.shape[1] + 1))
        targets = tuple(f"y{number}" for number in range(1, y.shape[1] + 1))
        check_values([*zip(features, x.T, strict=True), *zip(targets, y.T, strict=True)], path)
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
    return replace(rows, remarks=tuple(f"{path.name}: {remark}" for remark in remarks(rows)))


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The arrays x (n, in) and y (n, out) or (n,) of an NPZ file as float64."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = file.files
            arrays = {name: file[name] for name in ("x", "y") if name in names}
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as .npz: {first_line(error)}") from error
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
