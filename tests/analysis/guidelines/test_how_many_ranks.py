from __future__ import annotations

import pytest
from fabricate import make_record

from kanstudy.analysis import estimates
from kanstudy.analysis.guidelines.ranks import TOPOLOGY, topology


def laid(packed_s: float, spread_s: float, **changes: object) -> list:
    """The same work packed and spread, with these serial times; everything else in proportion."""
    shared = {"world_size": 4, "noise": 0.003} | changes
    return [
        make_record(placement="packed", t1=packed_s, **shared),
        make_record(placement="spread", t1=spread_s, noise_seed=1, **shared),
    ]


@pytest.mark.parametrize(("packed_s", "spread_s", "better"), [(0.08, 0.06, "spread"), (0.06, 0.08, "packed")])
def test_the_placement_with_the_shorter_step_is_named_with_both_numbers(
    packed_s: float, spread_s: float, better: str
) -> None:
    records = laid(packed_s, spread_s)
    (found,) = topology(estimates.strong(records))
    assert found["told"]
    assert found["topic"] == TOPOLOGY
    assert f"4 ranks, global batch 2048: the step is shortest with {better}: {better} " in found["sentence"]
    assert set(found["point_ids"].split()) == {record.point_id for record in records}


def test_placements_that_overlap_cannot_be_told_apart() -> None:
    (found,) = topology(estimates.strong(laid(0.08, 0.0801, noise=0.05)))
    assert not found["told"]
    assert "cannot be told: the steps' times overlap" in found["sentence"]


def test_each_world_size_is_its_own_comparison() -> None:
    records = [*laid(0.08, 0.06, world_size=2), *laid(0.06, 0.08, world_size=4)]
    found = list(topology(estimates.strong(records)))
    assert ["with spread" in row["sentence"] for row in found] == [True, False]


@pytest.mark.parametrize("other", [{"device_name": "another"}, {"source": "simulated"}, {"global_batch_size": 4096}])
def test_one_placement_or_other_work_says_nothing(other: dict) -> None:
    packed, spread = laid(0.08, 0.06)
    assert not list(topology(estimates.strong([packed])))
    elsewhere = make_record(placement="spread", world_size=4, noise=0.003, t1=0.06, **other)
    assert not list(topology(estimates.strong([packed, elsewhere])))
    assert not list(topology(estimates.strong([])))
    assert list(topology(estimates.strong([packed, spread])))
