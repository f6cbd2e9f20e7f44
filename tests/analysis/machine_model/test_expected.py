from __future__ import annotations

import math

import pytest
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st
from simulated import one_node, truth

from kanstudy.analysis.machine_model.expected import expected, of_times
from kanstudy.analysis.machine_model.model import MachineModel, spread_ranks

BUSY = MachineModel(
    launch_s=1e-3, optimizer_s_per_parameter=1e-8, cache_rows=600, spill_factor=1.3, contention=0.1, ddp_s=2e-4,
    rank_slowness=(1.0, 1.05, 1.2), network=one_node(5e-5, 1e9),
)  # fmt: skip


@given(
    p=st.sampled_from([1, 2, 3, 4, 8]),
    scaling=st.sampled_from(["strong", "weak"]),
    width=st.integers(1, 300),
    rows=st.integers(1, 2000),
    latency_s=st.floats(0, 1e-2),
    contention=st.floats(0, 0.5),
)
def test_it_is_what_blocks_without_noise_give(
    p: int, scaling: str, width: int, rows: int, latency_s: float, contention: float
) -> None:
    """The simulation draws blocks of steps and takes their medians: another way to the same numbers."""
    machine = MachineModel(
        launch_s=1e-3, ddp_s=1e-4, contention=contention, rank_slowness=spread_ranks(p, 0.1, 1),
        network=one_node(latency_s, 1e9),
    )  # fmt: skip
    changes = {"scaling": scaling, "experiment": f"{scaling}_scaling", "block_s": 0.01, "warmup_s": 0.0}
    point = make_point(world_size=p, global_batch_size=rows * p, layer_widths=(32, width, 1), **changes)
    found, drawn = expected(point, machine), truth(point, machine)
    assert found.factors == pytest.approx(drawn.factors, rel=1e-9)
    assert found.efficiency == pytest.approx(drawn.efficiency, rel=1e-9)
    assert found.exposed_s == pytest.approx(drawn.exposed_s, rel=1e-6, abs=1e-12)
    assert {name: found.times_s[name] for name in drawn.times_s} == pytest.approx(drawn.times_s, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 4, 6])
@pytest.mark.parametrize("scaling", ["strong", "weak"])
def test_factors_multiply_to_the_efficiency(p: int, scaling: str) -> None:
    found = expected(make_point(world_size=p, scaling=scaling, global_batch_size=1200), BUSY)
    assert math.prod(found.factors.values()) == pytest.approx(found.efficiency, rel=1e-12)
    assert found.overhead == pytest.approx(found.exposed_s / found.step_time_s)


def test_a_machine_without_losses_is_fully_efficient() -> None:
    found = expected(make_point(world_size=8), MachineModel())
    assert found.efficiency == pytest.approx(1)
    assert list(found.factors.values()) == pytest.approx([1] * 6)
    assert found.exposed_s == pytest.approx(0)


def test_without_all_arms_there_are_no_factors() -> None:
    found = of_times(make_point(), {"ddp_noop": 1.0, "ddp": 1.25})
    assert found.factors == {}
    assert math.isnan(found.efficiency)
    assert found.overhead == pytest.approx(0.2)
