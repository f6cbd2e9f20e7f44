from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.layout import layout_of, layout_text


@pytest.mark.parametrize(
    ("placement", "p", "layout", "text"),
    [
        ("packed", 1, (1,), "1x1"), ("packed", 2, (2,), "1x2"), ("packed", 5, (2, 2, 1), "2+2+1"),
        ("spread", 2, (1, 1), "2x1"), ("spread", 4, (1, 1, 1, 1), "4x1"), ("spread", 6, (2, 2, 1, 1), "2+2+1+1"),
    ],
)  # fmt: skip
def test_four_nodes_of_two_ranks(placement: str, p: int, layout: tuple[int, ...], text: str) -> None:
    assert layout_of(p, placement, ranks_per_node=2, nodes=4) == layout
    assert layout_text(layout) == text


@given(p=st.integers(1, 600), most=st.integers(1, 8), nodes=st.integers(1, 64))
def test_no_rank_is_lost_and_nodes_are_as_few_or_as_many_as_there_can_be(p: int, most: int, nodes: int) -> None:
    packed, spread = (layout_of(p, placement, most, nodes) for placement in ("packed", "spread"))
    assert sum(packed) == sum(spread) == p
    assert min(*packed, *spread) >= 1
    assert max(packed) <= most
    assert len(packed) == -(-p // most)
    assert len(spread) == min(p, nodes)
    assert max(spread) - min(spread) <= 1
