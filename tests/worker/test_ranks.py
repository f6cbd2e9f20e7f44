from __future__ import annotations

import pytest

from kanstudy.worker.ranks import place


@pytest.mark.parametrize(
    ("world_size", "placement", "expected"),
    [
        (1, "packed", (0,)),
        (2, "packed", (0, 1)),
        (2, "spread", (0, 2)),
        (3, "spread", (0, 1, 2)),
        (4, "spread", (0, 1, 2, 3)),
    ],
)
def test_placement_on_two_hosts_of_two(world_size: int, placement: str, expected: tuple[int, ...]) -> None:
    assert place(["a", "a", "b", "b"], world_size, placement) == expected


def test_spread_does_not_rely_on_the_order_of_hosts() -> None:
    assert place(["a", "b", "a", "b"], 2, "spread") == (0, 1)
