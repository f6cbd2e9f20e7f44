from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.emulated_link import EmulatedLink, parse


def test_a_rate_is_in_bits_and_a_latency_one_way():
    assert parse("100mbit:1.5ms") == EmulatedLink(bytes_per_s=12.5e6, latency_s=1.5e-3)


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_what_is_written_is_read_again(mbit, tenths):
    link = EmulatedLink(bytes_per_s=mbit * 125_000.0, latency_s=tenths / 1e4)
    assert str(parse(str(link))) == str(link)


@pytest.mark.parametrize("text", ["", "100mbit", "100:1", "100mbit:1s", "0mbit:1ms", "20000mbit:1ms", "1mbit:5000ms"])
def test_what_is_no_link_is_told_what_one_is(text):
    with pytest.raises(ValueError, match="such as 100mbit:1ms, at 1 to 10000 Mbit/s and 0 to 1000 ms"):
        parse(text)
