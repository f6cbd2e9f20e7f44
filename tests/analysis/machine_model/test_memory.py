from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.analysis import results
from kanstudy.analysis.machine_model.memory import peak_memory_bytes
from kanstudy.analysis.machine_model.work import buffer_bytes, layer_bytes
from kanstudy.spec import PointSpec
from kanstudy.worker.instrument import measure_peak_memory

SHAPES = [(8, 512, 8, 1), (5, 3, 100, 100, 7)]
MODELS = {
    "reference": {"operator": "reference"},
    "fine grid, double": {"operator": "reference", "grid_size": 20, "spline_order": 2, "dtype": "float64"},
    "order 5, SGD": {"operator": "reference", "spline_order": 5, "optimizer": "sgd"},
    "order 1": {"operator": "reference", "spline_order": 1},
    "fused": {"operator": "fused"},
    "fused, double, SGD": {"operator": "fused", "dtype": "float64", "optimizer": "sgd"},
    "mlp": {"model": "mlp"},
}


def measured(point: PointSpec) -> int:
    dtype = getattr(torch, point.dtype)
    rows, inputs, outputs = point.global_batch_size, point.layer_widths[0], point.layer_widths[-1]
    batch = torch.rand(rows, inputs, dtype=dtype), torch.rand(rows, outputs, dtype=dtype)
    found = [measure_peak_memory(point, "serial_global", torch.device("cpu"), None, [batch]) for _ in range(2)]
    return found[-1]  # in the first the fused operator makes its scratch memory


@pytest.mark.parametrize("widths", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_it_is_what_torch_holds(model: str, widths: tuple[int, ...]) -> None:
    point = make_point(**MODELS[model], layer_widths=widths, world_size=1, global_batch_size=2000)
    assert peak_memory_bytes(point, "serial_global") == pytest.approx(measured(point), rel=1e-3)


@pytest.mark.parametrize("operator", ["compiled", "auto"])
def test_of_other_operators_it_is_that_of_the_reference(operator: str) -> None:
    point, reference = (make_point(operator=name) for name in (operator, "reference"))
    assert peak_memory_bytes(point, "ddp") == peak_memory_bytes(reference, "ddp")


def test_it_is_that_of_measured_records(repository: Path) -> None:
    """Every arm of every record within 0.1 %, but for some of DDP on two ranks that hold one more copy of the module,
    as broadcast when it is wrapped."""
    residuals = []
    for record in results.load(repository / "results" / "reference" / "laptop").records:
        names = ("model", "layer_widths", "grid_size", "spline_order", "operator", "world_size", "global_batch_size")
        point = make_point(scaling="strong", **{name: getattr(record, name) for name in names})
        copy = sum(layer_bytes(point)) + buffer_bytes(point)
        for name, arm in record.arms.items():
            expected = peak_memory_bytes(point, name)
            for found in arm.peak_memory_bytes or []:
                with_copy = expected + copy * (name.startswith("ddp") and record.world_size > 1)
                residuals.append(min(abs(found - expected), abs(found - with_copy)) / found)
    assert len(residuals) > 60
    assert np.sort(residuals)[-2] < 1e-3
    assert max(residuals) < 5e-3, "where buffers are broadcast in forward a copy of them is there, too"


@given(
    rows=st.integers(1, 10**5),
    width=st.integers(1, 2000),
    operator=st.sampled_from(["reference", "fused", "compiled"]),
    arm=st.sampled_from(["serial_local", "concurrent", "ddp"]),
)
def test_it_grows_with_rows_and_width_and_ddp_needs_more(rows: int, width: int, operator: str, arm: str) -> None:
    def of(rows: int, width: int, arm: str = arm) -> int:
        point = make_point(
            world_size=2, n_samples=10**6, global_batch_size=2 * rows, layer_widths=(8, width, 4, 1), operator=operator
        )
        return peak_memory_bytes(point, arm)

    assert of(rows, width) < of(2 * rows, width)
    assert of(rows, width) < of(rows, 2 * width)
    assert of(rows, width, "serial_local") == of(rows, width, "concurrent") < of(rows, width, "ddp")
