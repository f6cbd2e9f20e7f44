"""The calibration's points: one rank alone, and the ranks of one node, whatever else the machine has."""

from __future__ import annotations

import pytest
from profiles_for_tests import CALIBRATION, profile_of

from kanstudy.study import experiments
from kanstudy.study.profile import ProfileError, load_profile

CLUSTER = """
[cluster]
nodes = 4
ranks_per_node = 2
time_limit = "01:00:00"
"""
GPUS = "[machine]\ndevice = 'cuda'\n" + CLUSTER
ONE = "[machine]\ndevice = 'cpu'\nworld_sizes = [1]"


def test_one_rank_alone_is_measured_at_every_width_grid_and_batch(tmp_path):
    points = [p for p in experiments.points(profile_of(tmp_path, CALIBRATION), "calibration") if p.world_size == 1]
    assert [(p.layer_widths, p.grid_size, p.local_batch_size) for p in points] == [
        (widths, grid, rows) for widths in ((4, 3, 1), (4, 4, 4, 1)) for grid in (3, 5) for rows in (2, 8)
    ]
    assert {p.arms for p in points} == {("serial_global",)}


def test_the_ranks_of_a_node_are_measured_at_once_and_the_widest_model_with_every_bucket_size(tmp_path):
    points = [p for p in experiments.points(profile_of(tmp_path, CALIBRATION), "calibration") if p.world_size == 2]
    assert [(p.layer_widths, p.local_batch_size, p.bucket_cap_mb, p.allreduce_bytes) for p in points] == [
        ((4, 3, 1), 4, 25.0, (8, 1024)),
        ((4, 4, 4, 1), 4, 25.0, ()),
        ((4, 4, 4, 1), 4, 0.1, ()),
    ]
    assert {(p.scaling, p.arms) for p in points} == {("weak", ("serial_local", "concurrent", "ddp_noop", "ddp"))}


def test_a_cluster_is_calibrated_on_one_node(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, CALIBRATION, machine=GPUS), "calibration"))
    assert {p.world_size for p in points} == {1, 2}
    assert {p.placement for p in points} == {"packed"}


def test_two_ranks_are_spread_too_where_the_profile_asks_for_it(tmp_path):
    spread = GPUS + 'placements = ["packed", "spread"]'
    points = list(experiments.points(profile_of(tmp_path, CALIBRATION, machine=spread), "calibration"))
    assert {(p.world_size, p.placement) for p in points} == {(1, "packed"), (2, "packed"), (2, "spread")}


def test_one_rank_without_others_still_shows_what_ddp_costs(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, CALIBRATION, machine=ONE), "calibration"))
    assert {p.arms for p in points} == {("serial_global",), ("serial_local", "ddp_noop")}
    assert not any(p.allreduce_bytes for p in points)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("phase_steps = 0", "phase_steps = 0: must be at least 1"),
        ('models = ["kan", "mlp"]', "models = ['kan', 'mlp']: must be one"),
    ],
)
def test_what_cannot_calibrate_is_refused_by_name(tmp_path, lines, words):
    with pytest.raises(ProfileError, match=r"study\.calibration.*#1") as raised:
        experiments.points(profile_of(tmp_path, CALIBRATION + lines), "calibration")
    assert words in str(raised.value)


@pytest.mark.parametrize(("name", "limit_s"), [("smoke", 20), ("laptop", 240)])
def test_a_builtin_calibration_is_short_on_two_ranks(name, limit_s, monkeypatch):
    monkeypatch.setattr("kanstudy.study.profile.usable_cores", lambda: 2)
    planned = experiments.plan(load_profile(name), "calibration", launcher="none")
    assert {p.world_size for p in planned.points} == {1, 2}
    assert planned.estimated_s() < limit_s


@pytest.mark.parametrize("name", ["smoke", "laptop", "finisterrae3", "cluster_template"])
def test_a_builtin_calibration_covers_the_profiles_own_batches_and_widths(name):
    profile = load_profile(name)
    calibration = profile.study.series["calibration"][0]
    strong = profile.study.series["strong_scaling"][0]
    assert min(calibration.local_batch_sizes) <= strong.global_batch_size // 512
    assert max(calibration.local_batch_sizes) >= strong.global_batch_size
    widths = [w[0] for w in calibration.hidden_widths_sweep]
    assert min(widths) <= strong.hidden_widths[0] <= max(widths)
