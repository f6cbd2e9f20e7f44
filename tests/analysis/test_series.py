from __future__ import annotations

import pandas as pd
import pytest
from fabricate import make_record

from kanstudy.analysis.series import SERIES_KEYS, WORK_KEYS, series_keys, series_labels, told_apart


def test_what_work_shares_is_part_of_what_a_series_shares() -> None:
    assert set(WORK_KEYS) < set(SERIES_KEYS)
    record = make_record()
    assert all(hasattr(record, name) for name in WORK_KEYS)


@pytest.mark.parametrize("name", ["block_s", "warmup_s", "seed", "experiment", "scaling"])
def test_how_it_was_measured_is_not_the_work(name: str) -> None:
    assert name in SERIES_KEYS
    assert name not in WORK_KEYS


def test_labels_grow_only_as_long_as_they_must() -> None:
    frame = pd.DataFrame({"dtype": ["float32"] * 3, "grid_size": [5, 5, 10], "tf32": [True, False, False]})
    labels = pd.Series(["KAN"] * 3)
    assert told_apart(labels, frame).tolist() == ["KAN, grid 5, tf32 True", "KAN, grid 5, tf32 False",
                                                  "KAN, grid 10, tf32 False"]  # fmt: skip
    assert told_apart(labels, frame[["dtype"]]).tolist() == ["KAN"] * 3
    assert told_apart(labels, frame[["grid_size"]]).tolist() == ["KAN, grid 5", "KAN, grid 5", "KAN, grid 10"]


def test_points_over_different_links_never_share_a_line() -> None:
    records = [make_record(link=link) for link in ("", "100mbit:1ms", "100mbit:2ms", "100mbit:1ms")]
    for record in records:  # even if the source did not tell, and both had run on the same hosts
        record.source = "emulated"
    assert len(set(series_keys(records))) == 3
    assert len(set(series_labels(records))) == 3
