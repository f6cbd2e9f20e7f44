from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import flops_per_sample
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.prediction.isoefficiency import with_hidden_width
from kanstudy.analysis.prediction.published_region import (
    DIGIT,
    ORDERS,
    REGION,
    TOLERANCE,
    Settings,
    not_monotonic,
    region,
    sentence,
)
from kanstudy.analysis.published import EFFICIENCY, OVERHEAD
from kanstudy.analysis.tables.view import view

MODEL = make_point(world_size=8)
LAUNCHES = MachineModel(name="launches only", launch_s=1e-3, ranks_per_node=2, nodes=4)
SLOW_INSIDE = MachineModel(
    name="slow inside", launch_s=4e-4, ranks_per_node=2, nodes=4,
    network=Network(inside=Link(bytes_per_s=1e9), between=Link(bytes_per_s=2e9)),
)  # fmt: skip
"""Two ranks of a node reach each other more slowly than those of two nodes, so that spread costs less than packed."""
BATCHES = [8 * 2**k for k in range(4, 13)]
SIZES = Settings([16, 32, 64], BATCHES)


def test_where_only_launches_cost_the_efficiency_agrees_along_a_known_line() -> None:
    """E = (t0 + t1·B)/(8·t0 + t1·B): it is the published one at B = t0·(8·E - 1)/(t1·(1 - E))."""
    found = region(LAUNCHES, MODEL, SIZES)
    assert len(found) == 3 * len(BATCHES) * 2 * len(ORDERS)
    for row in found.to_dict("records"):
        point = replace(MODEL, layer_widths=with_hidden_width(MODEL.layer_widths, row["hidden_width"]))
        work = flops_per_sample(point) / LAUNCHES.flops_per_s * row["global_batch_size"]
        value = (1e-3 + work) / (8e-3 + work)
        assert row["efficiency"] == pytest.approx(value)
        assert row["efficiency_agrees"] == (abs(value - EFFICIENCY.low) <= TOLERANCE)
        assert row["largest_loss"] == "batch"
        assert row["largest_share"] == pytest.approx(1)
    assert found["efficiency_agrees"].any()
    assert not found[["overhead_agrees", "not_monotonic", "consistent"]].any().any()
    words = sentence(found, LAUNCHES)
    assert "none is consistent" in words
    assert f"the efficiency agrees in {found['efficiency_agrees'].sum()}" in words
    assert "(assumed)" in words
    assert f"widths 16 to 64 and global batches {BATCHES[0]} to {BATCHES[-1]}" in words
    assert "both in 0" in words


def test_the_region_is_where_all_three_agree_and_each_of_its_numbers_is_the_models() -> None:
    machine, sizes = SLOW_INSIDE, Settings([16, 24, 32], [8 * round(2 ** (k / 4)) for k in range(24, 60)])
    found = region(machine, MODEL, sizes)
    inside = found[found["consistent"]]
    assert len(inside) > 0
    assert set(inside["order"]) == {"packed, then spread"}
    for row in inside.to_dict("records"):
        assert abs(row["efficiency"] - EFFICIENCY.low) <= TOLERANCE
        values = []
        for p, placement in ORDERS[row["order"]]:
            rows = row["global_batch_size"] if row["scaling"] == "strong" else row["global_batch_size"] // 8 * p
            widths = with_hidden_width(MODEL.layer_widths, row["hidden_width"])
            changes = {"scaling": row["scaling"], "layer_widths": widths, "placement": placement}
            point = make_point(world_size=p, global_batch_size=rows, n_samples=10**6, **changes)
            values.append(expected(point, machine).overhead)
        assert OVERHEAD.low <= min(values) == row["overhead_lowest"]
        assert OVERHEAD.high >= max(values) == row["overhead_highest"]
        assert values[1] < values[0] - DIGIT
        assert f"{100 * values[0]:.1f} at 2 packed, {100 * values[1]:.1f} at 2 spread" in row["overheads"]
    words = sentence(found, machine)
    assert f"{len(inside)} lie in a region consistent with" in words
    assert "not a reproduction" in words
    assert "reproduces" not in words
    assert "at 2 spread" in view(inside, REGION).to_markdown()


def test_a_region_that_may_go_on_beyond_the_sizes_asked_for_says_so() -> None:
    batches = [8 * round(2 ** (k / 4)) for k in range(24, 60)]
    found = region(SLOW_INSIDE, MODEL, Settings([1, 16, 24, 32, 1024], batches))
    inside = found.loc[found["consistent"], "hidden_width"]
    assert 1 < inside.min() <= inside.max() < 1024
    assert "at the edge" not in sentence(found, SLOW_INSIDE)
    assert "at the edge of the widths asked for" in sentence(found[found["hidden_width"] <= inside.max()], SLOW_INSIDE)


def test_what_a_rank_cannot_hold_agrees_with_nothing() -> None:
    """The baseline has the whole batch on one rank: it needs more than a rank of eight."""
    limit = LAUNCHES.peak_memory_bytes(replace(MODEL, global_batch_size=BATCHES[-1], n_samples=10**6), "ddp")
    found = region(replace(LAUNCHES, memory_bytes=limit), MODEL, SIZES)
    largest = found[found["global_batch_size"] == BATCHES[-1]]
    assert not largest["fits"].all()
    assert not found.loc[~found["fits"], ["efficiency_agrees", "overhead_agrees", "consistent"]].any().any()


@given(st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=6))
def test_not_monotonic_is_a_rise_and_a_fall(values: list[float]) -> None:
    steps = [b - a for i, a in enumerate(values) for b in values[i + 1 :]]
    both = any(step >= DIGIT for step in steps) and any(-step >= DIGIT for step in steps)
    assert not_monotonic(np.array(values)) == both


def test_less_than_a_digit_neither_rises_nor_falls() -> None:
    assert not not_monotonic(np.array([0.02, 0.0205, 0.02]))
    assert not not_monotonic(np.array([0.01, 0.02, 0.06]))
    assert not_monotonic(np.array([0.02, 0.01, 0.03]))


def test_twice_the_launch_is_half_the_rate_of_work() -> None:
    """The efficiency depends on their ratio alone where nothing else costs: batches twice as large are the region."""
    halved = region(replace(LAUNCHES, flops_per_s=LAUNCHES.flops_per_s / 2), MODEL, SIZES)
    doubled = region(replace(LAUNCHES, launch_s=LAUNCHES.launch_s / 2), MODEL, SIZES)
    assert halved["efficiency"].tolist() == pytest.approx(doubled["efficiency"].tolist())
