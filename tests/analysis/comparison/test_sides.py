"""Which points of two results are the same work, and what is said of the others."""

from __future__ import annotations

import pytest
from fabricate import make_record

from kanstudy.analysis.comparison.sides import Side, pairs

FEW = {"rounds": 1}


def sides(a: list, b: list) -> tuple[Side, Side]:
    return Side("A", "here", a), Side("B", "there", b)


def test_the_machine_the_source_and_the_seed_may_differ() -> None:
    here = make_record(**FEW)
    there = make_record(**FEW, device_name="another CPU", source="simulated", seed=3, learning_rate=0.1, block_s=0.5)
    a, b = sides([here], [there])
    found, alone = pairs(a, b)
    assert [(pair.a, pair.b) for pair in found] == [(here, there)]
    assert alone.empty
    assert (a.title, b.title) == ("A: here (measured)", "B: there (simulated)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"global_batch_size": 1024}, "global batch size 2048 here, 1024 there"),
        ({"layer_widths": (32, 16, 1)}, "layer widths 32-64-64-1 here, 32-16-1 there"),
        ({"world_size": 4}, "world size 2 here, 4 there"),
        ({"dataset": "flights"}, "dataset synthetic:32:1 here, flights there"),
        ({"bucket_cap_mb": 1.0}, "bucket cap mb 25 here, 1 there"),
        ({"model": "mlp"}, "model kan here, mlp there"),
    ],
)
def test_other_work_is_not_compared_and_says_what_differs(change: dict, said: str) -> None:
    here, there = make_record(**FEW), make_record(**FEW, **change)
    found, alone = pairs(*sides([here], [there]))
    assert found == []
    assert list(alone["side"]) == ["A", "B"]
    assert alone["reason"].iloc[0] == f"the nearest in B is {there.point_id}: {said}"


def test_an_experiment_that_only_one_has_says_so() -> None:
    weak = make_record(**FEW, experiment="weak_scaling", scaling="weak")
    _, alone = pairs(*sides([make_record(**FEW)], [weak]))
    assert list(alone["reason"]) == ["B has no point of strong_scaling", "A has no point of weak_scaling"]


def test_another_operator_is_a_partner_only_where_there_is_no_better_one() -> None:
    reference, fused = make_record(**FEW, operator="reference"), make_record(**FEW, operator="fused")
    (pair,), alone = pairs(*sides([reference], [fused]))
    assert pair.note == "operator reference in A, fused in B"
    assert alone.empty
    both = make_record(**FEW, operator="reference", seed=1)
    (pair,), alone = pairs(*sides([reference], [fused, both]))
    assert (pair.b, pair.note) == (both, "")
    assert list(alone["point_id"]) == [fused.point_id]


def test_of_several_points_of_one_work_those_of_one_name_belong_together() -> None:
    a = [make_record(**FEW, seed=seed) for seed in (0, 1)]
    found, alone = pairs(*sides(a, a[::-1]))
    assert [(pair.a, pair.b) for pair in found] == [(a[0], a[0]), (a[1], a[1])]
    assert alone.empty
    found, alone = pairs(*sides(a, [make_record(**FEW, seed=2)]))
    assert found == []
    assert len(alone) == 3
    assert alone["reason"].str.contains("several points are this work").all()


def test_series_are_named_by_their_work_alone() -> None:
    weak = {"experiment": "weak_scaling", "scaling": "weak", **FEW}
    sizes = [make_record(**weak, world_size=p, global_batch_size=512 * p) for p in (1, 2, 4)]
    found, _ = pairs(*sides(sizes, sizes))
    assert {pair.series for pair in found} == {"KAN synthetic:32:1"}
