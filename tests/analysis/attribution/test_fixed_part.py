from __future__ import annotations

import numpy as np
import pytest
from fabricate import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.attribution.fixed_part import fixed_parts
from kanstudy.record import Record


def on_a_line(share: float, p: int, bend: float = 1.0, **changes) -> Record:
    """A record whose step takes `share` of T1(B) whatever the batch; `bend` slows the small batch beyond the line."""
    batch = bend / (1 + share * (p - 1))
    return make_record(world_size=p, truth={"batch": batch}, t1=0.08, **({"rounds": 20} | changes))


@settings(max_examples=30)
@given(share=st.floats(-0.05, 0.4), p=st.sampled_from([2, 4, 8]))
def test_without_noise_the_line_is_the_true_one(share: float, p: int) -> None:
    record = on_a_line(share, p, rounds=12)
    found = fixed_parts([record])[record.point_id]
    assert found.share.value == pytest.approx(share, abs=1e-9)
    assert found.time_s.value == pytest.approx(share * 0.08, abs=1e-9)
    assert found.factor.value == pytest.approx(1 / (1 + share * (p - 1)))
    assert found.sizes == (p,)
    assert "two batch sizes" in found.note


def test_world_sizes_of_a_series_share_one_line_within_its_interval() -> None:
    records = [on_a_line(0.03, p, noise=0.01, noise_seed=p) for p in (2, 4, 8)]
    found = fixed_parts(records)
    alone = fixed_parts(records[:1])[records[0].point_id]
    for record in records:
        part = found[record.point_id]
        assert part.share.low < 0.03 < part.share.high
        assert part.time_s.low < 0.03 * 0.08 < part.time_s.high
        assert part.sizes == (2, 4, 8)
        assert part.note == ""
        assert part.share.high - part.share.low < alone.share.high - alone.share.low


def test_what_lies_beside_the_line_is_the_device() -> None:
    records = [on_a_line(0.03, 2), on_a_line(0.03, 4), on_a_line(0.03, 8, bend=0.9)]
    frame = attribution(records)
    batch = frame[frame["factor"] == "batch"].set_index("world_size")
    assert batch.loc[8, "fixed"] > batch.loc[8, "value"]
    assert "no straight line" in fixed_parts(records)[records[0].point_id].note
    assert frame.loc[frame["factor"] != "batch", "fixed"].isna().all()


def test_another_batch_is_another_line() -> None:
    records = [on_a_line(0.03, 2), on_a_line(0.2, 4, global_batch_size=4096)]
    assert [part.sizes for part in fixed_parts(records).values()] == [(2,), (4,)]


@pytest.mark.parametrize(("rounds", "has_interval"), [(20, True), (7, True), (4, False)])
def test_intervals_as_far_as_the_rounds_allow(rounds: int, has_interval: bool) -> None:
    records = [on_a_line(0.05, p, rounds=rounds, noise=0.002) for p in (2, 4)]
    for part in fixed_parts(records).values():
        for estimate in (part.share, part.time_s, part.factor):
            assert np.isfinite(estimate.value)
            assert estimate.has_interval == has_interval
        if has_interval:
            assert part.time_s.low < 0.05 * 0.08 < part.time_s.high


def test_the_optimizer_is_told_where_the_fixed_part_is() -> None:
    record = on_a_line(0.05, 2, noise=0.002)
    record.arms["serial_local"].optimizer_s = [[0.001, 0.001, 0.9], [0.003, 0.003, 0.9]]
    part = fixed_parts([record])[record.point_id]
    assert part.optimizer.value == pytest.approx(0.002 / part.time_s.value)
    assert part.optimizer.low < part.optimizer.value < part.optimizer.high
    none = on_a_line(0.0, 2, noise=0.002)
    none.arms["serial_local"].optimizer_s = [[0.001], [0.001]]
    assert np.isnan(fixed_parts([none])[none.point_id].optimizer.value)


def test_weak_scaling_and_one_rank_have_none() -> None:
    weak = make_record(experiment="weak_scaling", scaling="weak")
    assert fixed_parts([weak, make_record(world_size=1)]) == {}


def test_a_small_batch_that_is_worked_on_faster_has_a_fixed_part_below_zero() -> None:
    record = on_a_line(-0.04, 2, noise=0.002)
    part = fixed_parts([record])[record.point_id]
    assert part.time_s.high < 0
    assert part.factor.low > 1
    assert part.note.endswith("below 0: a row of the smaller batch takes less time")
