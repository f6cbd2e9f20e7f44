from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from fabricate import make_point
from simulated import one_node

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.of_profile import NEEDED, of_profile
from kanstudy.analysis.machine_model.work import activation_bytes_per_sample, flops_per_sample, kernels
from kanstudy.spec import PointSpec
from kanstudy.study.cluster import Device

DEVICE = Device(
    name="GPU", peak_tflops_fp32=20.0, peak_tflops_tf32=100.0, memory_gib=40.0, memory_gb_per_s=1000.0,
    flops_share=0.5, memory_share=0.8, launch_us=5.0, overlap_slowdown=0.2, step_sd=0.01,
)  # fmt: skip


def machine(point: PointSpec, **changes: float) -> MachineModel:
    return of_profile(point, asdict(replace(DEVICE, **changes)), one_node(), ranks_per_node=2, nodes=4)


def test_large_batches_go_by_the_rates_and_small_ones_by_the_launches() -> None:
    point = make_point(operator="compiled")
    found = machine(point)
    large = 10**7
    work = large * (flops_per_sample(point) / 1e13 + activation_bytes_per_sample(point) / 8e11)
    assert sum(found.phases_s(point, large)[:2]) == pytest.approx(work, rel=1e-6)
    assert sum(found.phases_s(point, 1)[:2]) == pytest.approx(5e-6 * kernels(point), rel=1e-3)
    assert found.layout(make_point(world_size=8)) == (2, 2, 2, 2)
    assert (found.memory_bytes, found.overlap_slowdown, found.noise.step_sd) == (40 * 2**30, 0.2, 0.01)


def test_tf32_has_a_peak_of_its_own() -> None:
    assert machine(make_point(tf32=True)).flops_per_s == 5 * machine(make_point()).flops_per_s


@pytest.mark.parametrize("rows", [1, 10**6])
def test_the_reference_launches_and_moves_more(rows: int) -> None:
    reference, compiled = (make_point(operator=name) for name in ("reference", "compiled"))
    slow, fast = (sum(machine(point).phases_s(point, rows)) for point in (reference, compiled))
    assert slow > 2 * fast


@pytest.mark.parametrize("name", ["peak_tflops_fp32", *NEEDED])
def test_a_constant_that_is_not_stated_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is not stated: must be a number > 0"):
        machine(make_point(), **{name: 0.0})


def test_all_that_is_not_stated_is_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"^peak_tflops_fp32, flops_share are not stated"):
        machine(make_point(), peak_tflops_fp32=0.0, flops_share=0.0)
