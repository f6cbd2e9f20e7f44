"""The interval of a change: closed forms, symmetries, and how often it holds the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from kanstudy.analysis.comparison.mover import MISSING, Bounded, difference, ratio

values = st.floats(0.01, 100)
shares = st.floats(0, 0.9)


@st.composite
def bounded(draw) -> Bounded:
    value = draw(values)
    return Bounded(value, value * (1 - draw(shares)), value * (1 + draw(shares)))


@given(values, values, st.floats(0, 10), st.floats(0, 10))
def test_of_symmetric_intervals_the_half_widths_add_up_in_squares(a, b, width_a, width_b):
    found = difference(Bounded(b, b - width_b, b + width_b), Bounded(a, a - width_a, a + width_a))
    half = math.hypot(width_a, width_b)
    assert found == pytest.approx((b - a, b - a - half, b - a + half), abs=1e-9)


@given(bounded(), bounded())
def test_the_sides_can_be_exchanged(a, b):
    there, back = difference(b, a), difference(a, b)
    assert back == pytest.approx((-there.value, -there.high, -there.low), abs=1e-9)
    there, back = ratio(b, a), ratio(a, b)
    assert back == pytest.approx((1 / there.value, 1 / there.high, 1 / there.low))


@given(bounded(), bounded())
def test_it_is_wider_than_either_and_narrower_than_both_end_to_end(a, b):
    low, high = difference(b, a)[1:]
    assert b.low - a.high - 1e-9 <= low <= b.value - a.value <= high <= b.high - a.low + 1e-9
    assert high - low >= max(b.high - b.low, a.high - a.low) / math.sqrt(2) - 1e-9


def test_what_has_no_interval_or_no_logarithm_gives_none():
    whole, bare = Bounded(2.0, 1.0, 3.0), Bounded(4.0)
    assert ratio(bare, whole)[0] == 2.0
    assert np.isnan(ratio(bare, whole)[1:]).all()
    assert np.isnan(difference(whole, MISSING)).all()
    assert np.isnan(ratio(Bounded(-1.0, -2.0, 1.0), whole)).all()
    reaches_zero = ratio(Bounded(1.0, -0.1, 2.0), whole)
    assert reaches_zero.value == 0.5
    assert np.isnan(reaches_zero.low)


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_it_says():
    """Two sides of unequal noise and unequal numbers of rounds; t intervals of mean logarithms."""
    rng, hits, repeats = np.random.default_rng(7), 0, 2000
    for _ in range(repeats):
        sides = []
        for truth, noise, n in ((1.0, 0.05, 12), (0.8, 0.15, 9)):
            logs = np.log(truth) + noise * rng.standard_normal(n)
            half = t.ppf(0.975, n - 1) * logs.std(ddof=1) / math.sqrt(n)
            sides.append(Bounded(*np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])))
        found = ratio(sides[1], sides[0])
        hits += found.low <= 0.8 <= found.high
    assert 0.94 < hits / repeats < 0.975
