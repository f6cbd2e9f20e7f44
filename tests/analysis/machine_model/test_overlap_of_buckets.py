from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis.machine_model.overlap import exposed_s

times = st.floats(0, 10).map(lambda value: round(value, 6))
buckets = st.lists(st.tuples(st.floats(0.01, 1), times, times), min_size=1, max_size=6)


def arrays(drawn: list[tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gaps, delays, transfers = (np.array(values) for values in zip(*drawn, strict=True))
    ready = np.cumsum(gaps) / gaps.sum()
    ready[-1] = 1.0
    return ready, delays, transfers


@given(drawn=buckets, backward=st.lists(times, min_size=1, max_size=5))
def test_one_stream_sends_one_after_the_other(drawn: list, backward: list[float]) -> None:
    ready, delays, transfers = arrays(drawn)
    found = exposed_s(np.array(backward), ready, delays, transfers)
    for value, whole in zip(found, backward, strict=True):
        arrived = 0.0
        for share, cost in zip(ready, delays + transfers, strict=True):
            arrived = max(arrived, share * whole) + cost
        assert value == pytest.approx(arrived - whole, rel=1e-9, abs=1e-9)


@given(drawn=buckets, backward=times, slowdown=st.floats(0, 2), streams=st.sampled_from([1, 2]))
def test_laws(drawn: list, backward: float, slowdown: float, streams: int) -> None:
    ready, delays, transfers = arrays(drawn)
    whole = np.array(backward)
    found = float(exposed_s(whole, ready, delays, transfers, streams, slowdown))
    total = float((delays + transfers).sum())
    assert found >= delays[-1] + transfers[-1] - 1e-9, "the last bucket is never hidden"
    assert found <= total * (1 + slowdown) + 1e-9, "no more than all of it, and what it slows"
    assert float(exposed_s(whole, ready, delays, transfers, 2, slowdown)) <= (
        float(exposed_s(whole, ready, delays, transfers, 1, slowdown)) + 1e-6
    ), "a second stream never holds up"
    if streams == 1 and slowdown == 0:
        assert float(exposed_s(2 * whole, ready, delays, transfers)) <= found + 1e-9, "a longer backward hides more"
    assert found == pytest.approx(
        float(exposed_s(np.array([backward, 1.0]), ready, delays, transfers, streams, slowdown)[0]), abs=1e-9
    )


def test_two_streams_share_the_bandwidth_but_not_the_delays() -> None:
    """Both ready at the end of backward: delays pass together, then both move at half the rate."""
    ready, delays = np.array([1.0, 1.0]), np.array([1.0, 1.0])
    one, two = (float(exposed_s(np.array(5.0), ready, delays, np.array([2.0, 4.0]), n)) for n in (1, 2))
    assert one == pytest.approx(8)
    assert two == pytest.approx(1 + 4 + 2)
    without = (exposed_s(np.array(5.0), ready, 0 * delays, np.array([2.0, 4.0]), n) for n in (1, 2))
    assert [float(value) for value in without] == pytest.approx([6, 6])


def test_a_second_stream_is_for_the_bucket_after_the_next() -> None:
    """The third waits for the first to arrive, not for the second."""
    ready = np.array([1.0, 1.0, 1.0])
    found = exposed_s(np.array(1.0), ready, np.array([1.0, 10.0, 3.0]), np.zeros(3), 2)
    assert float(found) == pytest.approx(10)


def test_two_streams_leave_in_order_and_a_third_waits_for_the_one_that_is_free_first() -> None:
    """Of 8, 3 and 4, all ready at once, the third leaves at 3 and arrives at 7, before the first."""
    ready, nothing = np.array([0.2, 0.4, 1.0]), np.zeros(3)
    one, two = (float(exposed_s(np.array(10.0), ready, np.array([6.0, 6.0, 2.0]), nothing, n)) for n in (1, 2))
    assert (one, two) == (pytest.approx(6), pytest.approx(2)), "2 to 8, 8 to 14, 14 to 16; 2 to 8, 4 to 10, 10 to 12"
    found = exposed_s(np.array(5.0), np.zeros(3), np.array([8.0, 3.0, 4.0]), nothing, 2)
    assert float(found) == pytest.approx(3)


def test_when_buckets_are_ready_may_differ_from_one_backward_to_the_next() -> None:
    ready, backward = np.array([[0.1, 0.5], [0.5, 1.0], [0.5, 1.2]]), np.array([10.0, 10.0, 10.0])
    found = exposed_s(backward, ready, np.zeros(2), np.array([1.0, 3.0]))
    assert found == pytest.approx([-2.0, 3.0, 5.0]), "it is negative where backward outlasts the last"


def test_backward_is_slower_while_a_bucket_travels() -> None:
    """The first is under way for 2 s, in which backward does 1 s of the 5 that are left."""
    ready, free = np.array([0.5, 1.0]), np.zeros(2)
    found = exposed_s(np.array(10.0), ready, free, np.array([2.0, 3.0]), 1, slowdown=1.0)
    assert float(found) == pytest.approx(1 + 3)
    beyond = exposed_s(np.array(10.0), ready, free, np.array([20.0, 3.0]), 1, slowdown=1.0)
    assert float(beyond) == pytest.approx(5 + 20 - 10 + 3), "backward ends under way, at 15 s"


def test_the_shape_is_that_of_backward() -> None:
    backward = np.linspace(0, 1, 24).reshape(2, 3, 4)
    assert exposed_s(backward, np.array([1.0]), np.array([0.1]), np.array([0.2])).shape == (2, 3, 4)
    assert exposed_s(backward, np.array([1.0]), np.array([0.1]), np.array([0.2])) == pytest.approx(0.3)


def test_a_bucket_that_never_arrives_is_waited_for_without_end() -> None:
    found = exposed_s(np.array([5.0, 1.0]), np.array([0.5, 1.0]), np.zeros(2), np.array([1.0, np.inf]))
    assert list(found) == [np.inf, np.inf]
