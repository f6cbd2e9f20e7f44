"""What differs in how two results were made."""

from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis.comparison.conditions import differences
from kanstudy.analysis.comparison.sides import Side

PROVENANCE = {
    "utc": "2026-11-01T04:17:21+00:00",
    "git": {"commit": "605144393b02d5c7deddb0383965aaed26d7da45", "dirty": False},
    "python": "3.11.7",
    "packages": {"torch": "2.13.0"},
    "settings": {"OMP_NUM_THREADS": "1"},
    "conditions": {"hosts": ["a"], "versions": {"cuda": None}},
}


def rows(a: list, b: list) -> dict[str, tuple[str, str]]:
    frame = differences(Side("A", "here", a), Side("B", "there", b))
    return {row.condition: (row.a, row.b) for row in frame.itertuples()}


def record(changes: dict, **settings):
    return make_record(rounds=2, fields={"provenance": PROVENANCE | changes}, **settings)


def test_equal_conditions_are_no_rows() -> None:
    assert rows([record({})], [record({})]) == {}


def test_every_difference_is_a_row_with_both_values() -> None:
    other = {
        "utc": "2026-12-01T00:00:00+00:00",
        "git": {"commit": "d3c5a10b3155ffff", "dirty": True},
        "packages": {"torch": "2.6.0"},
        "settings": {"OMP_NUM_THREADS": "2"},
    }
    found = rows([record({})], [record(other, source="simulated", device_name="A100", launches=2, seed=4)])
    assert found == {
        "source": ("measured", "simulated"),
        "device name": ("test CPU", "A100"),
        "seed": ("0", "4"),
        "launches": ("1", "2"),
        "day": ("2026-11-01", "2026-12-01"),
        "commit": ("605144393b02", "d3c5a10b3155 and changes"),
        "torch": ("2.13.0", "2.6.0"),
        "OMP_NUM_THREADS": ("1", "2"),
    }


def test_all_values_of_a_side_are_told_and_what_is_not_known_is_none() -> None:
    bare = make_record(rounds=2)
    found = rows([record({})], [bare])
    assert found["torch"] == ("2.13.0", "none")
    two = rows([record({}), record({}, block_s=2.0)], [record({})])
    assert two == {"block s": ("1, 2", "1")}
