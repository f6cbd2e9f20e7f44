from __future__ import annotations

import numpy as np
import pytest
from fabricate import make_record

from kanstudy.analysis.statistics.paired_rounds import PairedRounds


def test_a_pair_disturbed_in_either_is_left_out() -> None:
    found = PairedRounds(make_record(foreign={3: 0.5}), make_record(bucket_cap_mb=1, foreign={5: 0.5}))
    assert (found.n, found.n_disturbed) == (10, 2)
    assert not {3, 5} & set(found.pairs.get_level_values("round"))
    assert found.trusted
    every = PairedRounds(make_record(foreign={3: 0.5}), make_record(bucket_cap_mb=1, foreign={5: 0.5}), all_rounds=True)
    assert every.n == 12
    assert list(np.flatnonzero(every.disturbed)) == [3, 5]


def test_pairs_are_untrusted_though_each_record_is_trusted() -> None:
    first, second = make_record(foreign={0: 0.5, 1: 0.5}), make_record(bucket_cap_mb=1, foreign={2: 0.5, 3: 0.5})
    found = PairedRounds(first, second)
    assert all(arms.blocks.trusted for arms in found.arms)
    assert not found.trusted


def test_only_rounds_that_both_have_are_paired() -> None:
    found = PairedRounds(make_record(rounds=7), make_record(bucket_cap_mb=1, rounds=9))
    assert found.n == 7
    assert np.isnan(found.median(np.array([])).value)
    assert found.median(np.arange(7.0)).value == 3


def test_from_five_launches_on_the_launch_is_the_replicate() -> None:
    pair = [make_record(rounds=2, launches=5), make_record(bucket_cap_mb=1, rounds=2, launches=5)]
    found = PairedRounds(*pair)
    assert found.by_launch
    estimate = found.median(np.repeat([1.0, 2, 3, 4, 5], 2))
    assert (estimate.n, estimate.method) == (5, "t over launches")
    assert estimate.value == pytest.approx(3)
