from __future__ import annotations

import pytest
from profiles_for_tests import CALIBRATION, STRONG, WEAK, profile_of

from kanstudy.study.prediction import points
from kanstudy.study.profile import ProfileError

CLUSTER = """
[machine]
device = "cuda"
[cluster]
nodes = 4
ranks_per_node = 2
time_limit = "01:00:00"
placements = ["packed", "spread"]
"""


def test_both_scalings_at_any_world_size_whatever_the_profile_measures(tmp_path):
    found = points(profile_of(tmp_path, STRONG, WEAK, CALIBRATION), (4, 8))
    assert [(p.scaling, p.world_size, p.local_batch_size, p.global_batch_size) for p in found] == [
        ("strong", 4, 2, 8),
        ("strong", 8, 1, 8),
        ("weak", 4, 4, 16),
        ("weak", 8, 4, 32),
    ]


def test_one_scaling_alone_and_data_as_many_as_needed(tmp_path):
    found = points(profile_of(tmp_path, STRONG, WEAK, CALIBRATION), (64,), "weak")
    assert [(p.scaling, p.global_batch_size, p.n_samples) for p in found] == [("weak", 256, 256)]


def test_ranks_of_a_cluster_are_placed_in_each_way_that_differs(tmp_path):
    found = points(profile_of(tmp_path, WEAK, CALIBRATION, machine=CLUSTER), (1, 2, 64))
    assert [(p.world_size, p.placement) for p in found] == [
        (1, "packed"), (2, "packed"), (2, "spread"), (64, "packed"), (64, "spread"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "sizes", "words"),
    [
        ((STRONG, CALIBRATION), (3,), "world size 3: global_batch_size = 8: must be divisible by the world size 3"),
        ((STRONG,), (2,), "has no series [[study.calibration]], which predictions rest on"),
        ((CALIBRATION,), (2,), "has no series [[study.strong_scaling]] or [[study.weak_scaling]] of a KAN"),
    ],
)
def test_what_cannot_be_predicted_is_refused_by_name(tmp_path, parts, sizes, words):
    with pytest.raises(ProfileError) as raised:
        points(profile_of(tmp_path, *parts), sizes)
    assert words in str(raised.value)
