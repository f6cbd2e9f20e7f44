"""A curve never joins two sets of nodes, and flags of a job are told."""

from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis import captions
from kanstudy.analysis.nodes import cautions, flags, node_set
from kanstudy.analysis.series import series_labels
from kanstudy.record import Record

FLAG = "NCCL went over NET/Socket although there is InfiniBand"


def on(nodes: list[str], hosts: list[str], **changes) -> Record:
    """A record of a launch on `nodes`, whose own ranks lay on `hosts`."""
    record = make_record(world_size=len(hosts), rounds=6, **changes)
    record.provenance = {"node_set": nodes, "conditions": {"hosts": hosts, "ranks": hosts}}
    return record


def test_groups_of_one_launch_are_one_curve() -> None:
    records = [on(["a", "b"], hosts) for hosts in (["a"], ["a", "a"], ["a", "a", "b", "b"])]
    assert len(set(series_labels(records))) == 1
    assert cautions(records) == []


def test_other_nodes_are_another_curve_and_said_to_be() -> None:
    records = [on(["a", "b"], ["a"]), on(["a", "b"], ["a", "a"]), on(["c", "d"], ["c", "c", "d", "d"])]
    labels = series_labels(records)
    assert labels[0] == labels[1] != labels[2]
    assert labels[2].endswith("nodes c d")
    text = captions.caption(records)
    assert "Points lie on different nodes (a b / c d); a curve joins those of the same nodes alone" in text


def test_one_shared_node_does_not_make_two_allocations_one() -> None:
    records = [on(["a", "b"], ["a"]), on(["a", "c"], ["a", "a", "c", "c"])]
    assert len(set(series_labels(records))) == 2


def test_a_launch_that_failed_before_it_saw_its_nodes_is_of_the_others() -> None:
    failed = make_record(world_size=4, rounds=0, status="failed")
    failed.conditions, failed.device_name = None, None
    assert len(set(series_labels([on(["a", "b"], ["a"]), failed]))) == 1


def test_records_from_before_node_sets_were_kept_have_their_first_host() -> None:
    record = make_record(world_size=2)
    record.provenance = {"conditions": {"hosts": ["a", "b"]}}
    assert node_set(record) == "a"
    record.provenance = {}
    assert node_set(record) == ""


def test_flags_of_any_attempt_are_told() -> None:
    records = [on(["a"], ["a"], seed=seed) for seed in range(3)]
    records[0].provenance["preflight"] = {"flag": FLAG}
    records[1].provenance |= {
        "preflight": {"flag": None},
        "later_attempts": [{"attempt": 2, "preflight": {"flag": FLAG}}],
    }
    assert [flags(record) for record in records] == [[FLAG], [FLAG], []]
    assert cautions(records) == [f"{FLAG} (2 of 3 points)"]
    assert f"{FLAG} (2 of 3 points)" in captions.caption(records)
