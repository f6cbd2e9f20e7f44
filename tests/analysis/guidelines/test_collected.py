from __future__ import annotations

import pandas as pd
import pytest
from fabricate import TRUTH, make_record

from kanstudy.analysis import estimates
from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.attribution.verdict import verdicts
from kanstudy.analysis.guidelines import guidelines

PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp"), "noise": 0.002}


def advise(strong: list | None = None, comm: list | None = None, models: list | None = None) -> pd.DataFrame:
    strong = strong or []
    return guidelines(
        estimates.strong(strong),
        estimates.weak([]),
        estimates.overhead(comm or []),
        estimates.model_size(models or []),
        attribution(strong),
        verdicts(strong),
    )


def one(frame: pd.DataFrame, topic: str) -> pd.Series:
    (row,) = frame[frame["topic"] == topic].to_dict("records")
    return row


def curve(*efficiencies: float, **changes: object) -> list:
    """Strong scaling at 2, 4, 8 ... ranks with these true efficiencies."""
    rest = TRUTH["heterogeneity"] * TRUTH["contention"] * TRUTH["ddp"] * TRUTH["synchronisation"]
    rest *= TRUTH["data_movement"]
    return [
        make_record(world_size=2 ** (i + 1), truth={"batch": e / rest}, **({"noise": 0.003} | changes))
        for i, e in enumerate(efficiencies)
    ]


def test_how_many_ranks_are_worth_it() -> None:
    frame = advise(curve(0.9, 0.8, 0.6))
    first, second = frame[frame["topic"] == "ranks"]["sentence"]
    assert "up to 4 ranks keep a parallel efficiency of at least 0.7 (0.80 [" in first
    assert "at 8 ranks it is 0.60 [" in first
    assert "below 0.7" in first
    assert "up to 8 ranks keep a parallel efficiency of at least 0.5" in second
    assert "no larger size was measured" in second
    for record in curve(0.9, 0.8, 0.6):
        assert record.point_id in first


def test_an_interval_across_the_threshold_cannot_be_told() -> None:
    frame = advise(curve(0.9, 0.7, noise=0.02))
    sentence = frame[frame["topic"] == "ranks"]["sentence"].iloc[0]
    assert "up to 2 ranks" in sentence
    assert "whether it keeps 0.7 cannot be told" in sentence


@pytest.mark.parametrize("changes", [{"rounds": 3}, {"foreign": dict.fromkeys(range(5), 0.5)}])
def test_without_an_interval_or_trust_nothing_is_told(changes: dict) -> None:
    frame = advise(curve(0.9, 0.5, **changes))
    assert set(frame["topic"]) == {"ranks", "loss", "local batch", "least local batch", "compression"}
    assert not frame["told"].any()
    assert frame["sentence"].str.contains("cannot be told").all()
    assert frame["sentence"].str.contains("too few for an interval|too few for a bootstrap|untrusted").all()


def test_the_largest_loss_and_what_to_change_first() -> None:
    row = one(advise([make_record(noise=0.003)]), "loss")
    assert row["told"]
    assert "told from nothing is contention, 0.85" in row["sentence"]
    assert "to change first: what the ranks of a node share" in row["sentence"]
    close = one(advise([make_record(noise=0.003, truth={"data_movement": 0.85})]), "loss")
    assert not close["told"]
    assert "the largest loss that can be told from nothing is" in close["sentence"]
    assert "what to change first cannot be told" in close["sentence"]
    none = one(advise([make_record(noise=0.03, noise_seed=1, truth=dict.fromkeys(TRUTH, 1.0))]), "loss")
    assert not none["told"]
    assert "no loss can be told from nothing" in none["sentence"]


def test_the_largest_loss_is_that_of_the_largest_world_size() -> None:
    row = one(advise([make_record(world_size=p, noise=0.003) for p in (2, 8, 4)]), "loss")
    assert row["point_ids"] == make_record(world_size=8).point_id


@pytest.mark.parametrize(
    ("batch", "told", "word"),
    [(0.8, True, "less efficiently"), (1.2, True, "more efficiently"), (1.0, False, "no effect")],
)
def test_the_local_batch(batch: float, told: bool, word: str) -> None:
    row = one(advise([make_record(noise=0.01, truth={"batch": batch}, noise_seed=3)]), "local batch")
    assert row["told"] == told
    assert word in row["sentence"]


def test_bucket_cap_and_buffers() -> None:
    slow, fast = make_record(**PAIR, bucket_cap_mb=1, truth={"data_movement": 0.7}), make_record(**PAIR)
    synced = make_record(**PAIR, sync_buffers=True, truth={"data_movement": 0.8})
    frame = advise(comm=[slow, fast, synced])
    assert "the step is shortest with bucket cap 25 MiB" in one(frame, "bucket cap")["sentence"]
    assert "the step is shortest with buffers not synchronised" in one(frame, "buffers")["sentence"]
    same = one(advise(comm=[make_record(**PAIR, bucket_cap_mb=1), fast]), "bucket cap")
    assert not same["told"]
    assert "overlap" in same["sentence"]


def test_parameters_per_byte_over_the_grid() -> None:
    models = [make_record(experiment="model_size_scaling", grid_size=grid) for grid in (5, 15)]
    row = one(advise(models=models), "grid size")
    assert "from grid 5 to 15" in row["sentence"]
    assert models[0].point_id in row["point_ids"]


def test_every_sentence_names_source_and_points_and_nothing_gives_none() -> None:
    frame = advise(curve(0.9, 0.8))
    for row in frame.to_dict("records"):
        assert row["sentence"].endswith(f"({row['source']}: {row['point_ids']}).")
    assert advise().empty


def test_settings_are_compared_on_the_same_machine_and_source_only() -> None:
    here = make_record(bucket_cap_mb=1.0, t1=0.08, rounds=24, **PAIR)
    elsewhere = make_record(bucket_cap_mb=25.0, t1=0.05, rounds=24, device_name="another CPU", **PAIR)
    simulated = make_record(bucket_cap_mb=9.0, t1=0.02, rounds=24, source="simulated", **PAIR)
    other_work = make_record(bucket_cap_mb=4.0, t1=0.01, rounds=24, optimizer="sgd", **PAIR)
    frame = advise(comm=[here, elsewhere, simulated, other_work])
    assert frame[frame["topic"] == "bucket cap"].empty
