from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from points import kan_point
from simulated import one_node

from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import activation_bytes_per_sample
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.strategies.compare import compare, fastest, limits

WIDE = {"layer_widths": (64, 256, 256, 64), "global_batch_size": 4096, "n_samples": 4096, "dtype": "float32"}
MACHINE = MachineModel(
    name="invented",
    flops_per_s=1e11,
    activation_bytes_per_s=1e10,
    launch_s=1e-3,
    optimizer_s_per_parameter=1e-9,
    rank_slowness=(1.0, 1.1),
    contention=0.02,
    ddp_s=1e-4,
    ddp_s_per_byte=1e-11,
    bucket_s=1e-5,
    bucket_s_per_byte=1e-11,
    ranks_per_node=4,
    network=Network(inside=Link(latency_s=1e-5, bytes_per_s=1e10), between=Link(latency_s=3e-5, bytes_per_s=2e9)),
)


def row(frame: pd.DataFrame, strategy: str, world_size: int, **values: Any) -> pd.Series:
    found = frame[(frame["strategy"] == strategy) & (frame["world_size"] == world_size)]
    for name, value in values.items():
        found = found[found[name] == value]
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize("scaling", ["strong", "weak"])
@pytest.mark.parametrize("sync_buffers", [False, True])
def test_data_parallel_is_what_the_machine_model_says_of_ddp(scaling: str, sync_buffers: bool) -> None:
    point = kan_point(**WIDE, scaling=scaling, sync_buffers=sync_buffers, bucket_cap_mb=0.5)
    frame = compare(point, MACHINE, [1, 2, 8])
    for p in (2, 8):
        batch = 4096 * (p if scaling == "weak" else 1)
        whole = replace(point, world_size=p, global_batch_size=batch, n_samples=batch)
        truth, found = expected(whole, MACHINE), row(frame, "data parallel", p)
        assert found["step_time_s"] == pytest.approx(truth.step_time_s)
        assert found["exposed_s"] == pytest.approx(truth.exposed_s)
        assert found["parallel_efficiency"] == pytest.approx(truth.efficiency)
        assert found["memory_bytes"] == MACHINE.peak_memory_bytes(whole, "ddp")
        assert found["global_batch_size"] == batch


def test_one_rank_is_the_plain_module() -> None:
    found = row(compare(kan_point(**WIDE), MACHINE, [1]), "data parallel", 1)
    assert found["step_time_s"] == pytest.approx(sum(MACHINE.phases_s(kan_point(**WIDE), 4096)))
    assert found["parallel_efficiency"] == 1
    assert found["sent_bytes"] == found["communication_s"] == found["exposed_s"] == 0


def test_on_an_ideal_machine_only_what_is_done_twice_costs() -> None:
    """With free messages all are ideal, but where a rank expands inputs that others expand too."""
    ideal = MachineModel(flops_per_s=1e11, activation_bytes_per_s=1e10, optimizer_s_per_parameter=0.0)
    frame = compare(kan_point(**WIDE), ideal, [4])
    efficiency = {name: rows["parallel_efficiency"].max() for name, rows in frame.groupby("strategy")}
    for name in ("data parallel", "ZeRO-1, slices", "ZeRO-1, whole tensors", "split by input (row)"):
        assert efficiency[name] == pytest.approx(1)
    products, expansion = 6 * 9 * (2 * 64 * 256 + 256**2) / 1e11, activation_bytes_per_sample(kan_point(**WIDE)) / 1e10
    truth = (products + expansion) / (products + 4 * expansion)
    assert efficiency["split by output (column)"] == pytest.approx(truth)
    assert truth < efficiency["split in pairs (column, row)"] < 1
    weak = compare(kan_point(**WIDE, scaling="weak"), ideal, [4])
    assert row(weak, "split by input (row)", 4)["parallel_efficiency"] == pytest.approx(1)
    without_elementwise = compare(kan_point(**WIDE), replace(ideal, activation_bytes_per_s=np.inf), [4])
    assert without_elementwise["parallel_efficiency"].to_numpy() == pytest.approx(1)


def test_messages_take_the_time_of_the_network() -> None:
    """Split by input on two ranks of one node: five messages, none of them hidden."""
    machine = MachineModel(flops_per_s=1e11, network=one_node(latency_s=1e-3, bytes_per_s=1e8))
    found = row(compare(kan_point(), machine, [2]), "split by input (row)", 2)
    allreduced, gathered = 192 * (7 + 6 + 4), 192 * (6 + 8)
    assert found["communication_s"] == pytest.approx(3 * 2e-3 + allreduced / 1e8 + 2 * 1e-3 + gathered / 2 / 1e8)
    assert found["exposed_s"] == found["communication_s"]
    assert (found["allreduce_bytes"], found["allgather_bytes"]) == (allreduced, gathered)
    assert found["sent_bytes"] == allreduced + gathered / 2
    assert found["step_time_s"] == found["compute_s"] + found["exposed_s"]


