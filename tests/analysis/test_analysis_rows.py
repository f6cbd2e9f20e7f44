from __future__ import annotations

import numpy as np
import pandas as pd
from fabricate import make_record

from kanstudy.analysis import rows
from kanstudy.analysis.statistics.paired_arms import PairedArms


def test_a_row_leads_with_the_point_and_ends_with_how_far_to_trust_it() -> None:
    record = make_record(rounds=5, launches=2, foreign={1: 0.5})
    ((same, head),) = rows.heads([record])
    assert same is record
    assert tuple(head) == rows.HEAD
    tail = rows.tail(record, PairedArms(record), "why")
    assert tuple(tail) == rows.QUALITY
    assert (tail["n_rounds"], tail["n_disturbed"], tail["launches"], tail["reason"]) == (8, 2, 2, "why")
    frame = rows.frame([head | tail], ("plain",), ("value",))
    assert list(frame) == [*rows.HEAD, "plain", "value", "value_low", "value_high", *rows.QUALITY]
    assert list(rows.frame([], ("plain",), ("value",))) == list(frame)


def test_surroundings_are_the_conditions_but_for_the_ranks() -> None:
    conditions = {"hosts": ["a", "b"], "ranks": [{"device_name": "x"}] * 2, "versions": {"torch": "2"}}
    alone = make_record(world_size=1, rounds=1, fields={"provenance": {"conditions": conditions | {"hosts": ["a"]}}})
    both = make_record(world_size=2, rounds=1, fields={"provenance": {"conditions": conditions}})
    newer = conditions | {"versions": {"torch": "3"}}
    other = make_record(world_size=2, rounds=1, seed=1, fields={"provenance": {"conditions": newer}})
    failed = make_record(world_size=2, rounds=0, seed=2, status="failed", fields={"conditions": None})
    one, two, three, four = [head["surroundings"] for _, head in rows.heads([alone, both, other, failed])]
    assert one == two != three
    assert pd.isna(four)


def test_values_are_written_with_their_interval() -> None:
    row = pd.Series({"x": 0.931, "x_low": 0.912, "x_high": 0.949})
    assert rows.value_text(row, "x") == "0.93 [0.91, 0.95]"
    row["x_low"] = np.nan
    assert rows.value_text(row, "x") == "0.93 (no interval)"
