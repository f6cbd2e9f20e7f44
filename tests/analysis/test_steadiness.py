from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fabricate import make_point, make_record
from hypothesis import given
from hypothesis import strategies as st
from simulated import simulate

from kanstudy.analysis import plots
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.steadiness import COLUMNS, holm, notable, outliers, rounds, sentences, steadiness
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.view import view
from kanstudy.record import Record, Round

POINT = make_point(world_size=2, block_s=0.05, warmup_steps=1, warmup_s=0.0)
NOISE = {"step_sd": 0.02, "block_sd": 0.01}


def measured(n: int = 20, launches: int = 1, seed: int = 0, **noise: float) -> Record:
    return simulate([POINT], MachineModel(launch_s=1e-3, noise=Noise(**(NOISE | noise))), n, launches, seed)[0]


def changed(record: Record, arm: str, factor: Callable[[Round], float]) -> Record:
    """The record with the times of an arm's rounds multiplied."""
    items = [
        replace(item, rank_step_times_s=[[factor(item) * step for step in steps] for steps in item.rank_step_times_s])
        for item in record.arms[arm].rounds
    ]
    return replace(record, arms=record.arms | {arm: replace(record.arms[arm], rounds=items)})


def said(record: Record) -> str:
    return sentences([record], steadiness([record]))["sentence"].item()


def test_a_steady_record_is_said_to_be_steady() -> None:
    text = said(measured())
    assert "no slow first steps can be told and no drift can be told" in text
    assert "0 of 20 rounds disturbed" in text
    assert text.startswith("Strong scaling, KAN synthetic:32:1, simulated, 2 ranks: ")
    assert POINT.point_id in text


def test_steady_records_are_seldom_called_unsteady() -> None:
    texts = [said(measured(12, seed=seed)) for seed in range(60)]
    assert sum("drifted" in text or "warm-up is due" in text for text in texts) <= 7


def test_only_what_is_not_steady_is_notable_and_the_rest_is_counted() -> None:
    records = [measured(), measured(), measured(), measured(cold_steps=3, cold_factor=1.5)]
    said_of_each = pd.DataFrame({"sentence": [said(record) for record in records]})
    first, rest = notable(said_of_each)
    assert "a longer warm-up is due" in first
    assert rest == "3 of 4 points: no slow first steps can be told and no drift can be told."
    assert notable(said_of_each.head(0)) == []


def test_cold_first_steps_ask_for_a_longer_warm_up() -> None:
    record = measured(cold_steps=3, cold_factor=1.5)
    table = steadiness([record])
    assert (table["first_steps"] > 1).any()
    assert "a longer warm-up is due: the first steps of a block are slower in" in said(record)


def test_a_drift_that_all_arms_share_is_told_from_one_of_an_arm() -> None:
    shared = measured(drift_per_round=0.01)
    assert "drifted over the rounds, but not against the others: ratios hold" in said(shared)
    alone = changed(measured(), "ddp", lambda item: np.exp(0.01 * item.index))
    assert "ddp drifted against the other arms: ratios moved over the rounds" in said(alone).replace("concurrent, ", "")
    row = steadiness([alone]).set_index("arm").loc["ddp"]
    assert row["drift"] > 0.5
    assert row["relative_drift"] > 0.5


def test_what_differs_between_launches_is_no_drift() -> None:
    assert "no drift can be told" in said(measured(10, launches=4, launch_sd=0.2))


def test_an_outlier_is_marked_shown_and_kept() -> None:
    record = changed(measured(), "ddp", lambda item: 2.0 if item.index == 7 else 1.0)
    marked = rounds([record])
    found = marked[marked["outlier"] & (marked["arm"] == "ddp")]
    assert 7 in found["round"].tolist()
    assert len(marked[marked["arm"] == "ddp"]) == 20, "all rounds are there"
    assert steadiness([record]).set_index("arm").loc["ddp", "n_outliers"] == len(found)
    assert "of 100 blocks, kept" in said(record)
    axis = plots.steadiness.rounds_in_order(marked).axes[0]
    hollow = [line for line in axis.lines if line.get_markerfacecolor() == "none"]
    assert sum(len(line.get_xdata()) for line in hollow) == marked["outlier"].sum()
    dots = [line for line in axis.lines if line.get_linestyle() == "None"]
    assert sum(len(line.get_xdata()) for line in dots) == len(marked)


def test_disturbed_rounds_are_crosses() -> None:
    record = measured(burst_share=0.3)
    marked = rounds([record])
    axis = plots.steadiness.rounds_in_order(marked).axes[0]
    crosses = [line for line in axis.lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in crosses) == marked["disturbed"].sum() > 0
    disturbed = steadiness([record])["n_disturbed"].iloc[0]
    assert f"{disturbed} of 20 rounds disturbed" in said(record)


@pytest.mark.parametrize(("n", "text"), [(1, "1 round is"), (5, "5 rounds are")])
def test_few_rounds_tell_nothing(n: int, text: str) -> None:
    record = measured(n)
    assert steadiness([record])[["first_steps_p", "drift_p", "relative_drift_p"]].isna().all(axis=None)
    assert f"{text} too few to tell whether it was steady" in said(record)


def test_rounds_that_do_not_vary_have_no_drift_and_no_outliers() -> None:
    record = make_record(noise=0.0, drift=0.0)
    table = steadiness([record])
    assert table[["drift_p", "relative_drift_p"]].isna().all(axis=None)
    assert (table["n_outliers"] == 0).all()
    assert "no drift can be told" in said(record)


def test_a_block_with_a_step_that_is_missing_tells_nothing_of_its_first_steps() -> None:
    record = measured()
    for arm in record.arms.values():
        arm.rounds[3].rank_step_times_s[0][1] = None  # type: ignore[call-overload]  # NaN, as a record is read
    table = steadiness([record])
    assert (table["first_steps_p"] > 0.001).all()
    assert "no slow first steps can be told" in sentences([record], table)["sentence"][0]


def test_without_rounds_there_is_a_sentence_and_no_row() -> None:
    record = measured()
    empty = replace(record, arms={name: replace(arm, rounds=[]) for name, arm in record.arms.items()})
    assert list(steadiness([empty]).columns) == COLUMNS
    assert steadiness([]).empty
    assert "no round is measured" in said(empty)
    assert "No round is measured" in " ".join(
        text.get_text() for text in plots.steadiness.rounds_in_order(rounds([empty])).texts
    )


def test_the_tables_show_it() -> None:
    table = steadiness([measured(8)])
    shown = view(table, layouts.STEADINESS)
    assert len(shown.cells) == 5
    assert "first steps over the rest" in shown.cells
    assert list(sentences([measured(8)], table)["point_id"]) == [POINT.point_id]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_values_are_no_smaller_and_keep_their_order(values: list[float]) -> None:
    p = np.array([*values, np.nan])
    found = holm(p)
    assert np.isnan(found[-1])
    assert (found[:-1] >= p[:-1]).all()
    assert (found[:-1] <= 1).all()
    assert np.isclose(found[:-1].min(), min(1, len(values) * min(values)))
    order = np.argsort(p[:-1], kind="stable")
    assert (np.diff(found[:-1][order]) >= 0).all()


def test_outliers_are_relative_to_the_usual_spread() -> None:
    assert outliers(np.array([-1.0, 0.0, 1.0, 0.5, -0.5, 20.0])).tolist() == [False] * 5 + [True]
    assert not outliers(np.zeros(5)).any()
    assert not outliers(pd.Series(dtype=float).to_numpy()).any()
