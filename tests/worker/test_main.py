from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tiny import tiny_point

from kanstudy.machine import core_order
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.worker.__main__ import pin


def make_run(**changes: object) -> RunSpec:
    point = tiny_point()
    return RunSpec(
        profile="tiny",
        experiment="strong_scaling",
        points=(point,),
        data_files={data_key(point): "x.npz"},
        results_dir="r",
        progress_file="p",
        rounds={point.point_id: 1},
        **changes,  # type: ignore[arg-type]
    )


@pytest.fixture
def affinity() -> Iterator[set[int]]:
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
@pytest.mark.parametrize("local_rank", [0, 1])
def test_each_rank_gets_cores_of_its_own(affinity: set[int], monkeypatch: pytest.MonkeyPatch, local_rank: int) -> None:
    order = core_order()
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    cores = pin(make_run())
    assert cores == (order[local_rank % len(order)],)
    assert os.sched_getaffinity(0) == set(cores)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
def test_cores_that_the_launcher_gave_are_kept(affinity: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    os.sched_setaffinity(0, {max(affinity)})
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert pin(make_run()) == (max(affinity),)
    assert os.sched_getaffinity(0) == {max(affinity)}


def test_without_pinning_nothing_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    assert pin(make_run(pin=False)) is None
    if before is not None:
        assert os.sched_getaffinity(0) == before
