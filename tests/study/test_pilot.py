from __future__ import annotations

import numpy as np
import pytest
from profiles_for_tests import MACHINE, STRONG, profile_of

from kanstudy.record import Record, Round, blank_record
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.study.experiments import plan
from kanstudy.study.pilot import forecasts
from kanstudy.study.plan import ExperimentPlan


@pytest.fixture
def adaptive(tmp_path) -> ExperimentPlan:
    tables = STRONG + "rounds = 0\ntarget_width = 0.05\n"
    return plan(profile_of(tmp_path, tables, machine=MACHINE), "strong_scaling")


def measured(plan: ExperimentPlan, number: int, rounds: int, noise: float) -> Record:
    point = plan.points[number]
    run = RunSpec(
        profile="tiny", experiment="strong_scaling", points=(point,), data_files={data_key(point): ""},
        results_dir="", progress_file="", rounds={point.point_id: rounds},
    )  # fmt: skip
    record, rng = blank_record(point, run), np.random.default_rng(1)
    for arm in record.arms.values():
        arm.rounds = [
            Round(
                launch=0, attempt=1, index=i, order=0, active_ranks=[0],
                rank_step_times_s=[[float(np.exp(noise * rng.standard_normal()))]], rank_block_times_s=[1.0],
                reference_kernel_s=[1e-3], foreign_cpu_share=[None], minor_faults=[None], started_utc="",
            )
            for i in range(rounds)
        ]  # fmt: skip
    return record


def test_without_records_nothing_is_promised(adaptive, tmp_path):
    (line,) = forecasts(adaptive, tmp_path)
    assert "nothing is known yet of the width that can be reached at any of 2 points" in line


def test_rounds_that_are_there_say_what_can_be_reached(adaptive, tmp_path):
    write_record(measured(adaptive, 0, 13, noise=0.02), tmp_path)
    write_record(measured(adaptive, 1, 13, noise=1.0), tmp_path)
    calm, wild = forecasts(adaptive, tmp_path)
    assert "±2.5% wanted" in calm
    assert "after 13 rounds; about" in calm
    assert "should do" in calm
    assert "not within 100 rounds, which reach about ±" in wild


def test_too_few_rounds_say_nothing(adaptive, tmp_path):
    write_record(measured(adaptive, 0, 5, noise=0.02), tmp_path)
    write_record(measured(adaptive, 1, 6, noise=0.02), tmp_path)
    few, six = forecasts(adaptive, tmp_path)
    assert few.endswith("nothing is known yet of the width that can be reached")
    assert "after 6 rounds" in six


def test_a_plan_of_fixed_rounds_asks_for_no_width(tmp_path):
    assert forecasts(plan(profile_of(tmp_path, STRONG, machine=MACHINE), "strong_scaling"), tmp_path) == []
