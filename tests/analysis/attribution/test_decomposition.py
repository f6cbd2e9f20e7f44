from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fabricate import TRUTH, empty_arms, make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from kanstudy.analysis.attribution.chain import FACTORS, POP, pop_text
from kanstudy.analysis.attribution.decomposition import attribution, efficiency
from kanstudy.analysis.attribution.identity import identity_check
from kanstudy.record import Fault

WEAK = {"experiment": "weak_scaling", "scaling": "weak"}
FACTOR = st.floats(0.6, 1.3)


def by_factor(frame: pd.DataFrame, column: str = "value") -> dict[str, float]:
    return dict(zip(frame["factor"], frame[column], strict=True))


@pytest.mark.parametrize("p", [2, 4, 8])
def test_without_noise_the_factors_are_the_true_ones(p: int) -> None:
    found = by_factor(attribution([make_record(world_size=p)]))
    assert list(found) == [*FACTORS, "efficiency"]
    for name, value in TRUTH.items():
        assert found[name] == pytest.approx(value, rel=1e-9)
    assert found["efficiency"] == pytest.approx(np.prod(list(TRUTH.values())), rel=1e-9)


def test_with_noise_and_drift_the_truth_lies_in_the_intervals() -> None:
    record = make_record(world_size=4, rounds=40, noise=0.01, drift=0.5)
    found = efficiency(record)
    for name, value in TRUTH.items():
        factor = found.factors[name]
        assert factor.low - 0.003 <= value <= factor.high + 0.003, name
        assert factor.high - factor.low < 0.03, "drift that all arms share must not widen the interval"


@settings(max_examples=40)
@given(
    truth=st.fixed_dictionaries({name: FACTOR for name in TRUTH if name not in ("synchronisation", "heterogeneity")}),
    p=st.sampled_from([1, 2, 4]),
    rounds=st.sampled_from([1, 4, 7, 13]),
    noise=st.floats(0, 0.5),
    scaling=st.sampled_from(["strong", "weak"]),
    seed=st.integers(0, 1000),
)
def test_the_factors_multiply_to_the_efficiency(
    truth: dict, p: int, rounds: int, noise: float, scaling: str, seed: int
) -> None:
    record = make_record(
        truth=truth, world_size=p, rounds=rounds, noise=noise, drift=0.3, noise_seed=seed, scaling=scaling
    )
    found = efficiency(record)
    product = np.prod([factor.value for factor in found.factors.values()])
    assert product == pytest.approx(found.value.value, rel=1e-12)
    if rounds >= 12:
        draws = np.prod([factor.draws for factor in found.factors.values()], axis=0)
        np.testing.assert_allclose(draws, found.value.draws, rtol=1e-12)
    frame = attribution([record])
    assert 1 + frame["points"].sum() == pytest.approx(found.value.value, rel=1e-12)


def test_weak_scaling_is_the_chain_without_the_batch() -> None:
    found = by_factor(attribution([make_record(**WEAK, world_size=4)]))
    assert list(found) == [*list(FACTORS)[1:], "efficiency"]
    assert found["efficiency"] == pytest.approx(np.prod(list(TRUTH.values())) / TRUTH["batch"], rel=1e-9)


def test_one_rank_has_only_the_factors_of_ddp() -> None:
    found = by_factor(attribution([make_record(world_size=1)]))
    assert list(found) == ["ddp", "data_movement", "efficiency"]
    record = make_record(**WEAK, world_size=1, arms=("serial_local", "ddp"))
    found = by_factor(attribution([record]))
    assert list(found) == ["ddp", "efficiency"]
    serial, ddp = (record.arms[name].rounds[0].rank_step_times_s[0][0] for name in ("serial_local", "ddp"))
    assert found["efficiency"] == pytest.approx(serial / ddp)


def test_intermediate_statistics_are_taken_within_the_round_before_the_median() -> None:
    """Which rank is slow changes from round to round: each round's maximum is the slow one, each mean is between."""
    record = make_record(rounds=12, truth={"heterogeneity": 1.0})
    for item in record.arms["serial_local"].rounds:
        item.rank_step_times_s = [[0.04] * 2, [0.08] * 2][:: 1 if item.index % 2 else -1]
    found = efficiency(record)
    assert found.factors["heterogeneity"].value == pytest.approx(0.06 / 0.08)


def test_efficiency_above_one_and_negative_overhead_are_shown_and_flagged() -> None:
    record = make_record(truth={"batch": 1.6, "data_movement": 1.05}, noise=0.001)
    found = efficiency(record)
    assert found.value.value > 1
    assert "efficiency above 1" in found.reason
    frame = attribution([record])
    assert by_factor(frame)["data_movement"] > 1
    assert by_factor(frame, "points")["batch"] == pytest.approx(0.6, abs=0.01)


def test_log_shares_add_up_and_are_blank_where_efficiency_may_be_one() -> None:
    shares = by_factor(attribution([make_record()]), "log_share")
    shares.pop("efficiency")
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["contention"] == pytest.approx(np.log(TRUTH["contention"]) / np.log(np.prod(list(TRUTH.values()))))
    near_one = dict.fromkeys(TRUTH, 1.0)
    for record in (make_record(truth=near_one, noise=0.05), make_record(rounds=3)):
        frame = attribution([record])
        assert frame["log_share"].isna().all()
        assert frame["value"].notna().all()


