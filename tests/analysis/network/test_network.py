"""Collectives against their closed forms, and the laws that hold on any network and any layout of ranks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import one_node

from kanstudy.analysis.network import nccl
from kanstudy.analysis.network.network import GLOO_SHARE, Link, Network, of_profile
from kanstudy.network_words import ALGORITHMS, NCCL_PROTOCOLS
from kanstudy.study.profile import load_profile

MIB = 2**20
PCIE_AND_HDR = Network(
    inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
    between=Link(latency_s=14e-6, bytes_per_s=12e9),
    algorithm="nccl",
)
LINKS = st.builds(Link, latency_s=st.floats(0, 1e-2), bytes_per_s=st.floats(1e6, 1e12))
LAYOUTS = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(tuple)
SIZES = st.floats(0, 1e9)
CLOSED = st.sampled_from([name for name in ALGORITHMS if name != "nccl"])
NETWORKS = st.builds(Network, inside=LINKS, between=LINKS, algorithm=CLOSED)
COLLECTIVES = st.sampled_from(["allreduce_s", "reduce_scatter_s", "allgather_s", "broadcast_s"])


@given(LINKS, SIZES, st.integers(2, 40))
def test_a_ring_and_halving_doubling_move_as_little_as_can_be(link, size, p):
    moved = 2 * (p - 1) / p * size / link.bytes_per_s
    ring = Network(inside=link).allreduce_s(size, (p,))
    assert ring == pytest.approx(2 * (p - 1) * link.latency_s + moved)
    power = 2 ** int(math.log2(p))
    halving = Network(inside=link, algorithm="halving_doubling").allreduce_s(size, (p,))
    if p == power:
        assert halving == pytest.approx(2 * math.log2(p) * link.latency_s + moved)
    else:
        own = 2 * (power - 1) / power * size / link.bytes_per_s
        fold = 2 * link.message_s(size)
        assert halving == pytest.approx(2 * math.log2(power) * link.latency_s + own + fold)


@given(LINKS, LINKS, SIZES, LAYOUTS)
def test_a_tree_is_chains_inside_nodes_and_two_trees_between(inside, between, size, layout):
    time = Network(inside=inside, between=between, algorithm="tree").allreduce_s(size, layout)
    used = [inside] * (max(layout) > 1) + [between] * (len(layout) > 1)
    hops = (max(layout) - 1) * inside.latency_s + math.ceil(math.log2(len(layout))) * between.latency_s
    expected = 2 * hops + 2 * size / min(link.bytes_per_s for link in used) if used else 0.0
    assert time == pytest.approx(expected)


def test_a_ring_over_nodes_is_as_slow_as_its_slowest_link_at_each_step():
    network = Network(inside=Link(latency_s=1e-6, bytes_per_s=1e9), between=Link(latency_s=1e-5, bytes_per_s=1e10))
    small, large = (network.allreduce_s(size, (2, 2, 1)) for size in (5, 5e8))
    assert small == pytest.approx(8 * 1e-5, rel=1e-3)
    assert large == pytest.approx(8 * (1e-6 + 0.1))


def test_hierarchical_rings_share_the_link_of_their_node():
    inside, between = Link(latency_s=1e-6, bytes_per_s=1e11), Link(latency_s=1e-5, bytes_per_s=1e10)
    network = Network(inside=inside, between=between, algorithm="hierarchical")
    n, m, size = 4, 3, 1e8
    expected = 2 * (n - 1) * (1e-6 + size / n / 1e11) + 2 * (m - 1) * (1e-5 + size / m / 1e10)
    assert network.allreduce_s(size, (n,) * m) == pytest.approx(expected)
    assert network.allreduce_s(size, (4, 4, 1)) == pytest.approx(expected)
    ring = dataclasses.replace(network, algorithm="ring")
    for layout in ((4,), (1, 1, 1)):
        assert network.allreduce_s(size, layout) == pytest.approx(ring.allreduce_s(size, layout))


def test_halving_doubling_counts_what_leaves_a_node_at_once():
    between = Link(latency_s=1e-5, bytes_per_s=1e10)
    network = Network(inside=Link(latency_s=1e-6, bytes_per_s=1e11), between=between, algorithm="halving_doubling")
    size = 1e8
    # ranks 0 and 1 of a node exchange a half of the vector; then each a quarter with its partner on the other node
    expected = 2 * (1e-6 + size / 2 / 1e11) + 2 * (1e-5 + 2 * size / 4 / 1e10)
    assert network.allreduce_s(size, (2, 2)) == pytest.approx(expected)
    # two ranks, one a node, with a third that gives its vector away within its node first
    assert network.allreduce_s(size, (2, 1)) == pytest.approx(
        2 * 1e-6 + 2 * size / 1e11 + 2 * between.message_s(size / 2)
    )


def test_gloo_pays_two_delays_a_step():
    network = Network(between=Link(latency_s=1e-3, bytes_per_s=25e6), algorithm="gloo")
    p, size = 4, 4 * MIB
    expected = 4 * (p - 1) * 1e-3 + 2 * (p - 1) / p * size / (GLOO_SHARE * 25e6)
    assert network.allreduce_s(size, (1,) * p) == pytest.approx(expected)


@pytest.mark.parametrize(("delay_s", "size", "measured_s"), [
    (0, 256 * 1024, 10.7e-3), (0, MIB, 44e-3), (0, 4 * MIB, 177e-3),
    (1e-3, 256, 4.7e-3), (1e-3, 256 * 1024, 15e-3), (1e-3, MIB, 47e-3), (1e-3, 4 * MIB, 181e-3),
])  # fmt: skip
def test_gloo_as_it_was_measured_over_links_of_200_mbit_per_s(delay_s, size, measured_s):
    network = Network(between=Link(latency_s=delay_s, bytes_per_s=25e6), algorithm="gloo")
    assert network.allreduce_s(size, (1, 1)) == pytest.approx(measured_s, rel=0.16)


@pytest.mark.parametrize(("collective", "ranks", "size", "measured_s"), [
    ("broadcast_s", 2, 256, 2.5e-3), ("broadcast_s", 4, 256, 4.7e-3),
    ("broadcast_s", 2, MIB, 44.6e-3), ("broadcast_s", 4, MIB, 138.8e-3),
    ("allgather_s", 2, 256, 2.6e-3), ("allgather_s", 4, 256, 7.4e-3), ("allgather_s", 2, MIB, 24.0e-3),
    ("reduce_scatter_s", 2, MIB, 48.4e-3), ("reduce_scatter_s", 4, MIB, 94.6e-3), ("reduce_scatter_s", 4, 256, 13.9e-3),
])  # fmt: skip
def test_gloos_other_collectives_as_measured_over_links_of_200_mbit_per_s_and_1_ms(collective, ranks, size, measured_s):
    network = Network(between=Link(latency_s=1e-3, bytes_per_s=25e6), algorithm="gloo")
    assert getattr(network, collective)(size, (1,) * ranks) == pytest.approx(measured_s, rel=0.24)


@given(NETWORKS, COLLECTIVES, SIZES)
def test_one_rank_waits_for_nobody(network, collective, size):
    for algorithm in (network.algorithm, "nccl"):
        assert getattr(dataclasses.replace(network, algorithm=algorithm), collective)(size, (1,)) == 0


@given(NETWORKS, COLLECTIVES, SIZES, st.floats(1, 100), LAYOUTS)
def test_more_bytes_and_slower_links_never_take_less(network, collective, size, more, layout):
    time = getattr(network, collective)(size, layout) * (1 - 1e-12)
    assert getattr(network, collective)(size * more, layout) >= time
    for tier in ("inside", "between"):
        link = getattr(network, tier)
        later = dataclasses.replace(link, latency_s=link.latency_s * more + 1e-6)
        narrower = dataclasses.replace(link, bytes_per_s=link.bytes_per_s / more)
        for slower in (later, narrower):
            assert getattr(dataclasses.replace(network, **{tier: slower}), collective)(size, layout) >= time


@given(NETWORKS, SIZES, LAYOUTS, st.booleans())
def test_no_algorithm_beats_the_bandwidth_that_every_one_needs(network, size, layout, with_nccl):
    if with_nccl:
        network = dataclasses.replace(network, algorithm="nccl")
    p = sum(layout)
    fastest = max(network.inside.bytes_per_s, network.between.bytes_per_s)
    assert network.allreduce_s(size, layout) >= 2 * (p - 1) / p * size / fastest * (1 - 1e-9)


@given(NETWORKS, SIZES, LAYOUTS)
def test_an_allreduce_is_a_reduce_scatter_and_an_allgather(network, size, layout):
    halves = network.reduce_scatter_s(size, layout) + network.allgather_s(size, layout)
    if network.algorithm not in ("tree", "gloo"):
        assert network.allreduce_s(size, layout) == pytest.approx(halves)


def test_a_broadcast_reaches_nodes_first():
    network = Network(inside=Link(latency_s=1e-6, bytes_per_s=1e10), between=Link(latency_s=1e-5, bytes_per_s=1e9))
    assert network.broadcast_s(1e6, (4, 4, 1)) == pytest.approx(2 * (1e-5 + 1e-3) + 2 * (1e-6 + 1e-4))
    assert one_node(1e-6, 1e10).broadcast_s(1e6, (5,)) == pytest.approx(3 * (1e-6 + 1e-4))


@pytest.mark.parametrize(("layout", "about_ms"), [
    ((2,), 2.6), ((1, 1), 2.2), ((2, 2), 4.0), ((1, 1, 1, 1), 3.4), ((2, 2, 2, 2), 4.8),
])  # fmt: skip
def test_nccl_with_25_mib_over_pcie_and_hdr(layout, about_ms):
    choice = PCIE_AND_HDR.choice(25 * MIB, layout)
    assert (choice.algorithm, choice.protocol) == ("Ring", "Simple")
    assert choice.time_s * 1e3 == pytest.approx(about_ms, abs=0.05)


def test_nccl_by_hand_from_the_constants_of_its_tuner():
    found = {str(choice): choice.time_s for choice in PCIE_AND_HDR.nccl_choices(1024, (2, 2))}
    assert set(found) == {"Ring LL", "Ring Simple", "Tree LL", "Tree Simple"}
    assert found["Ring LL"] == pytest.approx(6.6e-6 + 4 * 1e-6 + 2 * 2.7e-6 + 1.5 * 1024 / 5e9)
    assert found["Ring Simple"] == pytest.approx(1.4 * (8.4e-6 + 4 * 5.7e-6 + 2 * 14e-6) + 1.5 * 1024 / 10e9)
    assert found["Tree LL"] == pytest.approx(6.8e-6 + 2 * (1e-6 + 5e-6) + 2 * 1024 / (10e9 * 0.92 / 3.8 * 0.9))
    spread = {str(choice): choice.time_s for choice in PCIE_AND_HDR.nccl_choices(1024, (1, 1, 1, 1))}
    assert spread["Ring LL"] == pytest.approx(6.6e-6 + 6 * 5e-6 + 1.5 * 1024 / 6e9)
    assert spread["Tree LL"] == pytest.approx(6.8e-6 + 4 * 5e-6 + 2 * 1024 / (12e9 * 0.92 / 3.8 * 0.9))


def test_nccl_takes_trees_for_small_messages_on_many_nodes_and_rings_for_large_ones():
    layout = (2,) * 16
    choices = [PCIE_AND_HDR.choice(2**power, layout) for power in range(10, 29)]
    assert str(choices[0]) == "Tree LL"
    assert str(choices[-1]) == "Ring Simple"
    assert len({choice.protocol for choice in choices}) == 2


@given(SIZES, LAYOUTS.filter(lambda layout: sum(layout) > 1), st.booleans())
def test_nccl_takes_the_least_of_what_it_may(size, layout, nvlink):
    network = dataclasses.replace(PCIE_AND_HDR, nvlink=nvlink)
    free = network.choice(size, layout)
    assert free.time_s == min(choice.time_s for choice in network.nccl_choices(size, layout))
    held = dataclasses.replace(network, nccl_algorithms=("Tree",), nccl_protocols=("LL128",))
    assert str(held.choice(size, layout)) == "Tree LL128"
    assert held.allreduce_s(size, layout) >= free.time_s or not nvlink


def test_nccl_has_ll128_over_nvlink_or_where_it_is_told_to():
    nvlink = dataclasses.replace(PCIE_AND_HDR, nvlink=True)
    assert str(nvlink.choice(MIB, (8,))).endswith("LL128")
    assert all("LL128" not in str(PCIE_AND_HDR.choice(2**power, (8,))) for power in range(8, 28))
    told = dataclasses.replace(PCIE_AND_HDR, nccl_protocols=("LL128",))
    assert str(told.choice(MIB, (8,))) == "Ring LL128"


@given(st.sampled_from(nccl.ALGORITHMS), st.sampled_from(NCCL_PROTOCOLS), SIZES, LINKS, LINKS, LAYOUTS, LINKS)
def test_nccl_is_later_over_later_links(algorithm, protocol, size, inside, between, layout, more):
    if sum(layout) == 1:
        return
    held = {"algorithm": "nccl", "nccl_algorithms": (algorithm,), "nccl_protocols": (protocol,)}
    network = Network(inside=inside, between=between, **held)
    later = Network(
        inside=dataclasses.replace(inside, latency_s=inside.latency_s + more.latency_s),
        between=dataclasses.replace(between, latency_s=between.latency_s + more.latency_s),
        **held,
    )
    for collective in ("allreduce_s", "reduce_scatter_s", "allgather_s", "broadcast_s"):
        assert getattr(later, collective)(size, layout) >= getattr(network, collective)(size, layout) * (1 - 1e-12)


def test_sizes_from_a_frame_are_taken():
    assert one_node(0, 1e9).allreduce_s(np.int64(10**6), (2,)) == pytest.approx(1e-3)


@pytest.mark.parametrize(("changes", "said"), [
    ({"algorithm": "butterfly"}, "algorithm = 'butterfly': must be one of ring, tree"),
    ({"basis": "guess"}, "basis = 'guess': must be one of assumed"),
    ({"nccl_algorithms": ()}, r"nccl_algorithms = \(\): must be some of Ring, Tree"),
    ({"nccl_protocols": ("LL64",)}, r"nccl_protocols = \('LL64',\): must be some of LL, LL128, Simple"),
])  # fmt: skip
def test_a_wrong_setting_is_named(changes, said):
    with pytest.raises(ValueError, match=said):
        Network(**changes)


@pytest.mark.parametrize(("size", "layout", "said"), [
    (-1, (2,), "message_bytes = -1: must be a number >= 0"),
    (math.inf, (2,), "message_bytes = inf"),
    (1, (), r"layout = \(\): must be the ranks on each node"),
    (1, (2, 0), r"layout = \(2, 0\)"),
])  # fmt: skip
@pytest.mark.parametrize("collective", ["allreduce_s", "reduce_scatter_s", "allgather_s", "broadcast_s"])
def test_a_wrong_message_is_named(collective, size, layout, said):
    with pytest.raises(ValueError, match=said):
        getattr(one_node(), collective)(size, layout)


@pytest.mark.parametrize(("changes", "said"), [
    ({"latency_s": -1}, "latency_s = -1: must be a number >= 0"),
    ({"latency_s": math.nan}, "latency_s = nan"),
    ({"bytes_per_s": 0}, "bytes_per_s = 0: must be a number > 0"),
    ({"bytes_per_s": "fast"}, "bytes_per_s = 'fast'"),
])  # fmt: skip
def test_a_wrong_link_is_named(changes, said):
    with pytest.raises(ValueError, match=said):
        Link(**changes)


def test_a_profile_gives_its_network():
    profile = load_profile("finisterrae3")
    network = of_profile(dataclasses.asdict(profile.network), profile.name)
    assert network.inside == PCIE_AND_HDR.inside
    assert network.between == PCIE_AND_HDR.between
    assert (network.algorithm, network.name, network.basis, network.nvlink) == (
        "nccl",
        "finisterrae3",
        "assumed",
        False,
    )
