"""What a profile says of a cluster: read strictly, and in which placements points are measured on it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from profiles_for_tests import OPERATORS, STRONG, WEAK, write

from kanstudy.study import experiments
from kanstudy.study.cluster import cluster_from_dict, read_cluster
from kanstudy.study.profile import Profile, ProfileError, load_profile

MACHINE = '[machine]\ndevice = "cpu"\n'
CLUSTER = '[cluster]\nnodes = 4\nranks_per_node = 2\ntime_limit = "01:00:00"\n'
MINIMAL = {"nodes": 4, "ranks_per_node": 2, "time_limit": "1-02:03:04"}


def profile_of(folder: Path, *parts: str, machine: str = MACHINE, cluster: str = CLUSTER) -> Profile:
    return load_profile(write(folder, *parts, machine, cluster))


def test_a_cluster_with_defaults():
    cluster = read_cluster(MINIMAL, "x")
    assert (cluster.ranks, cluster.cpus_per_task, cluster.gres, cluster.environment) == (8, 1, "", {})
    assert cluster.time_limit_s == 26 * 3600 + 3 * 60 + 4


def test_a_cluster_survives_json():
    cluster = read_cluster(MINIMAL | {"setup": ["module load x"], "environment": {"A": "1"}, "requeue": False}, "x")
    assert cluster_from_dict(json.loads(json.dumps(dataclasses.asdict(cluster))), "x") == cluster


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 0}, "nodes = 0: must be a whole number >= 1"),
        ({"time_limit": "90"}, "time_limit = '90': must be a time such as 04:00:00"),
        ({"time_limit": "00:00:00"}, "must be a time"),
        ({"report_time_limit": "1h"}, "report_time_limit = '1h'"),
        ({"gres": "gpu:2", "gpus_per_node": "2"}, "must be left out where gres is given"),
        ({"partitions": "gpu"}, "did you mean 'partition'"),
        ({"options": ["--mem 0"]}, "must be an option as one word"),
        ({"options": ["; rm -rf /"]}, "must be an option as one word"),
        ({"options": ["--nodes=3"]}, "must not be one that the study sets itself (--nodes)"),
        ({"report_options": ["--wrap=x"]}, "(--wrap)"),
        ({"options": ["--clusters=gpu"]}, "export SLURM_CLUSTERS=gpu"),
        ({"setup": ["a\nb"]}, "must be one line an item"),
        ({"environment": {"A B": "1"}}, "'A B': must be a variable's name"),
        ({"environment": {"A": "1\n2"}}, "environment A = '1\\n2': must be text of one line"),
        ({"environment": {"A": 1}}, "a table, each value text"),
        ({"environment": ["A"]}, "must be a table"),
        ({"placements": ["packed", "packed"]}, "must be distinct"),
        ({"placements": []}, "a list of at least one item"),
        ({"placements": ["sprad"]}, "did you mean 'spread'"),
    ],
)
def test_what_is_wrong_is_named(wrong, message):
    with pytest.raises(ProfileError) as error:
        read_cluster(MINIMAL | wrong, "p.toml [cluster]")
    assert message in str(error.value)
    assert str(error.value).startswith("p.toml [cluster]")


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("[machine]\n", "device = 'auto': must be cpu or cuda"),
        (MACHINE + "world_sizes = [1, 9]", "world_sizes = [1, 9]: must be at most 8"),
        (MACHINE + "threads_per_rank = 2", "threads_per_rank = 2: must be at most the cpus_per_task = 1"),
    ],
)
def test_machine_and_cluster_fit_together(tmp_path, machine, message):
    with pytest.raises(ProfileError) as error:
        profile_of(tmp_path, STRONG, machine=machine)
    assert message in str(error.value)


def test_world_sizes_of_a_cluster_do_not_depend_on_who_submits(tmp_path):
    odd = CLUSTER.replace("nodes = 4", "nodes = 3")
    assert profile_of(tmp_path, STRONG).world_sizes == (1, 2, 4, 8)
    assert profile_of(tmp_path, STRONG, cluster=odd).world_sizes == (1, 2, 4, 6)


def test_a_cluster_is_not_measured_here(tmp_path):
    with pytest.raises(ProfileError, match="kanstudy submit --profile"):
        experiments.plan(profile_of(tmp_path, STRONG), "strong_scaling", launcher="local")


def test_spread_points_are_those_that_lie_on_other_nodes(tmp_path):
    both = profile_of(tmp_path, STRONG, WEAK, OPERATORS, cluster=CLUSTER + 'placements = ["packed", "spread"]')
    for experiment in ("strong_scaling", "weak_scaling"):
        points = experiments.plan(both, experiment, launcher="none").points
        assert [(point.world_size, point.placement) for point in points] == [
            (1, "packed"),
            (2, "packed"),  # 1x2
            (2, "spread"),  # 2x1
            (4, "packed"),  # 2x2
            (4, "spread"),  # 4x1
            (8, "packed"),
        ]
    operators = experiments.plan(both, "operator_scaling", launcher="none").points
    assert {point.placement for point in operators} == {"packed"}


def test_spread_alone_is_measured_at_every_world_size(tmp_path):
    spread = profile_of(tmp_path, STRONG, cluster=CLUSTER + 'placements = ["spread"]')
    points = experiments.plan(spread, "strong_scaling", launcher="none").points
    assert [(point.world_size, point.placement) for point in points] == [(p, "spread") for p in (1, 2, 4, 8)]


@pytest.mark.parametrize("name", ["finisterrae3", "cluster_template"])
def test_profiles_of_clusters_can_be_planned_anywhere(name):
    profile = load_profile(name)
    plans = [experiments.plan(profile, experiment, launcher="none") for experiment in experiments.EXPERIMENTS]
    assert any(plan.points for plan in plans)
    assert profile.backend == "nccl"
    assert sum(plan.estimated_s() for plan in plans) < profile.cluster.time_limit_s


NETWORK = {
    "algorithm": "'nccl'",
    "inside_latency_us": "5.7",
    "inside_gb_per_s": "10",
    "between_latency_us": "14.0",
    "between_gb_per_s": "12.0",
}


def network_table(**changes: str | None) -> str:
    """The table [network] with some of its keys changed, or left out (None)."""
    lines = [f"{name} = {value}" for name, value in (NETWORK | changes).items() if value is not None]
    return "\n".join(["[network]", *lines, ""])


def test_a_profile_may_tell_constants_of_its_links(tmp_path):
    assert profile_of(tmp_path, STRONG).network is None
    network = profile_of(tmp_path, STRONG, network_table(nvlink="true", basis="'measured'")).network
    assert network is not None
    assert (network.algorithm, network.inside_gb_per_s, network.nvlink, network.basis) == (
        "nccl",
        10.0,
        True,
        "measured",
    )
    assert profile_of(tmp_path, STRONG, network_table()).network.basis == "assumed"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"algorithm": "'ncl'"}, "[network] algorithm = 'ncl': must be one of ring, tree"),
        ({"inside_gb_per_s": "0"}, "[network] inside_gb_per_s = 0: must be a number > 0"),
        ({"between_latency_us": "-1"}, "[network] between_latency_us = -1: must be a number >= 0"),
        ({"between_gb_per_s": None}, "[network]: key 'between_gb_per_s' is missing"),
        ({"bandwidth": "3"}, "[network]: unknown key 'bandwidth'"),
        ({"basis": "'guess'"}, "basis = 'guess': must be one of assumed"),
        ({"nvlink": "1"}, "nvlink = 1: must be true or false"),
    ],
)
def test_wrong_constants_of_links_are_named(tmp_path, wrong, message):
    with pytest.raises(ProfileError) as error:
        profile_of(tmp_path, STRONG, network_table(**wrong))
    assert message in str(error.value)
