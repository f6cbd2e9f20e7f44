from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fabricate import make_point
from simulated import one_node

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import flops_per_sample
from kanstudy.analysis.prediction.isoefficiency import (
    beside,
    efficiency_map,
    isoefficiency,
    sentence,
    with_hidden_width,
    with_operator,
)

LAUNCHES = MachineModel(name="launches only", launch_s=1e-3)
MODEL = make_point(world_size=8, global_batch_size=4096)
WEAK = {"scaling": "weak", "experiment": "weak_scaling"}


def row_s(machine: MachineModel) -> float:
    return flops_per_sample(MODEL) / machine.flops_per_s


@pytest.mark.parametrize("efficiency", [0.3, 0.7, 0.9])
def test_the_least_batch_with_a_fixed_part_is_the_closed_form(efficiency: float) -> None:
    """E = (t0 + t1·B)/(p·t0 + t1·B), so that B = t0·(p·E - 1)/(t1·(1 - E))."""
    found = isoefficiency(LAUNCHES, MODEL, efficiency, [2, 8, 64])
    for p, local in zip(found["world_size"], found["local_batch_size"], strict=True):
        batch = LAUNCHES.launch_s * (p * efficiency - 1) / (row_s(LAUNCHES) * (1 - efficiency))
        assert local == max(1, math.ceil(batch / p))


def test_a_ring_needs_a_local_batch_that_grows_with_the_ranks() -> None:
    """One bucket is never hidden: weak scaling keeps E where t1·b = E/(1 - E)·2(p - 1)·α."""
    machine = MachineModel(network=one_node(latency_s=1e-4))
    found = isoefficiency(machine, replace(MODEL, **WEAK), 0.8, [2, 3, 5, 9])
    assert found["local_batch_size"].tolist() == pytest.approx(
        [math.ceil(0.8 / 0.2 * 2 * (p - 1) * 1e-4 / row_s(machine)) for p in (2, 3, 5, 9)], abs=1
    )
    assert (found["efficiency"] >= 0.8).all()
    assert (found["work_flop"] == flops_per_sample(MODEL) * found["global_batch_size"]).all()


def test_a_faster_operator_needs_as_many_times_the_batch() -> None:
    found = isoefficiency(LAUNCHES, MODEL, 0.8, [8], operator_speeds=[1, 5])
    slow, fast = found["local_batch_size"]
    assert fast == pytest.approx(5 * slow, abs=5)


def test_an_efficiency_out_of_reach_says_why() -> None:
    never = MachineModel(contention=0.5)
    row = isoefficiency(never, MODEL, 0.9, [4], most_rows=1024).iloc[0]
    assert np.isnan(row["global_batch_size"])
    assert row["reason"] == "not reached with 1024 rows a rank, the largest asked for"
    small = replace(LAUNCHES, memory_bytes=LAUNCHES.peak_memory_bytes(replace(MODEL, global_batch_size=64), "ddp"))
    assert "not reached with 8 rows a rank, the largest that fits" in isoefficiency(small, MODEL, 0.9, [8])["reason"][0]
    with pytest.raises(ValueError, match=r"efficiency = 1\.2: must lie between 0 and 1"):
        isoefficiency(LAUNCHES, MODEL, 1.2, [8])


def test_a_machine_without_losses_keeps_it_from_one_row_on() -> None:
    assert isoefficiency(MachineModel(), MODEL, 0.99, [64])["local_batch_size"].tolist() == [1]


def test_the_map_is_the_closed_form_in_every_cell() -> None:
    found = efficiency_map(LAUNCHES, MODEL, [16, 64], [5, 15], [512, 4096], [1.0, 3.0])
    assert len(found) == 16
    assert set(found["source"]) == {"predicted"}
    for row in found.to_dict("records"):
        widths = with_hidden_width(MODEL.layer_widths, row["hidden_width"])
        point = replace(MODEL, layer_widths=widths, grid_size=row["grid_size"])
        work = flops_per_sample(point) / (row["operator_speed"] * LAUNCHES.flops_per_s) * row["global_batch_size"]
        step = 1e-3 + work / 8
        assert row["step_time_s"] == pytest.approx(step)
        assert row["efficiency"] == pytest.approx((1e-3 + work) / 8 / step)
        assert row["throughput"] == pytest.approx(row["global_batch_size"] / step)
        assert row["largest_loss"] == ("batch" if row["efficiency"] < 0.99 else "none")


def test_which_loss_is_largest_changes_over_the_map() -> None:
    """Small models wait for launches, large ones for their gradients."""
    machine = replace(LAUNCHES, network=one_node(bytes_per_s=1e9), flops_per_s=1e12)
    found = efficiency_map(machine, MODEL, [8, 2048], [5], [4096])
    assert found["largest_loss"].tolist() == ["batch", "data movement"]


def test_what_does_not_fit_has_no_numbers() -> None:
    limit = LAUNCHES.peak_memory_bytes(replace(MODEL, global_batch_size=1024), "ddp")
    found = efficiency_map(replace(LAUNCHES, memory_bytes=limit), MODEL, [64], [5], [1024, 2048])
    assert found["fits"].tolist() == [True, False]
    assert np.isnan(found["efficiency"][1])
    assert found["largest_loss"].isna().tolist() == [False, True]


def test_a_faster_operator_scales_worse_and_finishes_sooner() -> None:
    found = efficiency_map(LAUNCHES, MODEL, [64], [5], [1024, 2048], [1, 4])
    pairs = beside(found)
    assert pairs["scales_worse"].all()
    assert pairs["finishes_sooner"].all()
    words = sentence(found, LAUNCHES)
    assert "launches only, 8 ranks (predicted): an operator 4 times as fast" in words
    assert "in 2 of 2 cells" in words
    lost = pairs.loc[(pairs["efficiency"] - pairs["efficiency_faster"]).idxmax()]
    assert f"{lost['efficiency']:.2f} becomes {lost['efficiency_faster']:.2f}" in words


def test_where_nothing_is_fixed_a_faster_operator_scales_as_well() -> None:
    found = efficiency_map(MachineModel(), MODEL, [64], [5], [1024], [1, 4])
    assert not beside(found)["scales_worse"].any()
    assert "in 0 of 1 cells" in sentence(found, MachineModel())
    assert "Most efficiency is lost" not in sentence(found, MachineModel())
    assert "cannot be compared" in sentence(found[found["operator_speed"] == 1], MachineModel())


def test_a_model_without_a_hidden_layer_has_no_width() -> None:
    with pytest.raises(ValueError, match="must have a hidden layer"):
        efficiency_map(LAUNCHES, make_point(layer_widths=(32, 1)), [8], [5], [1024])


def test_an_operator_changes_the_work_of_rows_alone() -> None:
    rates = {"flops_per_s": 3e10, "activation_bytes_per_s": 1e9}
    twice = replace(LAUNCHES, **{name: 2 * rate for name, rate in rates.items()})
    assert with_operator(replace(LAUNCHES, **rates), 2.0) == twice
