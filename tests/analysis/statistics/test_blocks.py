from __future__ import annotations

import numpy as np
import pytest
from fabricate import TRUTH, empty_arms, make_record

from kanstudy.analysis.statistics.blocks import CHAIN, blocks


def test_the_chain_of_a_strong_point() -> None:
    found = blocks(make_record(t1=0.08, rounds=3, launches=2))
    assert tuple(found.times_s.columns) == CHAIN
    assert list(found.times_s.index) == [(launch, index) for launch in (0, 1) for index in range(3)]
    row = found.times_s.iloc[0]
    assert row["serial_global"] == pytest.approx(0.08)
    assert 0.04 / row["serial_local_mean"] == pytest.approx(TRUTH["batch"])
    assert row["ddp_noop"] / row["ddp_noop_every_step"] == pytest.approx(TRUTH["synchronisation"])


def test_nothing_measured_has_no_rounds() -> None:
    found = blocks(empty_arms(make_record(status="failed")))
    assert len(found.times_s) == 0
    assert found.dropped == 0
    assert found.trusted


def test_a_disturbed_round_is_dropped_whole_on_covariates_alone() -> None:
    record = make_record(rounds=12, foreign={2: 0.5}, slow_kernel={5: 1.2})
    found = blocks(record)
    assert np.flatnonzero(found.disturbed).tolist() == [2, 5]
    assert [index for _, index in found.selected(all_rounds=False).index] == [0, 1, 3, 4, 6, 7, 8, 9, 10, 11]
    assert len(found.selected(all_rounds=True)) == 12
    assert found.trusted
    slow = make_record(rounds=12)
    for item in slow.arms["ddp"].rounds[:6]:
        item.rank_step_times_s = [[100.0] * 2] * 2
    assert blocks(slow).dropped == 0, "a slow step is a result, not a disturbance"


def test_company_of_one_rank_in_one_arm_disturbs_the_round() -> None:
    record = make_record(rounds=12)
    record.arms["concurrent"].rounds[3].foreign_cpu_share[1] = 0.5
    assert np.flatnonzero(blocks(record).disturbed).tolist() == [3]


def test_a_rank_that_is_slow_throughout_a_round_disturbs_it_and_one_slow_kernel_does_not() -> None:
    record = make_record(rounds=12)
    for arm in record.arms.values():
        item = arm.rounds[7]
        item.reference_kernel_s = [
            kernel * (1.16 if rank == 1 else 1)
            for rank, kernel in zip(item.active_ranks, item.reference_kernel_s, strict=True)
        ]
    record.arms["ddp"].rounds[2].reference_kernel_s[1] *= 2
    assert np.flatnonzero(blocks(record).disturbed).tolist() == [7]


def test_at_the_limits_nothing_is_dropped() -> None:
    assert blocks(make_record(foreign={1: 0.05}, slow_kernel={2: 1.149})).dropped == 0


def test_a_slower_device_or_arm_is_no_disturbance() -> None:
    record = make_record(rounds=12)
    for arm in record.arms.values():
        for item in arm.rounds:
            item.reference_kernel_s = [0.01 * (2 if rank == 1 else 1) for rank in item.active_ranks]
    for item in record.arms["ddp"].rounds:
        item.reference_kernel_s = [3 * kernel for kernel in item.reference_kernel_s]
    assert blocks(record).dropped == 0


def test_missing_covariates_disturb_nothing() -> None:
    record = make_record()
    for arm in record.arms.values():
        for item in arm.rounds:
            item.foreign_cpu_share = [None] * len(item.active_ranks)
    assert blocks(record).dropped == 0


def test_above_a_fifth_of_disturbed_rounds_a_point_is_not_trusted() -> None:
    assert blocks(make_record(rounds=10, foreign=dict.fromkeys(range(2), 0.5))).trusted
    assert not blocks(make_record(rounds=10, foreign=dict.fromkeys(range(3), 0.5))).trusted


def test_where_every_round_is_disturbed_all_are_kept() -> None:
    found = blocks(make_record(rounds=3, foreign=dict.fromkeys(range(3), 0.5)))
    assert len(found.selected(all_rounds=False)) == 3
    assert not found.trusted


def test_a_share_within_the_clocks_grain_is_no_disturbance() -> None:
    """One tick of 10 ms is a tenth of a short block."""
    record = make_record(rounds=12)
    for index, (share, block_s) in enumerate([(0.2, 0.1), (0.3, 0.1), (0.06, 1.0), (0.08, 1.0)]):
        item = record.arms["ddp"].rounds[index]
        item.foreign_cpu_share, item.rank_block_times_s = [share] * 2, [block_s] * 2
    assert np.flatnonzero(blocks(record).disturbed).tolist() == [1, 3]


def test_a_launch_that_is_slow_as_a_whole_is_kept() -> None:
    record = make_record(rounds=6, launches=3)
    for arm in record.arms.values():
        for item in arm.rounds:
            if item.launch == 2:
                item.reference_kernel_s = [1.3 * kernel for kernel in item.reference_kernel_s]
    assert blocks(record).dropped == 0


def test_a_start_that_is_slow_as_a_whole_is_kept() -> None:
    record = make_record(rounds=8, starts=2)
    for arm in record.arms.values():
        for item in arm.rounds:
            item.reference_kernel_s = [
                (1.3 if item.attempt == 2 else 1.0) * kernel for kernel in item.reference_kernel_s
            ]
    assert {item.attempt for item in record.arms["ddp"].rounds} == {1, 2}
    assert blocks(record).dropped == 0


def test_a_reference_kernel_that_was_not_timed_disturbs_nothing() -> None:
    record = make_record(rounds=6)
    for arm in record.arms.values():
        for item in arm.rounds:
            item.reference_kernel_s = [None] * len(item.active_ranks)
    assert blocks(record).dropped == 0
