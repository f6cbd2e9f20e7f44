"""Operators and ranks, separately and together: closed forms, what is paired with what, and what cannot be told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fabricate import TRUTH, empty_arms, make_record
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis.complementarity import VERDICTS, complementarity, per_round
from kanstudy.analysis.guidelines import guidelines
from kanstudy.analysis.statistics.paired_operators import RATIOS, PairedOperators
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.view import view
from kanstudy.record import Fault, Record

COMMON = {"experiment": "operator_scaling", "arms": ("serial_global", "ddp_noop", "ddp")}
E = float(np.prod(list(TRUTH.values())))
SLOW, FAST = 0.08, 0.02


def pair_of(truth: dict[str, float] | None = None, p: int = 2, **changes) -> list[Record]:
    """The reference and the four times faster fused operator, whose factors are those of `truth`."""
    common = COMMON | {"world_size": p} | changes
    slower = make_record(operator="reference", t1=SLOW, noise_seed=1, **common)
    return [slower, make_record(operator="fused", t1=FAST, truth=truth, noise_seed=2, **common)]


def only_row(records: list[Record]) -> dict:
    (row,) = complementarity(records).to_dict("records")
    return row


@given(movement=st.floats(0.3, 1.0), contention=st.floats(0.5, 1.0), p=st.sampled_from([2, 4, 8]))
def test_every_ratio_is_its_closed_form(movement: float, contention: float, p: int) -> None:
    row = only_row(pair_of({"data_movement": movement, "contention": contention}, p, rounds=7))
    communication = movement / TRUTH["data_movement"]
    computation = contention / TRUTH["contention"]
    expected = {
        "operator_speedup": SLOW / FAST,
        "ranks_speedup": p * E,
        "ranks_speedup_faster": p * E * communication * computation,
        "product": SLOW / FAST * p * E,
        "together": SLOW / FAST * p * E * communication * computation,
        "interaction": communication * computation,
        "communication": communication,
        "computation": computation,
        "overhead": 1 - TRUTH["synchronisation"] * TRUTH["data_movement"],
        "overhead_faster": 1 - TRUTH["synchronisation"] * movement,
        "exposed_ms": 1e3 * SLOW / (p * E) * (1 - TRUTH["synchronisation"] * TRUTH["data_movement"]),
        "exposed_ms_faster": 1e3 * FAST / row["ranks_speedup_faster"] * (1 - TRUTH["synchronisation"] * movement),
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-9), name


@given(seed=st.integers(0, 99), rounds=st.integers(1, 15), noise=st.floats(0, 0.3))
def test_together_is_the_product_times_the_interaction_in_every_draw(seed: int, rounds: int, noise: float) -> None:
    slower, faster = pair_of(noise=noise, rounds=rounds, drift=0.1)
    faster = make_record(operator="fused", t1=FAST, noise_seed=seed, noise=noise, rounds=rounds, drift=0.1, **COMMON)
    pair = PairedOperators(slower, faster)
    found = {name: pair.ratio(name) for name in RATIOS}
    for whole, parts in (
        ("together", ("product", "interaction")),
        ("product", ("operator_speedup", "ranks_speedup")),
        ("interaction", ("computation", "communication")),
        ("together", ("operator_speedup", "ranks_speedup_faster")),
    ):
        assert found[whole].value == pytest.approx(np.prod([found[part].value for part in parts]))
        assert (found[whole].draws is None) == (rounds < 12)
        if rounds >= 12:
            np.testing.assert_allclose(found[whole].draws, np.prod([found[part].draws for part in parts], axis=0))


def test_from_five_launches_on_the_launch_is_the_replicate() -> None:
    pair = PairedOperators(*pair_of(noise=0.05, rounds=3, launches=5))
    found = {name: pair.ratio(name) for name in RATIOS}
    assert {(estimate.method, estimate.n) for estimate in found.values()} == {("t over launches", 5)}
    parts = [found[part] for part in ("operator_speedup", "ranks_speedup", "interaction")]
    assert found["together"].value == pytest.approx(np.prod([part.value for part in parts]))
    np.testing.assert_allclose(found["together"].draws, np.prod([part.draws for part in parts], axis=0))
    assert pair.exposed_ms("_faster").method == "t over launches"
    assert PairedOperators(*pair_of(noise=0.05, rounds=3, launches=4)).ratio("together").method == "bootstrap"


def test_what_slows_a_whole_round_of_one_operator_leaves_the_interaction_alone() -> None:
    calm, wild = (only_row(pair_of(drift=drift, rounds=13)) for drift in (0.0, 0.5))
    assert wild["interaction"] == pytest.approx(calm["interaction"], rel=1e-9)
    assert wild["interaction_high"] - wild["interaction_low"] == pytest.approx(0, abs=1e-9)
    assert wild["operator_speedup"] != pytest.approx(calm["operator_speedup"], rel=1e-3)


def test_what_slows_both_operators_of_a_pair_leaves_their_ratio_alone() -> None:
    slower, faster = pair_of(rounds=13)
    for record in (slower, faster):
        for arm in record.arms.values():
            for item in arm.rounds:
                factor = 1 + 0.2 * item.index
                item.rank_step_times_s = [[factor * time for time in steps] for steps in item.rank_step_times_s]
    row = only_row([slower, faster])
    assert row["operator_speedup_low"] == pytest.approx(row["operator_speedup_high"])
    assert row["operator_speedup"] == pytest.approx(SLOW / FAST)


def test_the_interval_covers_the_interaction_about_as_often_as_it_says() -> None:
    truth = {"data_movement": 0.85}
    true = truth["data_movement"] / TRUTH["data_movement"]
    covered = 0
    for seed in range(60):
        common = COMMON | {"rounds": 13, "noise": 0.03, "drift": 0.05}
        pair = PairedOperators(
            make_record(operator="reference", noise_seed=2 * seed, **common),
            make_record(operator="fused", noise_seed=2 * seed + 1, truth=truth, **common),
        )
        covered += pair.ratio("interaction").includes(true)
    assert covered >= 51  # of 60: 95 % is nominal, a percentile bootstrap of 13 medians covers a little less or more


@pytest.mark.parametrize(
    ("truth", "verdict", "words"),
    [
        ({}, "complementary", "is not excluded"),
        ({"data_movement": 0.7}, "sub-multiplicative", "less than independent gains, most of it in communication"),
        ({"contention": 0.99}, "super-multiplicative", "more than independent gains, most of it in computation"),
        ({"contention": 0.6}, "sub-multiplicative", "most of it in computation"),
    ],
)
def test_the_verdict_in_plain_words(truth: dict[str, float], verdict: str, words: str) -> None:
    row = only_row(pair_of(truth, rounds=13, noise=0.01))
    assert row["verdict"] == verdict
    assert words in row["sentence"]
    assert f"an interaction of {row['interaction']:.3f} [" in row["sentence"]
    assert f"fused in place of reference is {row['operator_speedup']:.2f} [" in row["sentence"]
    assert row["sentence"].endswith(f" (measured: {row['point_id']} {row['faster_point_id']}).")
    assert row["sentence"].count("%") == 2 + (verdict == "complementary")


def test_without_an_interval_or_trust_no_verdict_is_given() -> None:
    few = only_row(pair_of({"data_movement": 0.5}, rounds=5))
    assert few["verdict"] == "cannot be told"
    assert few["interaction"] == pytest.approx(0.5 / TRUTH["data_movement"])
    assert "reference: 5 rounds: too few for an interval; fused: 5 rounds" in few["reason"]
    assert "cannot be told, reference: 5 rounds" in few["sentence"]
    noisy = only_row(pair_of({"data_movement": 0.5}, rounds=13, foreign={1: 0.5, 2: 0.5, 3: 0.5}))
    assert (noisy["verdict"], noisy["trusted"]) == ("cannot be told", False)


def test_a_pair_disturbed_in_either_is_left_out_and_shown_as_disturbed() -> None:
    slower, faster = pair_of(rounds=13)
    faster = make_record(operator="fused", rounds=13, foreign={4: 0.5}, **COMMON)
    row = only_row([slower, faster])
    assert (row["n_rounds"], row["n_disturbed"], row["trusted"]) == (12, 1, True)
    dots = per_round([slower, faster])
    assert dots["disturbed"].tolist() == [index == 4 for index in range(13)]
    assert np.isfinite(dots[list(RATIOS)].to_numpy()).all()


def test_only_rounds_that_both_have_are_pairs() -> None:
    slower = make_record(operator="reference", rounds=14, **COMMON)
    faster = make_record(operator="fused", rounds=12, status="partial", **COMMON)
    row = only_row([slower, faster])
    assert row["n_rounds"] == 12
    assert "fused: partial" in row["reason"]


def test_three_operators_are_three_pairs_the_slower_first_whatever_their_order() -> None:
    records = [make_record(operator=name, **COMMON) for name in ("fused", "reference", "compiled")]
    records += [make_record(operator=name, world_size=4, **COMMON) for name in ("fused", "reference")]
    frame = complementarity(records)
    assert frame[["operator", "faster_operator", "world_size"]].to_numpy().tolist() == [
        ["reference", "compiled", 2],
        ["reference", "fused", 2],
        ["compiled", "fused", 2],
        ["reference", "fused", 4],
    ]
    assert set(frame["series"]) == {"KAN synthetic:32:1"}


def test_different_work_is_not_compared_and_said_apart() -> None:
    records = [*pair_of(), *pair_of(layer_widths=(32, 8, 1))]
    frame = complementarity(records)
    assert len(frame) == 2
    assert frame["series"].nunique() == 2
    assert frame["series"].str.contains("widths 32-8-1").sum() == 1


def test_what_is_not_compared_is_a_row_that_says_why() -> None:
    slower, faster = pair_of()
    assert "no other operator was measured there" in only_row([slower])["reason"]
    for record, version in ((slower, "2.6"), (faster, "2.13")):
        record.provenance = {"conditions": {"hosts": ["a"], "versions": {"torch": version}}}
    other = only_row([slower, faster])
    assert "different conditions" in other["reason"]
    assert np.isnan(other["interaction"])
    failed = make_record(operator="fused", status="oom", error=Fault(reason="out of memory"), **COMMON)
    row = only_row([pair_of()[0], empty_arms(failed)])
    assert "fused: oom: out of memory" in row["reason"]
    assert row["verdict"] == "cannot be told"
    assert row["reason"] in row["sentence"]
    assert per_round([slower, faster]).empty


def test_no_records_give_an_empty_table() -> None:
    frame = complementarity([])
    assert frame.empty
    assert {"interaction_low", "verdict", "sentence"} <= set(frame)
    assert per_round([]).empty
    assert complementarity([make_record(world_size=1, experiment="operator_scaling")]).empty


def test_the_table_shows_columns_that_are_there() -> None:
    frame = complementarity(pair_of(rounds=13, noise=0.01))
    assert set(layouts.COMPLEMENTARITY) <= set(frame)
    text = repr(view(frame, layouts.COMPLEMENTARITY))
    assert "| reference" in text
    assert "interaction" in text
    assert set(frame["verdict"]) <= set(VERDICTS)


@pytest.mark.parametrize(("rounds", "told"), [(13, True), (3, False)])
def test_a_guideline_is_told_where_there_is_a_verdict(rounds: int, told: bool) -> None:
    frame = complementarity(pair_of({"data_movement": 0.5}, rounds=rounds, noise=0.01))
    nothing = pd.DataFrame()
    advice = guidelines(*[nothing] * 6, frame)
    assert advice["sentence"].tolist() == frame["sentence"].tolist()
    assert advice["told"].tolist() == [told]
    assert advice["point_ids"].iloc[0] == f"{frame['point_id'].iloc[0]} {frame['faster_point_id'].iloc[0]}"
