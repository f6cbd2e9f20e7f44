from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st
from simulated import one_node

from kanstudy.analysis import results
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import (
    activation_bytes_per_sample,
    flops_per_sample,
    layer_bytes,
    n_parameters,
)
from kanstudy.analysis.network.network import Link, Network


def test_a_step_is_launches_products_elements_and_the_optimizer() -> None:
    point = make_point()
    machine = MachineModel(
        flops_per_s=1e11, activation_bytes_per_s=1e10, launch_s=1e-3, backward_share=0.6, optimizer_s=2e-4,
        optimizer_s_per_parameter=1e-9,
    )  # fmt: skip
    edges = 32 * 64 + 64 * 64 + 64
    both = 1e-3 + 500 * (6 * 9 * edges / 1e11 + 6 * 4 * 9 * (32 + 64 + 64) / 1e10)
    assert machine.phases_s(point, 500) == pytest.approx((0.4 * both, 0.6 * both, 2e-4 + 1e-9 * 9 * edges))
    assert (flops_per_sample(point), activation_bytes_per_sample(point)) == (54 * edges, 34560)


@given(rows=st.integers(1, 10**6), exponent=st.floats(1, 60))
def test_launches_hide_behind_work_the_more_the_larger_the_exponent(rows: int, exponent: float) -> None:
    both = [
        sum(MachineModel(launch_s=1e-3, launch_exponent=k).phases_s(make_point(), rows)) for k in (1, exponent, 400)
    ]
    work = rows * flops_per_sample(make_point()) / 2e10
    assert both[0] == pytest.approx(1e-3 + work)
    assert both[2] == pytest.approx(max(1e-3, work), rel=2e-3)
    assert both[2] * (1 - 1e-12) <= both[1] <= both[0] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("nodes", "placement", "layout"),
    [(4, "packed", (2, 2)), (4, "spread", (1, 1, 1, 1)), (3, "spread", (2, 1, 1)), (None, "spread", (1, 1, 1, 1))],
)
def test_ranks_lie_on_nodes_as_they_are_placed(nodes: int | None, placement: str, layout: tuple[int, ...]) -> None:
    point = make_point(world_size=4, placement=placement)
    assert MachineModel(ranks_per_node=2, nodes=nodes).layout(point) == layout
    assert MachineModel().layout(point) == (4,)


def test_ranks_crowd_those_of_their_own_node_and_send_over_the_links_they_use() -> None:
    machine = MachineModel(
        ranks_per_node=2, nodes=4, contention=0.1, network=Network(inside=Link(bytes_per_s=1e8), between=Link())
    )
    packed, spread = (make_point(placement=placement) for placement in ("packed", "spread"))
    assert (machine.crowding(packed), machine.crowding(spread)) == (1.1, 1.0)
    assert machine.crowding(make_point(world_size=8)) == 1.1
    backward = np.array(1e-3)
    assert machine.exposed_s(packed, backward) == pytest.approx(sum(layer_bytes(packed)) / 1e8)
    assert machine.exposed_s(spread, backward) == 0


def test_ddp_copies_gradients() -> None:
    machine, point = MachineModel(ddp_s=1e-4, ddp_s_per_byte=1e-9), make_point()
    own = machine.arm_phases_s(point, "ddp_noop")[1] - machine.arm_phases_s(point, "concurrent")[1]
    assert own == pytest.approx(1e-4 + 4e-9 * n_parameters(point))


def test_a_bucket_costs_more_within_a_step_than_a_collective_by_itself() -> None:
    point, network = make_point(world_size=2), one_node(latency_s=1e-4, bytes_per_s=1e9)
    alone = float(MachineModel(network=network).exposed_s(point, np.array(1e-2)))
    within = MachineModel(network=network, bucket_s=1e-3, bucket_s_per_byte=1e-9)
    assert len(gradient_buckets(point)) == 1
    more = 1e-3 + 1e-9 * sum(layer_bytes(point))
    assert float(within.exposed_s(point, np.array(1e-2))) == pytest.approx(alone + more)


def test_a_bucket_is_ready_with_the_backward_work_behind_it(repository: Path) -> None:
    """Against the times that the worker's hooks noted: products and elements weigh the same here."""
    machine = MachineModel(flops_per_s=1e11, activation_bytes_per_s=math.inf)
    point = make_point(bucket_cap_mb=0.001)
    work = [4 * 64, 4 * 64 * 64, 2 * 32 * 64]
    assert machine.ready_shares(point) == pytest.approx(np.cumsum(work) / sum(work))
    launches = MachineModel(flops_per_s=1e30, launch_s=1e-3)
    assert launches.ready_shares(point) == pytest.approx([1 / 3, 2 / 3, 1])
    seen = 0
    fused = MachineModel(flops_per_s=1e11, activation_bytes_per_s=1.11e10)
    for record in results.load(repository / "results" / "reference" / "laptop").records:
        noop = record.arms.get("ddp_noop")
        if record.model != "kan" or noop is None or not noop.bucket_ready_s or record.bucket_cap_mb == 25.0:
            continue
        point = make_point(
            layer_widths=tuple(record.layer_widths),
            global_batch_size=record.global_batch_size,
            bucket_cap_mb=record.bucket_cap_mb,
        )
        ready = np.median(noop.bucket_ready_s, axis=(0, 1))
        assert fused.ready_shares(point) == pytest.approx(ready / ready[-1], abs=0.02)
        seen += 1
    assert seen == 2


@given(
    cap=st.sampled_from([0.001, 0.1, 25.0]),
    p=st.sampled_from([2, 4, 8]),
    backward=st.floats(1e-6, 1.0),
    latency=st.floats(0, 1e-2),
    bandwidth=st.floats(1e6, 1e12),
)
def test_the_last_bucket_is_never_hidden(cap: float, p: int, backward: float, latency: float, bandwidth: float) -> None:
    point = make_point(world_size=p, bucket_cap_mb=cap)
    for streams in (1, 2):
        machine = MachineModel(network=one_node(latency, bandwidth), streams=streams)
        times = [machine.network.allreduce_s(size, (p,)) for size in gradient_buckets(point)]
        exposed, longer = (float(machine.exposed_s(point, np.array(w))) for w in (backward, 2 * backward))
        assert times[-1] * (1 - 1e-9) - 1e-12 <= exposed <= sum(times) + 1e-12
        if streams == 1:
            assert longer <= exposed + 1e-12, "a longer backward hides more"


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("flops_per_s", 0, "a number > 0"),
        ("activation_bytes_per_s", 0.0, "a number > 0"),
        ("launch_exponent", 0.5, "a number >= 1"),
        ("backward_share", 1.0, "a number between 0 and 1"),
        ("streams", 0, "a whole number >= 1"),
        ("nodes", 2.0, "a whole number >= 1"),
        ("ranks_per_node", True, "a whole number >= 1"),
        ("overlap_slowdown", -0.1, "a number >= 0"),
        ("network", None, "a Network"),
    ],
)
def test_bad_constants_are_refused_by_name(field: str, value: object, allowed: str) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        MachineModel(**{field: value})
    assert str(caught.value) == f"{field} = {value!r}: must be {allowed}"
