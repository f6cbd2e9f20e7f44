from __future__ import annotations

import numpy as np
import pytest
from fabricate import make_point, make_record
from simulated import one_node, simulate

from kanstudy.analysis import estimates
from kanstudy.analysis.communication import overlap
from kanstudy.analysis.communication.blocking import blocking
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.tables.view import shown

SMALL_CAP = 0.001
"""MiB: a bucket a layer, most of which leave long before the end of backward."""


def simulated(machine: MachineModel, **point) -> tuple:
    messages = tuple(2**n for n in range(10, 25, 2))
    values = {"world_size": 4, "allreduce_bytes": messages, "bucket_cap_mb": SMALL_CAP} | point
    values |= {
        "layer_widths": (32, 64, 64, 64, 1),
        "experiment": "communication_overhead",
        "arms": ("ddp_noop", "ddp"),
        "phase_steps": 3,
    }
    spec = make_point(**values)
    (record,) = simulate([spec], machine, rounds=12)
    return spec, record


@pytest.mark.parametrize("bandwidth", [2e7, 1e8, 1e9])
@pytest.mark.parametrize("cap", [SMALL_CAP, 25.0])
def test_a_machine_whose_link_works_beside_it_hides_what_the_timeline_predicts(bandwidth: float, cap: float) -> None:
    machine = MachineModel(network=one_node(2e-5, bandwidth))
    spec, record = simulated(machine, bucket_cap_mb=cap)
    (row,) = overlap.overlap([record]).to_dict("records")
    total = sum(machine.network.allreduce_s(size, (4,)) for size in record.arms["ddp"].bucket_bytes)
    backward = machine.arm_phases_s(spec, "ddp")[1]
    exposed = float(machine.exposed_s(spec, np.array(backward)))
    assert row["blocking_ms"] == pytest.approx(1e3 * total)
    assert row["exposed_ms"] == pytest.approx(1e3 * exposed)
    assert row["hidden_ms"] == pytest.approx(1e3 * (total - exposed))
    assert row["predicted_exposed_ms"] == pytest.approx(1e3 * exposed)
    assert row["predicted_hidden_share"] == pytest.approx(row["hidden_share"])
    if cap == SMALL_CAP:
        assert row["buckets"] == 4
        assert 0.1 < row["hidden_share"] < 1
    else:
        assert row["hidden_share"] == pytest.approx(0, abs=1e-9)  # one bucket, ready when backward ends


def test_intervals_of_the_difference_hold_both_measurements() -> None:
    machine = MachineModel(network=one_node(2e-5, 1e8))
    _, record = simulated(machine)
    (clean,) = overlap.overlap([record]).to_dict("records")
    rng = np.random.default_rng(0)
    for item in record.allreduce:
        item.times_s = list(np.array(item.times_s) * np.exp(0.1 * rng.standard_normal(len(item.times_s))))
    for item in record.arms["ddp"].rounds:
        factor = np.exp(0.02 * rng.standard_normal())
        item.rank_step_times_s = [[time * factor for time in steps] for steps in item.rank_step_times_s]
    (row,) = overlap.overlap([record]).to_dict("records")
    for name in ("blocking_ms", "exposed_ms", "hidden_ms", "hidden_share"):
        assert row[f"{name}_low"] < clean[name] < row[f"{name}_high"], name
    reach = {name: row[f"{name}_high"] - row[f"{name}_low"] for name in ("blocking_ms", "exposed_ms", "hidden_ms")}
    assert max(reach["blocking_ms"], reach["exposed_ms"]) < reach["hidden_ms"]
    assert reach["hidden_ms"] < reach["blocking_ms"] + reach["exposed_ms"]


def noisy(times: list[float], n: int = 12) -> list[float]:
    return list(np.linspace(0.98, 1.02, n) * times[0])


def record_of(data_movement: float, blocking_s: float, repeats: int = 12, rounds: int = 12, **changes):
    sizes = {2**10: noisy([blocking_s], repeats), 2**24: noisy([blocking_s], repeats)}
    values = {"truth": {"data_movement": data_movement}, "noise": 0.005, "rounds": rounds, "allreduce": sizes}
    return make_record(**(values | changes))


def test_more_exposed_than_blocking_takes_is_shown_and_flagged() -> None:
    (row,) = overlap.overlap([record_of(0.5, 1e-3)]).to_dict("records")
    assert row["hidden_ms"] < -10
    assert row["hidden_share"] < -10
    assert row["hidden_ms_high"] < 0
    assert "hidden below 0: more is exposed than blocking all-reduces take" in row["reason"]
    assert "may be none" not in row["reason"]


def test_less_than_nothing_exposed_is_shown_and_flagged() -> None:
    (row,) = overlap.overlap([record_of(1.05, 1e-3)]).to_dict("records")
    assert row["exposed_ms"] < 0
    assert row["hidden_share"] > 1
    assert "hidden above the total: DDP is faster with communication than without" in row["reason"]
    (unsure,) = overlap.overlap([record_of(1.0005, 1e-3, noise=0.05, noise_seed=5)]).to_dict("records")
    if unsure["exposed_ms"] < 0:
        assert "may be none" in unsure["reason"]


def test_exposed_is_data_movement_without_synchronisation() -> None:
    record = record_of(0.9, 1e-2, noise=0.0)
    times = PairedArms(record).times_s.median()
    (row,) = overlap.overlap([record]).to_dict("records")
    assert row["exposed_ms"] == pytest.approx(1e3 * (times["ddp"] - times["ddp_noop_every_step"]))
    (whole,) = estimates.overhead([record]).to_dict("records")
    assert row["exposed_ms"] < whole["exposed_ms"]
    assert row["blocking_ms"] == pytest.approx(1e3 * whole["total_comm_s"])


