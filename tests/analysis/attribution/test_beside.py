from __future__ import annotations

import numpy as np
import pytest
from fabricate import empty_arms, make_record

from kanstudy.analysis.attribution.beside import beside
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.view import shown


def instrumented(steps: int = 7, **changes):
    record = make_record(world_size=2, **changes)
    arm = record.arms["ddp"]
    arm.data_wait_s = [[0.001] * steps, [0.002] * steps]
    arm.forward_s, arm.backward_s = [[0.007] * steps] * 2, [[0.009] * steps] * 2
    arm.optimizer_s = [[0.002] * steps] * 2
    return record


def test_load_balance_is_mean_over_maximum_of_the_ranks_without_communication() -> None:
    record = make_record(world_size=4)
    for item in record.arms["ddp_noop"].rounds:
        item.rank_step_times_s = [[1.0, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    row = beside([record]).iloc[0]
    assert row["load_balance"] == pytest.approx((2 + 1 + 1 + 1) / 4 / 2)
    assert row["load_balance_arm"] == "ddp_noop"
    assert row["load_balance_low"] <= row["load_balance"] <= row["load_balance_high"]


def test_load_balance_leaves_disturbed_rounds_out_and_falls_back_to_plain_modules() -> None:
    record = make_record(world_size=2, rounds=13, foreign={0: 0.9})
    record.arms["ddp_noop"].rounds[0].rank_step_times_s = [[1e6] * 2, [1.0] * 2]
    (row,) = beside([record]).to_dict("records")
    assert row["n_disturbed"] == 1
    assert row["load_balance_low"] > 0.9
    plain = make_record(world_size=2, arms=("serial_local", "concurrent", "ddp"))
    assert beside([plain])["load_balance_arm"].tolist() == ["concurrent"]
    assert np.isnan(beside([make_record(world_size=1)])["load_balance"].iloc[0])


@pytest.mark.parametrize(("steps", "has_interval"), [(7, True), (5, False)])
def test_data_wait_is_the_slowest_ranks_share_of_an_instrumented_step(steps: int, has_interval: bool) -> None:
    row = beside([instrumented(steps)]).iloc[0]
    assert row["data_wait_share"] == pytest.approx(0.002 / 0.020)
    assert np.isfinite(row["data_wait_share_low"]) == has_interval


def test_every_point_is_a_row_that_leads_back_and_nothing_is_nothing() -> None:
    failed = empty_arms(make_record(world_size=4, status="failed"))
    frame = beside([instrumented(), failed])
    assert set(frame["point_id"]) == {instrumented().point_id, failed.point_id}
    assert np.isnan(frame.set_index("world_size").loc[4, "load_balance"])
    cells = shown(frame, layouts.BESIDE)
    assert {"load balance", "data wait (% of a step)", "point"} <= set(cells)
    assert beside([]).columns.tolist() == frame.columns.tolist()
