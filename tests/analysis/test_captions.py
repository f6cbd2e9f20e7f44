from __future__ import annotations

from fabricate import empty_arms, make_record

from kanstudy.analysis.captions import caption


def test_nothing_has_a_caption_too() -> None:
    assert caption([]) == "Nothing is measured."


def test_a_caption_states_what_the_numbers_rest_on() -> None:
    text = caption([make_record(world_size=1), make_record(rounds=6, oversubscribed=True)])
    for part in ("measured", "profile: test", "test CPU", "gloo", "global 2048", "plain module on one rank",
                 "6 to 12 rounds", "within one launch", "more ranks than cores"):  # fmt: skip
        assert part in text
    assert "same conditions" not in text
    weak = caption([make_record(experiment="weak_scaling", scaling="weak", launches=2)])
    assert "local 1024" in weak
    assert "2 starts" in weak


def test_a_caption_names_only_baselines_that_were_measured() -> None:
    pair = make_record(experiment="communication_overhead", arms=("ddp_noop", "ddp"))
    assert "Baseline" not in caption([pair])
    assert "Overhead: against the same DDP without communication" in caption([pair])
    assert "Overhead:" not in caption([make_record(arms=("ddp",))])
    both = caption([make_record(), make_record(experiment="weak_scaling", scaling="weak", world_size=4)])
    assert "with the global batch or the plain module on one rank with the local batch" in both
    assert "Batch: global 2048; local 512 rows" in both


def test_a_caption_counts_the_rounds_behind_the_medians_and_those_left_out() -> None:
    text = caption([make_record(world_size=1), make_record(foreign={3: 0.5})])
    assert "Medians of 11 to 12 rounds a point" in text
    assert "Crosses: disturbed rounds, 1 of 24, left out of the medians." in text
    assert "Crosses" not in caption([make_record()])
    every = caption([make_record(rounds=3, foreign=dict.fromkeys(range(3), 0.5))])
    assert "Medians of 3 rounds" in every
    assert "disturbed rounds, 3 of 3, left out of the medians except where every round" in every
    assert "No round is measured" in caption([empty_arms(make_record(status="failed"))])


def test_rounds_of_an_interrupted_launch_are_not_said_to_be_of_one() -> None:
    text = caption([make_record(world_size=1), make_record(starts=3)])
    assert "within one launch" not in text
    assert "intervals of the rounds of 3 starts pooled, not between starts" in text


def test_a_caption_says_that_conditions_differ() -> None:
    records = [make_record(world_size=p) for p in (1, 2)]
    for record, version in zip(records, ("2.6", "2.13"), strict=True):
        hosts = ["a"] * record.world_size
        record.provenance = {"conditions": {"hosts": hosts, "ranks": hosts, "versions": {"torch": version}}}
    assert "Not all points were measured under the same conditions" in caption(records)
    records[0].provenance["conditions"]["versions"] = {"torch": "2.13"}
    assert "same conditions" not in caption(records)
