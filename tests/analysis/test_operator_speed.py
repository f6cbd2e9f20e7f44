"""Estimates of an operator benchmark: ratios within rounds, blanks with their reason, one table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from bench_records import SHAPES, TIMES_MS, bench_record

from kanstudy.analysis import operator_speed
from kanstudy.bench_record import BenchRecord, Timing


def row(record: BenchRecord, name: str, layers: str = "64-64-1") -> pd.Series:
    frame = operator_speed.estimates(record)
    found = frame[(frame["candidate"] == name) & (frame["layers"] == layers)]
    assert len(found) == 1
    return found.iloc[0]


def test_ratios_are_taken_within_rounds_so_that_drift_falls_out():
    record = bench_record()
    for name, step_ms in TIMES_MS.items():
        found = row(record, name)
        for column, ratio in (
            ("floor_ratio", step_ms / 2.0),
            ("fused_ratio", step_ms / 2.2),
            ("speedup", 20.0 / step_ms),
        ):
            assert found[[column, f"{column}_low", f"{column}_high"]].to_numpy(float) == pytest.approx(ratio)
        assert found["step_time_s_low"] < found["step_time_s"] < found["step_time_s_high"]  # which drifts
        assert (found["method"], found["n_rounds"]) == ("bootstrap", 12)


def test_a_row_for_every_candidate_and_shape_in_the_records_order():
    frame = operator_speed.estimates(bench_record())
    assert list(frame["candidate"]) == [*TIMES_MS, "flashkan"] * 2
    assert list(frame["layers"].unique()) == ["64-64-1", "128-64-1"]
    assert frame["memory_ratio"].dropna().tolist() == [0.5, 1.0, 1.5, 2.0] * 2


def test_few_rounds_have_the_interval_of_order_statistics_and_fewer_none():
    assert row(bench_record(8), "fused")["method"] == "order statistics"
    found = row(bench_record(3), "fused")
    assert found["floor_ratio"] == pytest.approx(1.1)
    assert math.isnan(found["floor_ratio_low"])


def test_what_is_not_there_is_blank_with_its_reason():
    found = row(bench_record(), "flashkan")
    blanks = ["step_time_s", "floor_ratio", "peak_bytes", "basis_error_5", "first_step_warm_s"]
    assert found[blanks].isna().all()
    assert found["reason"] == "timing, memory, accuracy: absent: is not installed"
    assert row(bench_record(), "floor")["reason"] == "accuracy: has no basis functions"
    assert row(bench_record(), "fused")["reason"] == ""


def test_without_a_floor_there_are_times_but_no_ratio_to_it():
    record = bench_record()
    record.cell(SHAPES[0], "floor").timing = Timing(status="failed", reason="boom")
    found = row(record, "pykan")
    assert math.isnan(found["floor_ratio"])
    assert found["fused_ratio"] == pytest.approx(50 / 2.2)
    assert found["n_rounds"] == 12


def test_the_table_is_saved_in_three_forms_and_says_what_it_rests_on(tmp_path):
    record = bench_record()
    operator_speed.save(record, tmp_path)
    text = (tmp_path / "operator_speed.md").read_text()
    assert "1.10 [1.10, 1.10]" in text
    assert "1.2e-07" in text
    assert "0.2500" in text  # the loss
    assert "absent: is not installed" in text
    assert "A processor, 1 thread(s)" in text
    assert "Medians of 12 rounds" in text
    table = pd.read_csv(tmp_path / "operator_speed.csv")
    assert table.loc[1, "basis_error_5"] == 1.25e-7
    assert np.isclose(table.loc[1, "floor_ratio"], 1.1)
    assert r"\toprule" in (tmp_path / "operator_speed.tex").read_text()
    assert "| fused" in operator_speed.table(record)


def test_an_incomplete_measurement_says_so():
    assert "not complete" in operator_speed.caption(bench_record(status="partial"))
    assert "not complete" not in operator_speed.caption(bench_record())
