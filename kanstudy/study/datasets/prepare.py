"""Data sets: what a data set string stands for, and one cached `.npz` of it that the worker maps.

`synthetic:IN:OUT`, `feynman:NAME` and `flights` need no file; `file:PATH:TARGET,TARGET` is a CSV or Parquet table,
`file:PATH.npz` holds arrays `x` and `y`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kanstudy.files import replacing
from kanstudy.study.datasets import feynman, flights, own_file, synthetic
from kanstudy.study.datasets.rows import DataError, Source, standardise
from kanstudy.study.strict import allowed

__all__ = ["DEFAULT_SAMPLES", "DataError", "DatasetInfo", "describe", "prepare"]

DEFAULT_SAMPLES = 32768
"""Training rows of a drawn data set where none are asked for."""

_VERSION = 1  # of the file and of all recipes: a change makes cached files anew
_MOST_VALUES = 2**31  # float32 values of the training rows, 8 GiB
_ARRAYS = ("x_train", "y_train", "x_holdout", "y_holdout")
_SOURCES: dict[str, Callable[[str], Source]] = {
    "synthetic": synthetic.source,
    "feynman": feynman.source,
    "flights": flights.source,
    "file": own_file.source,
}


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """What a plan needs to know of a data set.

    `name` identifies it: without a path, but different for different content. `n_samples` are rows to train on,
    `n_holdout` rows never trained on, `source` is the string that was asked for, `remarks` what is odd about the rows.
    """

    name: str
    n_features: int
    n_targets: int
    n_samples: int
    n_holdout: int
    source: str
    remarks: tuple[str, ...] = ()


def describe(dataset: str, n_samples: int | None = None, seed: int = 0) -> DatasetInfo:
    """Say what a data set is, reading a file (once in a process) but drawing nothing.

    `n_samples` training rows are wanted, None takes all there are, of drawn data `DEFAULT_SAMPLES`. Raises
    `DataError` where the string, the file or the number of rows cannot be used.
    """
    return _described(_source(dataset), dataset, n_samples, seed)


def prepare(dataset: str, n_samples: int | None, seed: int, cache_dir: Path) -> Path:
    """Make the data set's file in `cache_dir`, or find it there; `dataset` may be the name that `describe` gave.

    The file is an uncompressed `.npz`: `x_train` (n, features), `y_train` (n, targets), `x_holdout`, `y_holdout`,
    standardised float32 in C order, and `meta`, a JSON text: names, scales, rows dropped and why, the formula or
    source. It appears under its name only when complete, also where two processes make it at once. By the name that
    `describe` gave it is found in any process, such as a job's, which does not know where a user's file lies.

    Raises `DataError` as `describe` does, for data that cannot be standardised, and where the file cannot be written.
    """
    path, identity = _cached(dataset, n_samples, seed, cache_dir)
    if _is_cached(path, identity):
        return path
    source = _source(dataset)
    info = _described(source, dataset, n_samples, seed)
    path, identity = _cached(info.name, info.n_samples, seed, cache_dir)
    if not _is_cached(path, identity):
        rows = source.rows(info.n_samples, seed)
        arrays, scales = standardise(rows, info.name)
        meta = identity | {
            "feature_names": rows.feature_names,
            "target_names": rows.target_names,
            "origin": rows.origin,
            "dropped": rows.dropped,
        }
        _write(path, arrays, meta | scales)
    return path


def _source(dataset: str) -> Source:
    kind = dataset.partition(":")[0]
    if kind not in _SOURCES:
        raise DataError(f"dataset {dataset!r}: must be {allowed(kind, _SOURCES)}")
    return _SOURCES[kind](dataset)


def _described(source: Source, dataset: str, n_samples: int | None, seed: int) -> DatasetInfo:
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"dataset {dataset!r}: seed = {seed!r}: must be a whole number >= 0")
    if n_samples is None:
        n_samples = DEFAULT_SAMPLES if source.n_available is None else source.n_available
    most = _MOST_VALUES // (source.n_features + source.n_targets)
    if source.n_available is not None:
        most = min(most, source.n_available)
    if not isinstance(n_samples, int) or isinstance(n_samples, bool) or not 2 <= n_samples <= most:
        held_out = f" ({source.n_holdout} more are held out)" if source.n_available is not None else ""
        raise DataError(
            f"dataset {dataset!r}: n_samples = {n_samples!r}: must be a whole number of training rows "
            f"from 2 to {most}{held_out}"
        )
    return DatasetInfo(
        name=source.name,
        n_features=source.n_features,
        n_targets=source.n_targets,
        n_samples=n_samples,
        n_holdout=source.n_holdout,
        source=dataset,
        remarks=source.remarks,
    )


def _cached(name: str, n_samples: int | None, seed: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Where the file of a data set of this name lies, and what of its description makes it that one."""
    slug = re.sub(r"[^\w.-]+", "-", name)
    path = folder / f"{slug}-n{n_samples}-s{seed}-v{_VERSION}.npz"
    return path, {"version": _VERSION, "dataset": name, "n_samples": n_samples, "seed": seed}


def _is_cached(path: Path, identity: dict[str, Any]) -> bool:
    """Whether the file is there, whole, and holds this; anything else is made anew."""
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            return set(file.files) == {*_ARRAYS, "meta"} and identity.items() <= meta.items()
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        return False


def _write(path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    contents: dict[str, Any] = {**arrays, "meta": np.array(json.dumps(meta))}
    try:
        with replacing(path) as file:
            np.savez(file, **contents)
    except OSError as error:
        raise DataError(f"data set file {path}: cannot be written: {error.strerror}") from error
