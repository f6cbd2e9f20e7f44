from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fabricate import TRUTH, empty_arms, make_record

from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.attribution.verdict import COLUMNS, slow_throughout, verdicts
from kanstudy.record import Fault, Record

NO_LOSS = dict.fromkeys(TRUTH, 1.0)


def only(*records: Record) -> pd.Series:
    (row,) = verdicts(records).to_dict("records")
    return pd.Series(row)


def test_the_largest_true_loss_is_named_with_bounds_that_hold_it() -> None:
    record = make_record(world_size=4, rounds=20, noise=0.01)
    row = only(record)
    assert (row["told"], row["factor"], row["point_id"]) == (True, "contention", record.point_id)
    assert row["value_low"] < TRUTH["contention"] < row["value_high"]
    assert row["probability_largest"] > 0.99
    assert "told from nothing is contention" in row["sentence"]
    assert "all 6 factors shown at once, within one launch" in row["sentence"]
    assert row["sentence"].endswith(f"(measured: {record.point_id}).")


def test_bounds_widen_with_every_factor_that_is_shown() -> None:
    records = [make_record(world_size=p, rounds=20, noise=0.01, noise_seed=p) for p in (2, 4, 8)]
    alone, together = only(records[0]), verdicts(records).iloc[0]
    own = efficiency(records[0]).factors["contention"]
    assert together["value_low"] < alone["value_low"] <= own.low
    assert own.high <= alone["value_high"] < together["value_high"]
    assert "all 18 factors" in together["sentence"]


def test_two_equal_losses_share_the_probability() -> None:
    truth = {"contention": 0.85, "data_movement": 0.85}
    rows = [only(make_record(rounds=20, noise=0.02, truth=truth, noise_seed=seed)) for seed in range(5)]
    assert {row["factor"] for row in rows} == {"contention", "data_movement"}
    assert any(0.1 < row["probability_largest"] < 0.9 for row in rows)


def test_no_loss_is_told_where_there_is_none() -> None:
    row = only(make_record(rounds=20, noise=0.02, truth=NO_LOSS, noise_seed=1))
    assert not row["told"]
    assert "no loss can be told from nothing: bounds that hold for all 6 factors" in row["sentence"]
    assert np.isnan(row["value"])


def test_a_noisy_factor_may_be_smaller_and_is_named() -> None:
    record = make_record(rounds=13, noise=0.001, truth={"data_movement": 0.6})
    rng = np.random.default_rng(0)
    for item in record.arms["ddp"].rounds:
        stall = float(np.exp(rng.normal(0, 1.2)))
        item.rank_step_times_s = [[step * stall for step in steps] for steps in item.rank_step_times_s]
    row = only(record)
    assert row["factor"] == "contention"
    assert "a smaller factor, but not to be told from 1: data movement, 0." in row["sentence"]
    assert row["probability_largest"] < 0.5


def steps_that_do_not_pair() -> Record:
    """A record in which one rank of `ddp_noop` has a step less than the others."""
    record = make_record(rounds=14, noise=0.01)
    for item in record.arms["ddp_noop"].rounds:
        item.rank_step_times_s[0].pop()
    return record


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (make_record(rounds=11, noise=0.01), "11 rounds are too few for a bootstrap, which takes 12"),
        (make_record(rounds=30, noise=0.01, foreign=dict.fromkeys(range(10), 0.9)), "untrusted: 10 of 30 rounds"),
        (
            make_record(arms=("serial_global", "ddp_noop", "ddp")),
            "the chain's serial_local and concurrent were not measured",
        ),
        (make_record(arms=("serial_global", "serial_local", "concurrent", "ddp_noop")), "the arm ddp was not measured"),
        (steps_that_do_not_pair(), "synchronisation and data movement cannot be told: a step time is missing, or"),
        (empty_arms(make_record(status="oom", error=Fault(reason="out of memory", rank=1))), "oom: out of memory"),
    ],
)
def test_why_nothing_can_be_told(record: Record, why: str) -> None:
    row = only(record)
    assert not row["told"]
    assert f"no loss can be told from nothing: {why}" in row["sentence"]


def test_a_record_without_bounds_does_not_hide_the_others() -> None:
    frame = verdicts([make_record(world_size=4, rounds=3), make_record(world_size=2, rounds=14, noise=0.005)])
    assert frame["told"].tolist() == [False, True]
    assert "all 6 factors" in frame["sentence"].iloc[1]


def test_what_is_doubtful_about_a_record_is_in_its_sentence() -> None:
    row = only(make_record(rounds=14, noise=0.005, oversubscribed=True))
    assert row["told"]
    assert "; more ranks than cores (measured: " in row["sentence"]
    assert "; partial: " in only(make_record(rounds=14, noise=0.005, status="partial"))["sentence"]


def test_pooled_starts_are_said() -> None:
    row = only(make_record(rounds=10, launches=2, noise=0.005))
    assert "of the rounds of 2 starts pooled, not between starts" in row["sentence"]


def test_one_rank_has_no_verdict() -> None:
    assert verdicts([make_record(world_size=1)]).empty
    assert verdicts([]).columns.tolist() == COLUMNS


def blocks_slow_by_turns(spread: float, rounds: int = 20, p: int = 4, seed: int = 7) -> Record:
    """Ranks that are equal, timed in blocks that differ at random: the slowest of a round is slower than the mean."""
    record = make_record(world_size=p, rounds=rounds, noise=0.001, truth=NO_LOSS | {"contention": 0.95})
    rng = np.random.default_rng(seed)
    for item in record.arms["serial_local"].rounds:
        own = np.exp(spread * rng.standard_normal(p))
        item.rank_step_times_s = [
            [step * factor for step in steps] for steps, factor in zip(item.rank_step_times_s, own, strict=True)
        ]
    return record


def test_ranks_that_are_slow_by_turns_are_no_heterogeneity() -> None:
    record = blocks_slow_by_turns(0.05)
    assert efficiency(record).factors["heterogeneity"].high < 1
    assert not slow_throughout(record)
    row = only(record)
    assert row["factor"] != "heterogeneity"
    assert "counts as chance: no rank is slower round after round" in row["sentence"]


@pytest.mark.parametrize("p", [2, 4, 8])
def test_a_rank_that_is_always_slow_is_heterogeneity(p: int) -> None:
    record = make_record(world_size=p, rounds=14, noise=0.002, truth=NO_LOSS | {"heterogeneity": 0.9})
    assert slow_throughout(record)
    for item in record.arms["serial_local"].rounds[::2]:  # rounds may list their ranks in any order
        item.active_ranks.reverse()
        item.rank_step_times_s.reverse()
    assert slow_throughout(record)
    assert only(record)["factor"] == "heterogeneity"


@pytest.mark.parametrize("p", [2, 4])
def test_chance_rarely_looks_like_a_slow_rank(p: int) -> None:
    records = [make_record(world_size=p, rounds=13, truth=NO_LOSS) for _ in range(60)]
    rng = np.random.default_rng(3)
    for record in records:
        for item in record.arms["serial_local"].rounds:
            item.rank_step_times_s = [[float(step)] * 2 for step in np.exp(0.02 * rng.standard_normal(p))]
    assert sum(map(slow_throughout, records)) <= 9


def test_many_panels_do_not_make_chance_a_slow_rank() -> None:
    records = [blocks_slow_by_turns(0.02, seed=seed) for seed in range(40)]
    assert any(map(slow_throughout, records))  # one by one, at 5 %
    frame = verdicts(records)
    assert not (frame["factor"] == "heterogeneity").any()
    assert frame["sentence"].str.contains("counts as chance").sum() == 40
