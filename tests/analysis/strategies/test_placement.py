from __future__ import annotations

import pytest

from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.strategies.placement import Group, replica_groups, slowest_s, tensor_groups


@pytest.mark.parametrize(
    ("layout", "tensor_ranks", "neighbours", "replicas"),
    [
        ((4, 4), 1, {Group((1,), 1)}, {Group((4, 4), 1)}),
        ((4, 4), 2, {Group((2,), 1)}, {Group((2, 2), 2)}),
        ((4, 4), 4, {Group((4,), 1)}, {Group((1, 1), 4)}),
        ((4, 4), 8, {Group((4, 4), 1)}, {Group((1,), 1)}),
        ((2, 2, 2, 2), 4, {Group((2, 2), 1)}, {Group((1, 1), 2)}),
        ((1, 1, 1, 1), 2, {Group((1, 1), 1)}, {Group((1, 1), 1)}),
        ((3, 1), 2, {Group((2,), 1), Group((1, 1), 1)}, {Group((2,), 1), Group((1, 1), 1)}),
    ],
)
def test_neighbours_hold_a_model_together(
    layout: tuple[int, ...], tensor_ranks: int, neighbours: set[Group], replicas: set[Group]
) -> None:
    assert tensor_groups(layout, tensor_ranks) == neighbours
    assert replica_groups(layout, tensor_ranks) == replicas


def test_groups_that_share_a_nodes_link_have_a_part_of_it_each() -> None:
    network = Network(inside=Link(bytes_per_s=1e12), between=Link(latency_s=1e-3, bytes_per_s=1e9))
    one = slowest_s({Group((1, 1), 1)}, network, "allreduce", 1e6)
    assert one == pytest.approx(2 * (1e-3 + 1e6 / 2 / 1e9))
    assert slowest_s({Group((1, 1), 4)}, network, "allreduce", 1e6) == pytest.approx(2 * (1e-3 + 4 * 1e6 / 2 / 1e9))
    both = {Group((1, 1), 1), Group((2,), 1)}
    assert slowest_s(both, network, "allreduce", 1e6) == one
