"""Records drawn from a known machine give its constants back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibrated import MACHINE, NETWORK, calibration_points, exact, noisy, records
from simulated import simulate

from kanstudy.analysis.calibration.calibration import CalibrationError, calibrate
from kanstudy.analysis.network.network import Link

CONSTANTS = {
    "launch_s": 4e-4,
    "s_per_flop": 2e-11,
    "s_per_activation_byte": 5e-10,
    "optimizer_s": 1e-4,
    "optimizer_s_per_parameter": 2e-9,
    "backward_share": 0.6,
    "contention": 0.05,
    "ddp_s": 1e-4,
    "ddp_s_per_byte": 2e-10,
    "bucket_s": 3e-4,
    "bucket_s_per_byte": 5e-10,
    "inside_latency_s": 1e-4,
    "inside_s_per_byte": 5e-10,
}


def test_without_noise_every_constant_is_found() -> None:
    found = exact()
    assert {name: getattr(found.constants, name) for name in CONSTANTS} == pytest.approx(CONSTANTS, rel=2e-3)
    assert found.constants.overlap_slowdown == pytest.approx(0.4, rel=0.06)  # the step between those that are tried
    assert found.constants.between_latency_s is None
    assert (found.node_ranks, found.launches, found.notes) == (2, 1, ())
    assert found.table["residual"].abs().max() < 1e-3
    assert found.memory.rows_scale == pytest.approx(1.0)


def test_with_noise_the_constants_lie_in_the_range_of_their_draws() -> None:
    inside = dict.fromkeys(CONSTANTS, 0)
    seeds = range(6)
    for seed in seeds:
        found = calibrate(records(noisy(seed), seed=seed))
        for name, true in CONSTANTS.items():
            low, high = np.quantile([getattr(draw, name) for draw in found.draws], [0.025, 0.975])
            inside[name] += bool(low * (1 - 1e-9) <= true <= high * (1 + 1e-9))
    # of 78 binomial trials at 95 %: fewer than 65 has a probability below 0.1 %
    assert sum(inside.values()) >= 65, inside


def test_slow_ranks_do_not_make_the_nominal_device_slow() -> None:
    slow = replace(MACHINE, rank_slowness=(1.2, 0.8))
    found = calibrate(records(slow))
    assert found.ranks.slowness == pytest.approx((1.2, 0.8), rel=0.02)
    assert found.constants.s_per_flop == pytest.approx(2e-11, rel=0.02)
    assert found.constants.contention == pytest.approx(0.05, rel=0.05)


def test_launches_that_differ_as_a_whole_are_seen_only_in_several() -> None:
    one = calibrate(records(noisy(0), seed=1))
    assert one.launch.freedom == 0
    several = records(noisy(0), seed=1, launches=3)
    for record in several:  # each start of all ranks is 10 % slower than the one before
        for arm in record.arms.values():
            for item in arm.rounds:
                item.rank_step_times_s = [[t * 1.1**item.launch for t in ts] for ts in item.rank_step_times_s]
    found = calibrate(several)
    assert found.launches == 3
    assert found.launch.sd == pytest.approx(np.log(1.1) * np.sqrt(4 / 3), rel=0.2)


def test_two_nodes_calibrate_the_link_between_them() -> None:
    far = replace(MACHINE, network=replace(NETWORK, between=Link(latency_s=5e-4, bytes_per_s=1e9)))
    points = calibration_points()
    spread = [replace(point, placement="spread") for point in points if point.world_size == 2]
    drawn = simulate([*points, *spread], far, rounds=6)
    for record in drawn:
        record.backend = "gloo"
    found = calibrate(drawn)
    assert found.constants.between_latency_s == pytest.approx(5e-4, rel=1e-3)
    assert found.constants.between_s_per_byte == pytest.approx(1e-9, rel=1e-3)
    assert found.constants.inside_latency_s == pytest.approx(1e-4, rel=1e-3)
    assert found.node_ranks == 2


def test_one_rank_alone_says_what_it_does_not_know() -> None:
    found = calibrate(records(replace(MACHINE, ranks_per_node=1), node_ranks=1))
    assert found.node_ranks == 1
    assert "contention is not known" in found.notes[0]
    assert found.constants.ddp_s == pytest.approx(1e-4, rel=1e-3)


def test_what_does_not_suffice_or_does_not_belong_together_is_refused() -> None:
    drawn = records()
    with pytest.raises(CalibrationError, match=r"5 complete points of one rank alone: .* at least 6"):
        calibrate(drawn[:5])
    other = records()[:1]
    other[0].device_name = "another"
    with pytest.raises(CalibrationError, match="device_name of the calibration's records is another and simulated"):
        calibrate([*drawn, *other])


def test_failed_points_are_left_out_and_named() -> None:
    largest = max(MACHINE.peak_memory_bytes(point, "serial_global") for point in calibration_points())
    drawn = records(replace(MACHINE, memory_bytes=0.9 * largest))
    assert any(record.status == "oom" for record in drawn)
    found = calibrate(drawn)
    assert "points are not complete" in found.notes[0]
    assert found.constants.s_per_flop == pytest.approx(2e-11, rel=0.01)


def test_disturbed_points_are_left_out_where_enough_others_are_left() -> None:
    drawn = records()
    for record in drawn[:3]:  # others ran throughout, and made every step three times as long
        for item in record.arms["serial_global"].rounds:
            item.foreign_cpu_share = [0.9]
            item.rank_block_times_s = [1.0]
            item.rank_step_times_s = [[3 * time for time in steps] for steps in item.rank_step_times_s]
    found = calibrate(drawn)
    assert found.constants.launch_s == pytest.approx(4e-4, rel=2e-3)
    assert found.notes == ("3 of 38 points were disturbed in more than half of their rounds: left out",)
    assert len(found.points) == 27


def test_links_of_too_noisy_messages_are_rough_and_say_so() -> None:
    drawn = records()
    messages = next(record for record in drawn if record.allreduce)
    falling = [3e-3, 2e-3, 2.5e-3, 1e-3, 9e-4]  # a larger message takes less: no bandwidth is found
    for item, time in zip(messages.allreduce, falling, strict=True):
        item.times_s = [time] * 7
    found = calibrate(drawn)
    assert found.notes[0].startswith("the links' constants are rough: ")
    assert 0 < found.constants.inside_latency_s < 3e-3
    assert found.constants.inside_s_per_byte == 0
    assert found.machine.network.inside.bytes_per_s == float("inf")
