"""A curve never joins two sets of nodes, and flags of a job are told."""

from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis import captions
from kanstudy.analysis.nodes import cautions, flags, layout, node_set
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


def test_the_layout_is_that_of_the_hosts() -> None:
    assert layout(on(["a", "b"], ["a", "a", "b"], global_batch_size=2520)) == (2, 1)
    assert layout(on(["a", "b"], ["a", "b"], placement="spread")) == (1, 1)


def test_without_hosts_the_layout_follows_from_nodes_and_placement() -> None:
    def without_hosts(world_size: int, nodes: int, ranks_per_node: int, placement: str) -> tuple[int, ...]:
        record = make_record(world_size=world_size, rounds=1, placement=placement, global_batch_size=2520)
        record.nodes, record.ranks_per_node = nodes, ranks_per_node
        return layout(record)

    assert without_hosts(4, 2, 2, "packed") == (2, 2)
    assert without_hosts(5, 3, 2, "packed") == (2, 2, 1)
    assert without_hosts(6, 4, 2, "spread") == (2, 2, 1, 1)
    assert without_hosts(2, 2, 1, "spread") == (1, 1)
