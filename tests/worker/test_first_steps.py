"""Who compiles, and when: two real ranks with empty caches."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_point

from kanstudy.record_files import read_record, record_path
from kanstudy.spec import PointSpec
from kanstudy.worker.first_steps import _one_a_host

Torchrun = Callable[..., subprocess.CompletedProcess[str]]
COMPARED = ("serial_global", "ddp_noop", "ddp")


def operator_point(operator: str, **changes: Any) -> PointSpec:
    return tiny_point(experiment="operator_scaling", operator=operator, arms=COMPARED, **changes)


@pytest.fixture
def watched(torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Measure points on two ranks whose caches are empty; what each rank compiled."""

    def run(*points: PointSpec) -> list[dict[str, Any]]:
        script = str(Path(__file__).parent / "compile_watch.py")
        caches = {
            "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        }
        path = plan(*points, rounds=1, experiment="operator_scaling")
        done = torchrun(script, str(tmp_path), str(path), **caches)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]

    return run


def in_turn(ranks: list[dict[str, Any]]) -> bool:
    """Whether no two ranks took their first steps at the same time."""
    spans = sorted(span for rank in ranks for span in rank["times"])
    return all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_one_rank_of_each_host_goes_first() -> None:
    hosts = ["a", "a", "b", "b", "a"]
    assert _one_a_host(hosts, (0, 1, 2, 3, 4)) == ((0, 2), (1, 3, 4))
    assert _one_a_host(hosts, (1, 3)) == ((1, 3), ())
    assert _one_a_host(["a"], (0,)) == ((0,), ())


def test_operators_are_measured_end_to_end_and_one_rank_compiles(
    watched: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    points = [operator_point(name) for name in ("reference", "fused")]
    ranks = watched(*points)
    records = [read_record(record_path(tmp_path / "results", p.experiment, p.point_id)) for p in points]
    assert [(r.operator, r.status, r.rounds_of_launch(0)) for r in records] == [
        ("reference", "ok", 1),
        ("fused", "ok", 1),
    ]
    assert records[0].conditions != records[1].conditions
    assert records[1].loss_last == pytest.approx(records[0].loss_last, rel=1e-4)
    assert [len(rank["times"]) for rank in ranks] == [1, 1], "the reference has nothing to compile"
    assert in_turn(ranks)
    assert ranks[0]["first_steps"]["numba"] > 0
    assert ranks[1]["first_steps"].get("numba", 0) == 0, "rank 1 takes the kernels from the cache"
    assert [rank["rest"] for rank in ranks] == [{}, {}]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_torch_compiles_on_one_rank_and_before_anything_is_timed(watched: Callable[..., list[dict[str, Any]]]) -> None:
    ranks = watched(operator_point("compiled"), operator_point("compiled", layer_widths=(3, 5, 4, 2)))
    assert [len(rank["times"]) for rank in ranks] == [2, 2]
    assert in_turn(ranks)
    assert ranks[0]["first_steps"]["missed"] > 0
    assert ranks[1]["first_steps"]["traced"] == ranks[0]["first_steps"]["traced"]
    assert ranks[1]["first_steps"].get("missed", 0) == 0, "rank 1 takes the code from the cache"
    assert [rank["rest"] for rank in ranks] == [{}, {}]
