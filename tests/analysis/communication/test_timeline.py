"""Timelines made by hand, in units of milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis.communication.timeline import timeline

TIMES = st.floats(0, 100)


def test_one_bucket_at_the_end_of_backward_is_wholly_exposed() -> None:
    found = timeline([10], [4], 10)
    assert (found.total_s, found.exposed_s, found.hidden_s) == (4, 4, 0)


def test_a_bucket_that_arrives_during_backward_is_wholly_hidden() -> None:
    found = timeline([2, 10], [3, 1], 10)
    assert found.starts_s.tolist() == [2, 10]
    assert found.arrived_s.tolist() == [5, 11]
    assert (found.exposed_s, found.hidden_s) == (1, 3)


def test_buckets_queue_on_one_stream() -> None:
    """The second is ready at 4 but waits for the first until 8; the third, ready at 10, until 14."""
    found = timeline([2, 4, 10], [6, 6, 2], 10)
    assert found.starts_s.tolist() == [2, 8, 14]
    assert found.arrived_s.tolist() == [8, 14, 16]
    assert (found.total_s, found.exposed_s, found.hidden_s) == (14, 6, 8)


def test_on_two_streams_they_run_at_once() -> None:
    found = timeline([2, 4, 10], [6, 6, 2], 10, streams=2)
    assert found.starts_s.tolist() == [2, 4, 10]
    assert found.arrived_s.tolist() == [8, 10, 12]
    assert (found.exposed_s, found.hidden_s) == (2, 12)


def test_on_two_streams_a_third_takes_the_one_that_is_free_first() -> None:
    found = timeline([0, 0, 0], [8, 3, 4], 5, streams=2)
    assert found.starts_s.tolist() == [0, 0, 3]
    assert found.arrived_s.tolist() == [8, 3, 7]
    assert (found.total_s, found.exposed_s, found.hidden_s) == (15, 3, 12)


def test_a_bucket_does_not_overtake_the_one_before_it() -> None:
    """Gradients of the second are complete first; DDP keeps the order, on which the ranks must agree."""
    found = timeline([6, 2], [1, 1], 6, streams=2)
    assert found.starts_s.tolist() == [6, 6]


def test_backward_that_outlasts_the_last_bucket_exposes_nothing() -> None:
    found = timeline([2, 4], [1, 1], 10)
    assert (found.exposed_s, found.hidden_s) == (0, 2)


def test_a_bucket_that_comes_after_backward_ended_is_waited_for_beyond_its_own_time() -> None:
    found = timeline([12], [1], 10)
    assert (found.exposed_s, found.hidden_s) == (3, -2)


def test_without_a_link_nothing_is_exposed() -> None:
    found = timeline([3, 10], [0, 0], 10)
    assert (found.total_s, found.exposed_s, found.hidden_s) == (0, 0, 0)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=8), st.integers(1, 4))
def test_laws_of_every_timeline(buckets: list[tuple[float, float]], streams: int) -> None:
    ready, durations = [list(values) for values in zip(*buckets, strict=True)]
    ready.sort()
    end = ready[-1]
    found = timeline(ready, durations, end, streams)
    alone = timeline(ready, durations, end)
    assert found.hidden_s + found.exposed_s == pytest.approx(found.total_s)
    assert all(start >= complete for start, complete in zip(found.starts_s, ready, strict=True))
    # the last bucket has nothing to hide behind, and more streams never expose more
    assert durations[-1] <= found.exposed_s + 1e-9
    assert found.exposed_s <= alone.exposed_s + 1e-9 <= found.total_s + 2e-9
    later = timeline(ready, [2 * duration for duration in durations], end, streams)
    assert later.exposed_s >= found.exposed_s - 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], 1), "at least one"),
        (([1, 2], [1], 1), "durations_s of shape"),
        (([1], [-1], 1), "must be >= 0"),
        (([1], [1], 1, 0), "streams = 0"),
    ],
)
def test_bad_input_is_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        timeline(*arguments)
