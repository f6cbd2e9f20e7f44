from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fabricate import empty_arms, make_point, make_record

from kanstudy.analysis import results
from kanstudy.record import Fault, Record
from kanstudy.record_files import write_record


def write_plan(folder: Path, records: list[Record], missing: int = 0) -> None:
    points = {record.point_id: {"world_size": record.world_size} for record in records}
    for number in range(missing):
        point = make_point(world_size=16, global_batch_size=16 * (number + 1), n_samples=100_000)
        points[point.point_id] = dataclasses.asdict(point)
    plan = {"experiment": "strong_scaling", "profile": "test", "launches": 1, "note": "", "points": points}
    plan["rounds"] = dict.fromkeys(points, 12)
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "plans" / "strong_scaling.json").write_text(json.dumps(plan))


def test_records_come_back_in_the_order_of_world_size(tmp_path: Path) -> None:
    records = [make_record(world_size=p) for p in (8, 1, 2)]
    for record in [*records, make_record(experiment="weak_scaling", scaling="weak")]:
        write_record(record, tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.json").write_text("{}")
    found = results.load(tmp_path, "strong_scaling")
    assert [record.world_size for record in found.records] == [1, 2, 8]
    assert results.experiments(tmp_path) == ["strong_scaling", "weak_scaling"]
    assert len(results.load(tmp_path).records) == 4
    assert found.problems.empty
    assert results.load(tmp_path, "model_size_scaling").records == []
    with pytest.raises(results.ResultsError, match=r"results_dir = .*nowhere.*folder that exists"):
        results.load(tmp_path / "nowhere")


def test_files_that_are_no_records_are_listed_with_the_reason(tmp_path: Path) -> None:
    folder = write_record(make_record(), tmp_path).parent
    (folder / "cut.json").write_text('{"schema_version": 1, "poi')
    (folder / "foreign.json").write_text('{"answer": 42}')
    (folder / "renamed.json").write_text((folder / f"{make_record().point_id}.json").read_text())
    (tmp_path / "weak_scaling").mkdir()
    moved = tmp_path / "weak_scaling" / f"{make_record().point_id}.json"
    moved.write_text((folder / f"{make_record().point_id}.json").read_text())
    found = results.load(tmp_path)
    assert len(found.records) == 1
    reasons = dict(zip(found.problems["path"], found.problems["reason"], strict=True))
    assert len(reasons) == 4
    assert "not JSON" in reasons["strong_scaling/cut.json"]
    assert "schema_version" in reasons["strong_scaling/foreign.json"]
    assert "does not belong in this file" in reasons["strong_scaling/renamed.json"]
    assert "does not belong in this folder" in reasons[f"weak_scaling/{moved.name}"]


def test_two_records_of_one_series_and_world_size_are_an_error(tmp_path: Path) -> None:
    first, second = make_record(), make_record(phase_steps=11)
    assert first.point_id != second.point_id
    write_record(first, tmp_path)
    write_record(second, tmp_path)
    with pytest.raises(results.ResultsError) as caught:
        results.load(tmp_path)
    assert first.point_id in str(caught.value)
    assert second.point_id in str(caught.value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"device_name": "another GPU"}, "on another GPU"),
        ({"source": "simulated"}, ", simulated"),
        ({"dtype": "float64"}, "dtype float64"),
        ({"model": "mlp"}, "MLP"),
        ({"dataset": "flights"}, "flights"),
        ({"layer_widths": (32, 16, 1)}, "widths 32-16-1"),
        ({"global_batch_size": 4096}, "batch 4096"),
        ({"block_s": 2.0}, "block s 2"),
    ],
)
def test_what_must_not_be_averaged_is_another_series(change: dict, word: str) -> None:
    frame = results.points([make_record(world_size=1), make_record(), make_record(**change)])
    assert frame["series"].nunique() == 2
    assert frame["series"].iloc[0] == frame["series"].iloc[1]
    assert word in frame["series"].iloc[2]


def test_a_launch_that_died_before_it_saw_its_hardware_belongs_to_the_series() -> None:
    failed = empty_arms(make_record(world_size=8, status="failed", device_name=None, error=Fault(reason="killed")))
    frame = results.points([make_record(), failed])
    assert frame["series"].nunique() == 1
    assert frame["reason"].tolist() == ["", "failed: killed"]
    assert frame["n_rounds"].tolist() == [12, 0]


def test_every_planned_point_and_every_file_is_in_the_account(tmp_path: Path) -> None:
    done, short = make_record(world_size=1), make_record(world_size=2, rounds=5)
    nan = empty_arms(make_record(world_size=4, status="nan", error=Fault(reason="loss is NaN", step=7, arm="ddp")))
    partial = make_record(world_size=8, rounds=3, status="partial")
    for record in (done, short, nan, partial):
        write_record(record, tmp_path)
    write_plan(tmp_path, [done, short, nan], missing=1)
    (tmp_path / "strong_scaling" / "broken.json").write_text("{")
    (tmp_path / "plans" / "weak_scaling.json").write_text("[]")
    frame = results.planned_versus_done(tmp_path).set_index("point_id")
    assert frame["status"].tolist() == ["ok", "partial", "nan", "missing", "unreadable", "partial", "unreadable"]
    assert frame["rounds_done"].tolist() == [12, 5, 0, 0, 0, 3, 0]
    assert frame["rounds_planned"].tolist()[:4] == [12, 12, 12, 12]
    assert frame.loc[nan.point_id, "reason"] == "nan: loss is NaN (arm ddp, step 7)"
    assert "in no plan" in frame.loc[partial.point_id, "reason"]
    assert "not JSON" in frame.loc["broken", "reason"]
    assert "not a plan" in frame.loc["plans/weak_scaling.json", "reason"]


def test_an_empty_folder_is_an_empty_account(tmp_path: Path) -> None:
    assert results.planned_versus_done(tmp_path).empty
    assert results.load(tmp_path).points.empty


def test_records_stand_in_the_order_of_their_plan(tmp_path: Path) -> None:
    records = [make_record(global_batch_size=batch) for batch in (512, 1024, 2048, 256)]
    for record in records:
        write_record(record, tmp_path)
    (tmp_path / "plans").mkdir()
    points = {record.point_id: {"world_size": record.world_size} for record in records[:3]}
    plan = {"experiment": "strong_scaling", "launches": 1, "points": points, "rounds": dict.fromkeys(points, 2)}
    (tmp_path / "plans" / "strong_scaling.json").write_text(json.dumps(plan))
    assert [record.point_id for record in results.load(tmp_path).records] == [record.point_id for record in records]
