"""Machines and sites as profiles describe them, and what of another machine's calibration they take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_machine import PROFILE, calibration_records

from kanstudy.analysis.calibration.calibration import Calibration, calibrate
from kanstudy.analysis.prediction.site import PredictionError
from kanstudy.described_machine import is_own, machine_of, network_of, site_of
from kanstudy.study import experiments
from kanstudy.study.cluster import Cluster, Device, NetworkConstants
from kanstudy.study.profile import Profile, ProfileError, load_profile

LINKS = NetworkConstants(
    algorithm="gloo",
    inside_latency_us=20.0,
    inside_gb_per_s=4.0,
    between_latency_us=50.0,
    between_gb_per_s=1.0,
)
CLUSTER = replace(PROFILE, network=LINKS, cluster=Cluster(nodes=4, ranks_per_node=2, time_limit="01:00:00"))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Of one node of the profile's machine, on which all-reduces were measured."""
    return replace(calibrate(calibration_records()), profile=PROFILE.name)


def test_the_cluster_that_comes_with_the_package_is_described_in_full() -> None:
    profile = load_profile("finisterrae3")
    point = next(iter(experiments.points(profile, "strong_scaling")))
    machine = machine_of(profile, point)
    assert (machine.ranks_per_node, machine.nodes, machine.network.algorithm) == (2, 4, "nccl")
    assert machine.memory_bytes == 2**30 * profile.device_constants.memory_gib
    assert machine.network == network_of(profile)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (PROFILE, r"laptop\.toml: has no \[network\]"),
        (replace(PROFILE, network=LINKS), r"laptop\.toml \[device\]: peak_tflops_fp32, .*, launch_us are not stated"),
    ],
)
def test_what_is_not_stated_is_named(profile: Profile, message: str) -> None:
    point = next(iter(experiments.points(load_profile("finisterrae3"), "strong_scaling")))
    with pytest.raises(ProfileError, match=message):
        machine_of(profile, point)


def test_the_profiles_own_links_are_the_calibrations_and_stated_where_there_was_none(calibration: Calibration) -> None:
    assert is_own(PROFILE, calibration)
    alone, cluster = site_of(PROFILE, calibration), site_of(CLUSTER, calibration)
    assert (alone.ranks_per_node, alone.network) == (calibration.node_ranks, None)
    assert (cluster.ranks_per_node, cluster.stated, cluster.memory_bytes) == (2, ("between",), None)
    assert cluster.network is not None
    assert cluster.network.between.latency_s == pytest.approx(50e-6)


@pytest.mark.parametrize(
    "other",
    [replace(CLUSTER, name="other"), replace(CLUSTER, device_constants=Device(name="EPYC", memory_gib=1.5))],
    ids=["profile", "device"],
)
def test_another_machine_brings_its_computation_alone(calibration: Calibration, other: Profile) -> None:
    assert not is_own(other, calibration)
    assert site_of(other, calibration).stated == ("inside", "between")
    with pytest.raises(PredictionError, match="one machine's network is not taken for another's"):
        site_of(replace(other, network=None), calibration)


def test_the_memory_that_is_stated_is_the_sites(calibration: Calibration) -> None:
    stated = replace(CLUSTER, device_constants=Device(memory_gib=1.5))
    assert site_of(stated, calibration).memory_bytes == 1.5 * 2**30
