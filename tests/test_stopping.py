from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.record import Arm, Record, Round, blank_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import ARMS, PointSpec, SpecError
from kanstudy.stopping import (
    LOOKS,
    MOST,
    NARROW,
    ON,
    TIME,
    decision,
    decisions,
    half_width,
    log_ratios,
    look,
    out_of_time,
)
from kanstudy.wanted import Wanted

VALUES = {"global_batch_size": 8, "dataset": "synthetic:3:1", "n_samples": 64, "layer_widths": (3, 2, 1)}
POINT = PointSpec(experiment="strong_scaling", scaling="strong", world_size=2, arms=ARMS, **VALUES)


def run_of(point: PointSpec = POINT, **changes: object) -> RunSpec:
    values = {
        "profile": "p",
        "experiment": "strong_scaling",
        "points": (point,),
        "results_dir": "",
        "progress_file": "",
    }
    values |= {"data_files": {data_key(point): ""}, "rounds": {point.point_id: 100}}
    return RunSpec(**(values | changes))


def one_round(launch: int, index: int, steps: list[list[float]]) -> Round:
    ranks = len(steps)
    return Round(
        launch=launch, attempt=1, index=index, order=0, active_ranks=list(range(ranks)), rank_step_times_s=steps,
        rank_block_times_s=[1.0] * ranks, reference_kernel_s=[1e-3] * ranks, foreign_cpu_share=[None] * ranks,
        minor_faults=[None] * ranks, started_utc="",
    )  # fmt: skip


def record_of(rounds: int, noise: float = 0.0, launches: int = 1, point: PointSpec = POINT) -> Record:
    record = blank_record(point, run_of(point, launches=launches), status="ok")
    rng = np.random.default_rng(0)
    for name, arm in record.arms.items():
        ranks = 1 if name == "serial_global" else 2
        arm.rounds = [
            one_round(launch, i, np.exp(noise * rng.standard_normal((ranks, 3))).tolist())
            for launch in range(launches)
            for i in range(rounds)
        ]
    return record


@given(st.lists(st.floats(-1, 1), max_size=110))
def test_the_width_is_that_of_the_sign_tests_interval(values: list[float]) -> None:
    from kanstudy.analysis.statistics.intervals import order_statistic_rank

    n = len(values)
    k, _ = order_statistic_rank(n)
    if n < 6:
        assert k == 0
        assert half_width(values) == math.inf
        return
    ordered = sorted(values)
    assert half_width(values) == (ordered[n - k] - ordered[k - 1]) / 2


def test_a_round_without_a_number_has_no_width() -> None:
    assert half_width([0.0] * 20 + [math.nan]) == math.inf


@pytest.mark.parametrize("arms", [ARMS, ("serial_local", "concurrent", "ddp_noop", "ddp"), ("ddp_noop", "ddp")])
def test_the_ratios_are_those_of_the_analysis(arms: tuple[str, ...]) -> None:
    from kanstudy.analysis.statistics.blocks import blocks

    record = record_of(9, 0.1, launches=2, point=dataclasses.replace(POINT, arms=arms))
    times = blocks(record).times_s.loc[1]
    base = {"serial_local": "serial_local_mean"}.get(arms[0], arms[0])
    np.testing.assert_allclose(log_ratios(record, 1), np.log(times[base] / times["ddp"]))


def test_what_has_no_ddp_to_compare_is_refused() -> None:
    record = record_of(6)
    record.arms = {"ddp": Arm()}
    with pytest.raises(ValueError, match=r"arms = \['ddp'\]: rounds are adaptive where `ddp` comes after another arm"):
        log_ratios(record, 0)


@pytest.mark.parametrize(("rounds", "noise", "why", "stops"), [
    (20, 0.0, NARROW, True), (20, 1.0, ON, False), (68, 1.0, ON, False), (100, 1.0, MOST, True),
])  # fmt: skip
def test_a_look_stops_and_says_why(rounds: int, noise: float, why: str, stops: bool) -> None:
    record = record_of(rounds, noise)
    assert look(record, 0, 0.05) is stops
    assert (decision(record, 0)["why"], decision(record, 0)["rounds"]) == (why, rounds)
    assert f"{why} at {rounds} rounds, ±" in decisions(record)
    assert decisions(record).endswith("(wanted: ±2.5%)")
    assert Wanted(100, 1, 0.05).is_complete(record) is stops
    assert Wanted(100, 1, 0.05).state(record) == ("ok" if stops else "partial")


def test_rounds_that_are_narrow_enough_for_one_plan_are_too_few_for_another() -> None:
    record = record_of(30, 0.05)
    half = half_width(log_ratios(record, 0))
    assert look(record, 0, 2 * half)
    assert Wanted(100, 1, 2 * half).is_final(record)
    assert Wanted(100, 1, 3 * half).is_final(record), "a wider one is reached, too"
    assert not Wanted(100, 1, 1.9 * half).is_final(record)
    assert not Wanted(100, 1).is_final(record), "a plan of a fixed number wants that number"
    assert not Wanted(100, 2, 2 * half).is_final(record), "the second launch has not begun"
    assert Wanted(30, 1).is_final(record)


def test_a_decision_holds_for_the_rounds_that_it_saw() -> None:
    record = record_of(20)
    assert look(record, 0, 0.05)
    for arm in record.arms.values():
        arm.rounds.pop()
    assert not Wanted(100, 1, 0.05).is_complete(record)
    assert decisions(record) == ""


def test_each_launch_is_decided_alone_and_a_spent_time_is_no_end() -> None:
    record = record_of(20, launches=2)
    assert look(record, 0, 0.05)
    out_of_time(record, 1, 0.05)
    assert [decision(record, launch)["why"] for launch in (0, 1)] == [NARROW, TIME]
    assert Wanted(100, 2, 0.05).has_launch(record, 0)
    assert not Wanted(100, 2, 0.05).has_launch(record, 1), "the next run goes on with it"
    assert "launch 0: narrow enough at 20 rounds" in decisions(record)
    assert "launch 1: the time is spent at 20 rounds" in decisions(record)


def test_it_survives_the_file(tmp_path) -> None:
    from kanstudy.record_files import read_record, write_record

    record = record_of(20, 0.01)
    half = half_width(log_ratios(record, 0))
    look(record, 0, 2 * half)
    assert Wanted(100, 1, 2 * half).is_complete(read_record(write_record(record, tmp_path))), (
        "the very width that was found"
    )


@pytest.mark.parametrize("width", [{POINT.point_id: 0.0}, {POINT.point_id: -1.0}, {POINT.point_id: True}, {"x": 0.1}])
def test_a_launch_refuses_a_width_that_is_none(width: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=r"target_width\[.*\].*must be a width > 0, of a point of the launch"):
        run_of(target_width=width)


def test_looks_are_few_and_none_is_early() -> None:
    assert LOOKS == (20, 30, 45, 68, 100)