def test_a_sharded_optimizer_steps_and_keeps_its_share() -> None:
    machine = MachineModel(optimizer_s=1e-4, optimizer_s_per_parameter=1e-8)
    point = kan_point(layer_widths=(8, 8, 8), global_batch_size=4096, n_samples=4096)  # most is held in backward
    frame = compare(point, machine, [4])
    data = row(frame, "data parallel", 4)
    weights = 9 * 64  # of each of the two layers
    for name, others in (("ZeRO-1, slices", 3 / 4 * 2 * weights), ("ZeRO-1, whole tensors", weights)):
        found = row(frame, name, 4)
        assert data["memory_bytes"] - found["memory_bytes"] == pytest.approx(2 * 8 * others)
        assert data["compute_s"] - found["compute_s"] == pytest.approx(1e-8 * others)
    plain = compare(replace(point, optimizer="sgd"), machine, [4])  # which has no state to share
    assert plain[plain["tensor_ranks"] == 1]["memory_bytes"].nunique() == 1


def test_ranks_go_by_the_step_among_those_that_fit() -> None:
    limit = compare(kan_point(**WIDE), MACHINE, [4, 8])["memory_bytes"].median()
    frame = compare(kan_point(**WIDE), replace(MACHINE, memory_bytes=limit), [4, 8])
    for _, rows in frame.groupby("world_size"):
        fitting = rows[rows["fits"]].sort_values("rank")
        assert fitting["step_time_s"].is_monotonic_increasing
        assert fitting["rank"].iloc[0] == 1
        assert rows[~rows["fits"]]["rank"].isna().all()
        assert (rows[~rows["fits"]]["memory_bytes"] > limit).all()
        assert rows[~rows["fits"]]["reason"].str.startswith("memory: ").all()
    assert 0 < frame["fits"].sum() < len(frame)
    assert (frame["source"] == "predicted").all()
    assert (frame["machine"] == "invented").all()


def test_where_each_stops_fitting() -> None:
    """Four outputs cannot be shared by more than four ranks, five inputs not by more than five, 24 rows not by 16."""
    found = limits(compare(kan_point(), MACHINE, [1, 2, 4, 8, 16, 32])).set_index("strategy")
    fits = found[["fits_from", "fits_up_to"]]
    assert fits.loc["split by output (column)"].tolist() == [2, 4]
    assert found.loc["split by output (column)", "reason"] == "at 8, fewer outputs than ranks: layer 3 has 4 for 8"
    assert found.loc["split by input (row)", "reason"] == "at 8, fewer inputs than ranks: layer 1 has 5 for 8"
    assert fits.loc["data parallel"].tolist() == [1, 8]
    assert found.loc["data parallel", "reason"] == "at 16, 24 rows cannot be shared evenly by 16 replicas"
    assert fits.loc["data x split by input (row)"].tolist() == [4, 32]  # as 8 replicas of 4 ranks
    assert found.loc["data x split by input (row)", "reason"] == ""
    assert (found["source"] == "predicted").all()


def test_more_ranks_may_fit_what_fewer_do_not() -> None:
    """Data parallel on one rank has all rows; nothing fits at all in a byte."""
    needed = compare(kan_point(**WIDE), MACHINE, [1])["memory_bytes"].iloc[0]
    frame = compare(kan_point(**WIDE), replace(MACHINE, memory_bytes=0.99 * needed), [1, 2, 4])
    data = limits(frame).set_index("strategy").loc["data parallel"]
    assert (data["fits_from"], data["fits_up_to"]) == (2, 4)
    assert data["reason"].startswith("at 1, memory: ")
    nothing = limits(compare(kan_point(**WIDE), replace(MACHINE, memory_bytes=1.0), [1, 2]))
    assert nothing[["fits_from", "fits_up_to"]].isna().all(axis=None)
    assert (nothing["reason"] != "").all()


def test_the_fastest_hybrid_speaks_for_all_of_its_kind() -> None:
    frame = compare(kan_point(**WIDE), MACHINE, [8])
    best = fastest(frame)
    assert not best.duplicated(["strategy", "world_size"]).any()
    for name, rows in frame.groupby("strategy"):
        assert row(best, name, 8)["step_time_s"] == rows["step_time_s"].min()


@pytest.mark.parametrize(
    ("changes", "sizes", "message"),
    [
        ({"model": "mlp", "grid_size": None, "spline_order": None, "operator": None}, [2], "model = 'mlp'"),
        ({}, [], "world_sizes is empty"),
        ({}, [2, 0], "world_sizes = 0"),
        ({}, [2.5], "world_sizes = 2.5"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict, sizes: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(kan_point(**changes), MACHINE, sizes)
