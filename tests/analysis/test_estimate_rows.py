from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis import rows
from kanstudy.analysis.paired import PairedArms


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