def test_disturbed_rounds_are_left_out_and_the_other_result_stands_beside() -> None:
    record = make_record(rounds=14, foreign={0: 0.9, 1: 0.9})
    for item in record.arms["ddp"].rounds[:2]:
        item.rank_step_times_s = [[step * 50 for step in steps] for steps in item.rank_step_times_s]
    found = efficiency(record)
    assert (found.n_rounds, found.n_disturbed, found.trusted) == (12, 2, True)
    truth = np.prod(list(TRUTH.values()))
    assert found.value.value == pytest.approx(truth)
    assert found.of_means.value == pytest.approx(truth)
    assert found.all_rounds.n == 14
    slow = efficiency(make_record(rounds=13, noise=0.05, foreign={0: 0.9, 1: 0.9}))
    assert slow.all_rounds.value != slow.value.value


def test_an_untrusted_point_says_so() -> None:
    some = efficiency(make_record(rounds=10, foreign=dict.fromkeys(range(4), 0.9)))
    assert "untrusted: 4 of 10 rounds disturbed, they are left out" in some.reason
    assert some.n_rounds == 6
    every = efficiency(make_record(rounds=3, foreign=dict.fromkeys(range(3), 0.9)))
    assert "untrusted: 3 of 3 rounds disturbed, all are kept" in every.reason
    assert np.isfinite(every.value.value)


def test_means_feel_the_stalls_that_medians_hide() -> None:
    record = make_record(rounds=12)
    record.arms["ddp"].rounds[0].rank_step_times_s = [[10.0] * 2] * 2
    found = efficiency(record)
    assert found.value.value == pytest.approx(np.prod(list(TRUTH.values())), rel=1e-6)
    assert found.of_means.value < 0.1


@pytest.mark.parametrize("arm", ["serial_global", "concurrent"])
def test_a_missing_arm_leaves_the_attribution_blank_with_the_reason(arm: str) -> None:
    arms = [name for name in ("serial_global", "serial_local", "concurrent", "ddp_noop", "ddp") if name != arm]
    frame = attribution([make_record(arms=tuple(arms))])
    assert frame["factor"].tolist() == ["none"]
    assert np.isnan(frame["value"].iloc[0])
    assert ("no baseline" if arm == "serial_global" else f"chain's {arm} was not measured") in frame["reason"].iloc[0]


def test_a_missing_step_time_is_blank_with_the_reason() -> None:
    record = make_record()
    record.arms["ddp"].rounds[0].rank_step_times_s[0][0] = None  # type: ignore[call-overload]
    found = efficiency(record)
    assert np.isnan(found.value.value)
    assert "a step time is missing" in found.reason


def test_failed_points_are_there_with_their_status() -> None:
    oom = empty_arms(make_record(world_size=4, status="oom", error=Fault(reason="out of memory", rank=2)))
    frame = attribution([make_record(), oom])
    assert set(frame["point_id"]) == {make_record().point_id, oom.point_id}
    assert frame["reason"].iloc[-1] == "oom: out of memory (rank 2)"
    assert attribution([]).columns.tolist() == frame.columns.tolist()


@pytest.mark.parametrize(("rounds", "has_interval"), [(12, True), (7, True), (4, False)])
def test_the_identity_between_strong_and_weak(rounds: int, has_interval: bool) -> None:
    strong = make_record(world_size=2, global_batch_size=2048, rounds=rounds, noise=0.002, noise_seed=1)
    weak = make_record(**WEAK, world_size=2, global_batch_size=2048, rounds=rounds, noise=0.002, noise_seed=2)
    other = make_record(**WEAK, world_size=2, global_batch_size=1024, rounds=rounds)
    (row,) = identity_check([make_record(world_size=1), strong], [other, weak]).to_dict("records")
    assert (row["point_id"], row["weak_point_id"]) == (strong.point_id, weak.point_id)
    assert row["efficiency"] == pytest.approx(row["batch_times_weak"], rel=0.01)
    assert np.isfinite(row["batch_times_weak_low"]) == has_interval
    assert row["ratio"] == pytest.approx(row["efficiency"] / row["batch_times_weak"], rel=1e-6)
    assert row["meaning"].startswith("they agree" if has_interval else "no interval")
    assert identity_check([strong], [other]).empty


def test_a_difference_between_launches_is_said_to_be_one() -> None:
    strong = make_record(rounds=3, launches=5, noise=0.01, noise_seed=1)
    weak = make_record(**WEAK, rounds=3, launches=5, noise=0.01, noise_seed=2, truth={"contention": 0.6})
    (row,) = identity_check([strong], [weak]).to_dict("records")
    assert row["meaning"].endswith("more than launches vary")


@pytest.mark.parametrize(("contention", "word"), [(0.7, "E strong is 21% larger"), (0.9, "E strong is 6% smaller")])
def test_launches_that_differ_by_more_than_their_rounds_are_told(contention: float, word: str) -> None:
    strong = make_record(rounds=14, noise=0.002, noise_seed=1)
    weak = make_record(**WEAK, rounds=14, noise=0.002, noise_seed=2, truth={"contention": contention})
    (row,) = identity_check([strong], [weak]).to_dict("records")
    assert row["meaning"].startswith(word)
    assert "which no interval within one contains" in row["meaning"]


def test_every_factor_has_the_nearest_of_the_pop_metrics() -> None:
    frame = attribution([make_record(world_size=4)])
    assert by_factor(frame, "pop") == POP
    text = pop_text(frame["factor"])
    assert "heterogeneity ~ load balance, synchronisation ~ serialisation, data movement ~ transfer" in text
    assert "batch x contention x DDP ~ computation scaling" in text
    assert "batch" not in pop_text(attribution([make_record(**WEAK)])["factor"])


def test_a_note_tells_whether_disturbed_rounds_are_left_out() -> None:
    half = efficiency(make_record(rounds=4, foreign={0: 0.9, 1: 0.9}))
    assert "2 of 4 rounds disturbed, they are left out" in half.reason
    every = efficiency(make_record(rounds=4, foreign=dict.fromkeys(range(4), 0.9)))
    assert "4 of 4 rounds disturbed, all are kept" in every.reason
