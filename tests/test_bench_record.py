"""The record of an operator benchmark: written whole, read strictly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.bench_record import (
    Accuracy,
    BenchRecord,
    Cell,
    Memory,
    Timing,
    read_bench,
    record_path,
    shape_of,
    write_bench,
)
from kanstudy.strict_json import RecordError

SHAPE = "4,3,1:8"


def record(**changes: object) -> BenchRecord:
    timing = Timing(status="ok", steps_per_block=2, block_times_s=[0.1, 0.2], places=[0, 1])
    cells = [
        Cell(shape=SHAPE, candidate="floor", timing=timing, memory=Memory(status="ok", peak_bytes=5)),
        Cell(shape=SHAPE, candidate="fused", timing=Timing(status="failed", reason="boom")),
    ]
    values = {
        "profile": None, "seed": 0, "threads": 1, "cores": [0], "rounds_planned": 2, "block_s": 0.05, "shapes": [SHAPE],
        "candidates": {"floor": "floor", "fused": "fused"}, "added": {}, "versions": {}, "cells": cells,
        "accuracy": [
            Accuracy(candidate="floor"), Accuracy(candidate="fused", status="ok", max_errors=[1e-7, 1e-7, 1e-6])
        ],
    }  # fmt: skip
    return BenchRecord(**(values | changes))  # type: ignore[arg-type]


def test_a_record_comes_back_as_it_was(tmp_path):
    written = record()
    assert write_bench(written, tmp_path) == record_path(tmp_path)
    assert read_bench(tmp_path) == written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(schema_version=9), "schema_version 9"),
        (lambda v: v.update(kind="other"), "kind 'other'"),
        (lambda v: v.update(more=1), "unknown field 'more'"),
        (lambda v: v.pop("threads"), "field 'threads' is missing"),
        (lambda v: v["cells"].pop(), "one for each candidate at each shape"),
        (lambda v: v["accuracy"].reverse(), "accuracy: must be one for each candidate"),
        (lambda v: v["cells"][0]["timing"].update(status="good"), "status 'good'"),
        (lambda v: v["cells"][0]["timing"]["places"].pop(), "one entry a block"),
        (
            lambda v: v["cells"][1]["timing"].update(status="ok", block_times_s=[0.1], places=[0], steps_per_block=1),
            "cannot be compared pair by pair",
        ),
    ],
)
def test_what_is_wrong_with_a_record_is_named_with_its_file(tmp_path, change, message):
    path = write_bench(record(), tmp_path)
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(RecordError, match=message) as raised:
        read_bench(tmp_path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_json_is_refused(tmp_path):
    record_path(tmp_path).parent.mkdir()
    record_path(tmp_path).write_text("{")
    with pytest.raises(RecordError, match="not JSON"):
        read_bench(tmp_path)


@given(st.lists(st.integers(1, 9999), min_size=3, max_size=6), st.integers(1, 10**6))
def test_a_shape_survives_its_text(layer_widths, batch_size):
    shape = shape_of(f"{','.join(map(str, layer_widths))}:{batch_size}")
    assert (list(shape.layer_widths), shape.batch_size) == (layer_widths, batch_size)
    assert shape_of(str(shape)) == shape


@pytest.mark.parametrize(
    "text", ["", "64", "64,1", "64,64,1", "64,1:8", "64,0,1:8", "64,x,1:8", "64,8,1:0", "64,8,1:-1"]
)
def test_a_bad_shape_is_named_with_an_example(text):
    with pytest.raises(ValueError, match=r"must be at least three layer widths.*64,64,64,1:1024"):
        shape_of(text)
