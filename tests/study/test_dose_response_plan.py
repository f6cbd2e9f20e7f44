"""The plan of the dose-response is the same under every profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanstudy.injection import OWN_FACTOR, parse
from kanstudy.spec import ARMS
from kanstudy.study import dose_response
from kanstudy.study.places import project_root
from kanstudy.study.profile import ProfileError


def test_every_cause_at_every_dose_and_once_nothing() -> None:
    plan = dose_response.plan()
    plain, *others = plan.points
    assert plain.injection == ""
    found = [parse(point.injection) for point in others]
    assert [item.cause for item in found] == [cause for cause in OWN_FACTOR for _ in range(3)]
    assert all(len({item.dose for item in found if item.cause == cause}) == 3 for cause in OWN_FACTOR)
    assert len({point.point_id for point in plan.points}) == len(plan.points)
    assert set(plan.rounds.values()) == {dose_response.ROUNDS}
    for point in plan.points:
        assert (point.world_size, point.arms, point.comm_hook) == (2, ARMS, "allreduce")
    assert plan.world_size == 2


def test_the_quick_plan_is_shorter_and_some_causes_are_fewer() -> None:
    whole, quick = dose_response.plan(), dose_response.plan(quick=True)
    assert len(quick.points) == 1 + len(OWN_FACTOR)
    assert quick.estimated_s() < whole.estimated_s() / 2
    some = dose_response.plan(("jitter",), rounds=3)
    assert [point.injection.partition(":")[0] for point in some.points] == ["", *["jitter"] * 3]
    assert set(some.rounds.values()) == {3}


def test_bad_input_is_named() -> None:
    with pytest.raises(ProfileError, match=r"cause 'jiter': must be one of .*did you mean 'jitter'"):
        dose_response.plan(("jiter",))
    with pytest.raises(ProfileError, match="rounds = -1: must be a whole number >= 0"):
        dose_response.plan(rounds=-1)


def test_records_of_the_folder_come_before_the_reference(tmp_path: Path) -> None:
    reference = project_root() / "results" / "reference" / "laptop" / "bench" / "attribution"
    assert dose_response.folder(tmp_path) == reference
    (tmp_path / "bench" / "attribution").mkdir(parents=True)
    assert dose_response.folder(tmp_path) == tmp_path / "bench" / "attribution"
