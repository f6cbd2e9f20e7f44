"""Tables that were made again are compared value by value."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanstudy.analysis.tables.unequal import unequal

TABLE = b"point,value\na,0.123456789\nb,\n"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (TABLE, None),
        (b"point,value\na,0.12345678900000001\nb,\n", None),
        (b"point,value\na,0.1234568\nb,\n", "not the same"),
        (b"point,value\na,0.123456789\nb,1\n", "not the same"),
        (b"point,value\na,0.123456789\n", "not the same"),
        (b"point,other\na,0.123456789\nb,\n", "not the same"),
        (b"", "not the same"),
        (None, "was not made"),
    ],
)
def test_tables_are_the_same_up_to_rounding(tmp_path: Path, now: bytes | None, said: str | None) -> None:
    if now is not None:
        (tmp_path / "t.csv").write_bytes(now)
    told = unequal({"t.csv": TABLE}, tmp_path)
    assert len(told) == (said is not None)
    if said:
        assert told[0].startswith(f"t.csv: {said}")
        assert "\n" not in told[0]
