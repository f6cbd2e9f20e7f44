from __future__ import annotations

import pytest

from kanstudy.bench_record import DEFAULT_SHAPES, OPERATORS, PEERS
from kanstudy.study import bench_plan
from kanstudy.study.bench_plan import plan_bench


def test_without_choice_everything_is_measured_and_peers_only_if_wanted():
    assert plan_bench().shapes == DEFAULT_SHAPES
    assert plan_bench().candidates == (*OPERATORS, *PEERS)
    assert plan_bench(peers=False, added={"own": "x.py:X"}).candidates == (*OPERATORS, "own")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shapes": ["64,1:5"]}, "at least three layer widths"),
        ({"operators": ["fusd"]}, "operator 'fusd': must be one of floor, fused"),
        ({"threads": 4096}, "threads = 4096: must be from 1 to"),
        ({"rounds": 0}, "rounds = 0"),
    ],
)
def test_a_bad_plan_names_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_bench(**arguments)


def test_a_peer_that_is_asked_for_by_name_must_be_there(monkeypatch):
    monkeypatch.setattr(bench_plan, "is_installed", lambda name: False)
    with pytest.raises(ValueError, match=r"operator 'inkan': is not installed: pip install 'kanstudy\[peers\]'"):
        plan_bench(operators=["inkan"])
