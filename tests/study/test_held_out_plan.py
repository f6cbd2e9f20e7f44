from __future__ import annotations

import dataclasses

import pytest

from kanstudy.spec import ARMS
from kanstudy.study import held_out
from kanstudy.study.profile import load_profile
from kanstudy.study.strict import ProfileError

LAPTOP = dataclasses.replace(load_profile("laptop"))


def test_nothing_that_is_held_out_is_calibrated_or_learned_from():
    plan = held_out.held_out_plan(LAPTOP)
    calibrated, learned = held_out.calibration_plan(LAPTOP).points, held_out.links_plan(LAPTOP)
    for name in ("layer_widths", "point_id"):
        assert not {getattr(p, name) for p in plan.points} & {getattr(p, name) for p in (*calibrated, *learned.points)}
    assert not set(plan.links) & set(learned.links)
    assert all(point.arms == ARMS and point.world_size == 2 for point in plan.points)
    assert len(plan.links) >= 5
    assert "" in plan.links
    assert learned.points[0].allreduce_bytes


def test_more_ranks_than_cores_only_exchange_messages():
    plan = held_out.more_ranks_plan(LAPTOP, ["", "75mbit:1.5ms"])
    [point] = plan.points
    assert (point.world_size, point.link, point.arms) == (4, "75mbit:1.5ms", ("ddp_noop",))
    assert not set(point.allreduce_bytes) & set(held_out.ALLREDUCE_BYTES)


def test_the_first_two_settings_are_measured_over_each_link():
    plan = held_out.held_out_plan(
        LAPTOP, ["72,72:384:0.1", "20,20:64:25", "50,60:128:1"], ["75mbit:1.5ms"], rounds=2, launches=4
    )
    assert [(p.layer_widths[1:-1], p.global_batch_size, p.bucket_cap_mb, p.link) for p in plan.points] == [
        ((72, 72), 384, 0.1, ""),
        ((20, 20), 64, 25.0, ""),
        ((50, 60), 128, 1.0, ""),
        ((72, 72), 384, 0.1, "75mbit:1.5ms"),
        ((20, 20), 64, 25.0, "75mbit:1.5ms"),
    ]
    assert set(plan.rounds.values()) == {2}
    assert plan.launches == 4
    assert held_out.held_out_plan(LAPTOP, links=()).links == ("",)


@pytest.mark.parametrize(
    ("settings", "links", "message"),
    [
        (["64,64:256:25"], [], "held-out widths 64,64: are calibrated in"),
        (["72,72:256"], [], "setting '72,72:256': must be HIDDEN,WIDTHS:GLOBAL_BATCH:BUCKET_MB"),
        (["72,72:255:25"], [], "held-out setting: global_batch_size = 255: must be divisible by the world size 2"),
        (["72,72:256:0"], [], r"held-out setting: bucket_cap_mb = 0.0: must be a number > 0"),
        (held_out.SETTINGS, ["fast"], "link 'fast': must be RATEmbit:LATENCYms"),
        (held_out.SETTINGS, [held_out.TRAINING_LINKS[0]], "is one of those to learn from"),
    ],
)
def test_what_cannot_be_held_out_is_refused_by_name(settings, links, message):
    with pytest.raises(ProfileError, match=message):
        held_out.held_out_plan(LAPTOP, settings, links)


def test_one_rank_holds_out_nothing():
    alone = dataclasses.replace(LAPTOP, machine=dataclasses.replace(LAPTOP.machine, world_sizes=(1,)))
    with pytest.raises(ProfileError, match="must have 2 ranks or more, or nothing communicates"):
        held_out.held_out_plan(alone)
