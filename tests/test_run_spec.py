from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_spec import make

from kanstudy.run_spec import RunSpec, data_key, run_spec_from_json, to_json
from kanstudy.spec import PointSpec, SpecError, point_from_dict


def make_run(*points: PointSpec, **changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "profile": "tiny",
        "experiment": "strong_scaling",
        "points": points,
        "data_files": {data_key(point): "data.npz" for point in points},
        "results_dir": "results",
        "progress_file": "progress.jsonl",
        "rounds": {point.point_id: 3 for point in points},
    }
    return RunSpec(**(values | changes))


@given(
    world_size=st.sampled_from([1, 2, 4]),
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    learning_rate=st.floats(1e-6, 1.0),
    caps=st.floats(0.01, 100),
    sizes=st.lists(st.integers(1, 1 << 30), max_size=3),
)
def test_a_plan_survives_its_file(
    world_size: int, widths: list[int], learning_rate: float, caps: float, sizes: list[int]
) -> None:
    point = make(
        world_size=world_size,
        layer_widths=widths,
        learning_rate=learning_rate,
        bucket_cap_mb=caps,
        allreduce_bytes=sizes,
    )
    run = make_run(point, make(seed=3))
    again = run_spec_from_json(to_json(run))
    assert again == run
    assert [p.point_id for p in again.points] == [p.point_id for p in run.points]
    assert again.world_size == max(2, world_size)
    assert point_from_dict(json.loads(to_json(point))) == point


def test_a_plan_is_read_strictly() -> None:
    text = to_json(make_run(make()))
    for bad, message in [
        ("{", "not JSON"),
        ("[]", "a list of points"),
        (text.replace('"launches"', '"launchs"'), "unknown field 'launchs'"),
        (text.replace('"seed"', '"sead"'), "unknown field 'sead'"),
        (text.replace('"backend": "gloo"', '"backend": "mpi"'), "one of gloo, nccl"),
    ]:
        with pytest.raises(SpecError, match=message):
            run_spec_from_json(bad)
    without = json.loads(text)
    del without["points"][0]["dataset"]
    with pytest.raises(SpecError, match="dataset"):
        run_spec_from_json(json.dumps(without))


def test_a_plan_needs_distinct_points_with_rounds_and_data() -> None:
    point = make()
    with pytest.raises(SpecError, match="points"):
        make_run(point, point)
    with pytest.raises(SpecError, match="rounds"):
        make_run(point, rounds={})
    with pytest.raises(SpecError, match="data_files"):
        make_run(point, data_files={})
    assert dataclasses.replace(make_run(point, make(world_size=4))).world_size == 4


def test_one_launch_has_one_link():
    with pytest.raises(SpecError, match=r"points = \['', '100mbit:1ms'\]: must be all of the same link"):
        make_run(make(), make(link="100mbit:1ms"))
    assert make_run(make(link="100mbit:1ms")).link == "100mbit:1ms"


def test_links_are_emulated_between_cpus_alone():
    with pytest.raises(SpecError, match="device = 'cuda': must be cpu where the link is emulated"):
        make_run(make(link="100mbit:1ms"), device="cuda", backend="nccl")
