from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_run_spec import make_run
from test_spec import make
from test_wanted import measured

from kanstudy.record import AllReduce, Fault, blank_record
from kanstudy.record_files import read_record, record_from_dict, record_path, write_record
from kanstudy.strict_json import RecordError


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record = measured()
    record.allreduce = [AllReduce(message_bytes=1024, times_s=[0.001, 0.002])]
    record.error = Fault(reason="because", rank=1)
    path = write_record(record, tmp_path)
    assert path == record_path(tmp_path, "strong_scaling", record.point_id)
    assert read_record(path) == record
    assert [file.name for file in path.parent.iterdir()] == [path.name], "a temporary file was left"


def test_what_is_not_finite_becomes_null_and_times_keep_seven_digits(tmp_path: Path) -> None:
    record = measured()
    record.loss_last = float("nan")
    record.loss_first = 0.123456789012
    record.arms["ddp"].rounds[0].rank_step_times_s = [[0.0123456789, 0.2], [0.1, 0.25]]
    again = read_record(write_record(record, tmp_path))
    assert again.loss_last is None
    assert again.loss_first == 0.123456789012
    assert again.arms["ddp"].rounds[0].rank_step_times_s[0][0] == 0.01234568


@given(st.floats(1e-9, 1e3))
def test_rounding_stays_below_a_clock_tick(seconds: float) -> None:
    from kanstudy.strict_json import rounded

    assert rounded(seconds) == pytest.approx(seconds, rel=1e-6)


def test_a_failed_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = measured(rounds=1)
    path = write_record(record, tmp_path)
    before = path.read_bytes()

    def no_space(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_record(measured(rounds=2), tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def damage(change: str) -> dict[str, Any]:
    values = json.loads(json.dumps(dataclasses.asdict(measured())))
    if change == "version":
        values["schema_version"] = 99
    elif change == "unknown":
        values["surprise"] = 1
    elif change == "missing":
        del values["device_name"]
    elif change == "status":
        values["status"] = "fine"
    elif change == "source":
        values["source"] = "guessed"
    elif change == "batch":
        values["local_batch_size"] = 31
    elif change == "pairs":
        values["arms"]["ddp"]["rounds"].pop()
    elif change == "twice":
        for arm in values["arms"].values():
            arm["rounds"][1] = arm["rounds"][0]
    elif change == "ranks":
        values["arms"]["ddp"]["rounds"][0]["rank_step_times_s"].pop()
    elif change == "rounds":
        values["arms"]["ddp"]["rounds"] = {}
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("version", "schema_version 99: this version of kanstudy reads 1"),
        ("unknown", "unknown field 'surprise'"),
        ("missing", "field 'device_name' is missing"),
        ("status", "status 'fine': must be one of ok"),
        ("source", "source 'guessed': must be one of measured"),
        ("batch", "global_batch_size is not"),
        ("pairs", "arms hold different rounds"),
        ("twice", "a round is there twice"),
        ("ranks", "rank_step_times_s: one entry an active rank"),
        ("rounds", r"arms.ddp: rounds = \{\}: must be list"),
    ],
)
def test_a_damaged_record_is_refused_by_name(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / f"{measured().point_id}.json"
    path.write_text(json.dumps(damage(change)))
    with pytest.raises(RecordError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("world_size",), "2", "record: world_size = '2': must be int"),
        (("world_size",), 0, "world_size = 0: must be at least 1"),
        (("local_batch_size",), True, "local_batch_size = True: must be int"),
        (("device_name",), 1, r"device_name = 1: must be str \| None"),
        (("learning_rate",), float("inf"), "learning_rate = inf: must be float"),
        (("scaling",), "both", "scaling 'both': must be one of strong, weak"),
        (("grid_size",), None, "grid_size = None: must be a whole number"),
        (("provenance",), [], r"provenance = \[\]: must be dict"),
        (("provenance",), {"conditions": 2}, "provenance.conditions: must be an object or null"),
        (("error",), "broken", "error: must be an object"),
        (("arms", "ddp", "rounds", 0, "launch"), None, "arms.ddp.rounds: launch = None: must be int"),
        (("arms", "ddp", "rounds", 0, "rank_step_times_s", 0), [1.0, "x"], r"must be list\[list\[float\]\]"),
        (("arms", "ddp", "rounds", 0, "foreign_cpu_share"), [0.0], "foreign_cpu_share: one entry an active rank"),
        (("arms", "ddp", "rounds", 0, "reference_kernel_s"), [0.0, 1.0], "must be above 0 or null"),
        (("arms", "ddp", "rounds", 0, "active_ranks"), [1, 1], "active_ranks .*: must be distinct"),
        (("arms", "ddp", "rounds", 0, "active_ranks"), [0, 2], "must be 2 ranks of the launch at most"),
        (("arms", "ddp", "forward_s"), [[0.1, 0.1], [0.1]], "must be of the same ranks, steps and buckets"),
        (("arms", "allreduce"), {}, "arms.allreduce: must be one of serial_global"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(place: tuple, value: object, message: str) -> None:
    values = json.loads(json.dumps(dataclasses.asdict(measured())))
    parent = values
    for name in place[:-1]:
        parent = parent[name]
    parent[place[-1]] = value
    with pytest.raises(RecordError, match=message):
        record_from_dict(values)


def test_ranks_are_those_of_the_launch_so_a_group_on_two_nodes_may_be_0_and_2(tmp_path: Path) -> None:
    record = measured()
    for arm in record.arms.values():
        for item in arm.rounds:
            item.active_ranks = [0, 2]
    assert read_record(write_record(record, tmp_path)) == record


def test_null_stands_for_a_time_that_is_none() -> None:
    values = json.loads(json.dumps(dataclasses.asdict(measured())))
    values["arms"]["ddp"]["rounds"][0]["rank_step_times_s"][0][0] = None
    assert record_from_dict(values).arms["ddp"].rounds[0].rank_step_times_s[0][0] is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '"text"', "\x80", "1" * 5000, "[" * 100_000])
def test_what_is_no_record_at_all_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError):
        read_record(path)


def test_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    path = write_record(measured(), tmp_path)
    other = path.rename(path.with_name("other.json"))
    with pytest.raises(RecordError, match="does not belong in this file"):
        read_record(other)


def test_every_field_of_a_blank_record_can_be_read_back() -> None:
    point = make()
    record = blank_record(point, make_run(point))
    assert record_from_dict(json.loads(json.dumps(dataclasses.asdict(record)))) == record
    assert record.rounds_planned == 3
    assert record.n_params is None


def test_a_record_over_a_link_is_emulated_and_says_which() -> None:
    record = blank_record(point := make(link="100mbit:1ms"), make_run(point))
    assert (record.source, record.link) == ("emulated", "100mbit:1ms")
    assert (measured().source, measured().link) == ("measured", "")


def test_a_record_from_before_there_were_links_has_none() -> None:
    values = dataclasses.asdict(measured())
    del values["link"]
    assert record_from_dict(values).link == ""