def test_few_repeats_or_rounds_have_wider_intervals_or_none() -> None:
    (row,) = overlap.overlap([record_of(0.9, 1e-2, repeats=7)]).to_dict("records")
    assert row["blocking_ms_low"] < row["blocking_ms"] < row["blocking_ms_high"]
    assert row["hidden_ms_low"] < row["hidden_ms"] < row["hidden_ms_high"]
    (none,) = overlap.overlap([record_of(0.9, 1e-2, rounds=5)]).to_dict("records")
    assert np.isfinite(none["hidden_ms"])
    assert np.isnan(none["hidden_ms_low"])
    assert "too few for an interval" in none["reason"]


def test_what_cannot_be_said_is_blank_with_its_reason() -> None:
    alone = make_record(world_size=1)
    silent = make_record(world_size=2, seed=1)
    large = make_record(world_size=2, seed=2, allreduce={2**10: [1e-3] * 12, 2**11: [1e-3] * 12}, device_name="other")
    unwatched = make_record(world_size=2, seed=3)
    for arm in unwatched.arms.values():
        arm.bucket_bytes = None
    table = overlap.overlap([alone, silent, large, unwatched])
    assert list(table["world_size"]) == [2, 2, 2]
    assert table[["blocking_ms", "hidden_ms", "predicted_exposed_ms"]].isna().all().all()
    assert table["exposed_ms"].notna().all()
    for reason, said in zip(
        table["reason"], ("under these conditions", "this bucket's size", "not watched"), strict=True
    ):
        assert said in reason
    assert list(overlap.overlap([])) == list(table)
    assert not len(overlap.overlap([alone]))


def test_messages_measured_at_another_point_of_the_machine_are_used_and_named() -> None:
    here, there = make_record(world_size=2, seed=1), record_of(0.9, 1e-2, seed=2)
    table = overlap.overlap([here, there]).set_index("point_id")
    assert table.loc[here.point_id, "allreduce_point_id"] == there.point_id
    assert table.loc[here.point_id, "blocking_ms"] == pytest.approx(10)
    assert blocking(here, [here]).reason.startswith("no blocking all-reduce was measured")


@pytest.mark.parametrize(
    ("ready", "ends", "times", "exposed"),
    [
        (
            [[1.0, 4.0], [2.0, 3.0]],
            [5.0, 4.0],
            [3.0, 1.0],
            1.0,
        ),  # 2 to 5 and 5 to 6, by the slowest rank
        ([[6.0, 2.0], [6.0, 2.0]], [6.0, 6.0], [1.0, 1.0], 2.0),  # the second does not overtake the first
        ([[2.0, 4.0], [2.0, 4.0]], [9.0, 10.0], [1.0, 1.0], 0.0),  # backward outlasts both
        ([[12.0], [11.0]], [10.0, 10.0], [1.0], 3.0),  # complete after backward: waited for beyond its own time
    ],
)
def test_buckets_leave_in_order_when_the_slowest_rank_has_them(
    ready: list[list[float]], ends: list[float], times: list[float], exposed: float
) -> None:
    record = make_record(world_size=2)
    arm = record.arms["ddp_noop"]
    arm.bucket_ready_s, arm.backward_s = [[buckets] * 2 for buckets in ready], [[end] * 2 for end in ends]
    assert overlap.scheduled_exposed_s(record, np.array(times)) == pytest.approx([exposed] * 2)


def test_without_the_buckets_of_these_times_nothing_is_scheduled() -> None:
    record = make_record(world_size=2)
    assert not len(overlap.scheduled_exposed_s(record, np.array([3.0])))
    record.arms["ddp_noop"].bucket_ready_s, record.arms["ddp_noop"].backward_s = [[[1.0, 4.0]]], [[5.0]]
    assert not len(overlap.scheduled_exposed_s(record, np.array([3.0])))


def test_ddp_s_own_count_is_that_of_the_rank_that_waits_least() -> None:
    counters = {"communication_s": [[5e-3, 6e-3, 9e-3], [4e-3, 7e-3, 9e-3]], "overlap_s": [[1e-3] * 3, [2e-3] * 3]}
    counted = record_of(0.9, 1e-2, fields={"provenance": {"ddp_counters": counters}})
    (row,) = overlap.overlap([counted]).to_dict("records")
    assert row["counted_exposed_ms"] == pytest.approx(5)  # of 2, 5 and 7
    (without,) = overlap.overlap([record_of(0.9, 1e-2)]).to_dict("records")
    assert np.isnan(without["counted_exposed_ms"])


def test_gloo_and_synchronised_buffers_are_said() -> None:
    (row,) = overlap.overlap([record_of(0.9, 1e-2, sync_buffers=True)]).to_dict("records")
    assert "the cores that train also copy and sum" in row["reason"]
    assert "broadcast of buffers" in row["reason"]
    (other,) = overlap.overlap([record_of(0.9, 1e-2, fields={"backend": "nccl"})]).to_dict("records")
    assert "copy and sum" not in other["reason"]


def test_it_is_readable() -> None:
    cells = shown(overlap.overlap([record_of(0.9, 1e-2)]), overlap.OVERLAP)
    assert "[" in cells["hidden (%)"][0]
    assert cells["point"][0] == cells["all-reduce point"][0]
