"""Changes between fabricated results of known truth: found where they were put in, and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fabricate import TRUTH, empty_arms, make_record

from kanstudy.analysis.comparison import changes as module
from kanstudy.analysis.comparison.changes import LARGER, NOT_TOLD, SAME, SMALLER, changes, layout, sentences
from kanstudy.analysis.comparison.sides import Side, pairs
from kanstudy.analysis.tables.view import shown
from kanstudy.record import Fault


def compare(a: list, b: list) -> pd.DataFrame:
    sides = Side("A", "here", a), Side("B", "there", b)
    return changes(*sides, pairs(*sides)[0])


def one(frame: pd.DataFrame, table: str, quantity: str, of: str = "") -> pd.Series:
    (row,) = [row for _, row in frame.iterrows() if (row["table"], row["quantity"], row["of"]) == (table, quantity, of)]
    return row


def test_a_change_is_found_in_the_factor_that_changed_and_in_no_other() -> None:
    a = make_record(rounds=30, noise=0.01, noise_seed=1)
    b = make_record(rounds=30, noise=0.01, noise_seed=2, truth={"data_movement": 0.8}, source="simulated")
    frame = compare([a], [b])
    ratio = 0.8 / TRUTH["data_movement"]
    moved = one(frame, "attribution_strong", "factor", "data movement")
    assert moved["change_low"] < ratio < moved["change_high"]
    assert (moved["by"], moved["told"]) == ("B/A", SMALLER)
    assert (moved["a_source"], moved["b_source"]) == ("measured", "simulated")
    whole = one(frame, "strong_scaling", "parallel efficiency")
    assert whole["change"] == pytest.approx(ratio, rel=0.02)
    assert whole["told"] == SMALLER
    step = one(frame, "strong_scaling", "step (ms)")
    assert step["change_low"] < 1 / ratio < step["change_high"]
    overhead = one(frame, "strong_scaling", "overhead (% of a step)")
    assert (overhead["by"], overhead["told"]) == ("B - A", LARGER)
    assert overhead["change"] == pytest.approx(overhead["b"] - overhead["a"])
    others = frame[(frame["table"] == "attribution_strong") & ~frame["of"].isin(["data movement", "efficiency"])]
    assert len(others) == 5
    assert (others["told"] == NOT_TOLD).sum() >= 4  # one of five by chance at most
    product = frame[(frame["table"] == "attribution_strong") & (frame["of"] != "efficiency")]["change"].prod()
    assert product == pytest.approx(one(frame, "attribution_strong", "factor", "efficiency")["change"])


def test_one_measurement_on_both_sides_tells_nothing() -> None:
    frame = compare([make_record()], [make_record(device_name="said to be another")])
    assert set(frame["told"]) == {SAME}
    assert frame["change"].isna().all()
    assert "very same measurement" in sentences(frame)[0]


def test_few_rounds_have_a_change_without_an_interval() -> None:
    frame = compare([make_record(rounds=3)], [make_record(rounds=3, t1=0.04)])
    step = one(frame, "strong_scaling", "step (ms)")
    assert step["change"] == pytest.approx(0.5)
    assert np.isnan(step["change_low"])
    assert step["told"] == "no interval"
    assert "too few for an interval" in step["reason"]


def test_a_point_that_failed_is_not_in_both_and_says_why() -> None:
    fault = Fault(reason="out of memory")
    failed = empty_arms(make_record(rounds=0, status="oom", error=fault))
    frame = compare([make_record(noise=0.01)], [failed])
    step = one(frame, "strong_scaling", "step (ms)")
    assert np.isfinite(step["a"])
    assert np.isnan([step["b"], step["change"]]).all()
    assert step["told"] == "not in both"
    assert "B: oom: out of memory" in step["reason"]


def test_messages_are_compared_size_by_size() -> None:
    point = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}
    a = make_record(**point, allreduce={1024: [1e-3] * 20, 2048: [2e-3] * 20})
    b = make_record(**point, allreduce={1024: [5e-4] * 20}, t1=0.1)
    frame = compare([a], [b])
    both = one(frame, "allreduce", "bus bandwidth (GB/s)", "1024 B")
    assert both["change"] == pytest.approx(2.0)
    assert both["a"] == pytest.approx(1024 / 1e-3 / 1e9)
    assert one(frame, "allreduce", "bus bandwidth (GB/s)", "2048 B")["told"] == "not in both"


def test_operators_are_compared_where_both_of_a_pair_have_partners() -> None:
    point = {"experiment": "operator_scaling", "arms": ("serial_global", "ddp_noop", "ddp"), "noise": 0.01}
    a = [make_record(**point, operator="reference", t1=0.16), make_record(**point, operator="fused", noise_seed=3)]
    b = [
        make_record(**point, operator="reference", t1=0.16, noise_seed=4),
        make_record(**point, operator="fused", t1=0.04, noise_seed=5),
    ]
    row = one(compare(a, b), "complementarity", "speed-up by the operator", "fused in place of reference")
    assert row["change"] == pytest.approx(2.0, rel=0.05)
    assert compare(a, b[:1])["table"].eq("complementarity").sum() == 0


def test_the_words_and_the_table_tell_the_sides_apart() -> None:
    a = [make_record(noise=0.01)]
    b = [make_record(noise=0.01, noise_seed=9, t1=0.04, source="simulated")]
    frame = compare(a, b)
    rows = frame[frame["table"] == "strong_scaling"]
    first, second = sentences(rows)
    assert first.startswith("Of 3 numbers with an interval")
    assert "in A (measured)" in second
    assert "in B (simulated)" in second
    sides = Side("A", "here", a), Side("B", "there", b)
    table = shown(rows, layout(*sides))
    assert {"A: here (measured)", "B: there (simulated)", "change", "which is", "so"} <= set(table)
    assert "source of A" not in table
    mixed = Side("A", "here", [*a, make_record(source="simulated", world_size=1)])
    assert "source of A" in shown(rows, layout(mixed, sides[1]))


def test_every_table_of_the_comparison_knows_its_columns() -> None:
    for name, table in module.TABLES.items():
        frame = table.frame([])
        assert set(table.quantities) <= set(frame), name
        assert {*table.within, *table.points, "reason"} <= set(frame), name
