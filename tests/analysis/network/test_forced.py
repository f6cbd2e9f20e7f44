"""Whether a share that is not monotonic goes away when NCCL is held to one choice, on simulated records."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fabricate import make_point, make_record
from simulated import simulate

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.forced import FREE, MONOTONIC, NOT_MONOTONIC, UNDECIDED, answers, choice_of, monotonicity
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record

NETWORK = Network(
    inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
    between=Link(latency_s=14e-6, bytes_per_s=12e9),
    algorithm="nccl",
)
MACHINE = MachineModel(
    network=NETWORK,
    ranks_per_node=2,
    nodes=4,
    launch_s=1e-4,
    flops_per_s=1e13,
    noise=Noise(block_sd=0.002),
)
# gradients of 33 KiB: with one rank a node a ring's hops are exposed, with two they are not, so that NCCL's own choice
# takes longer on 4 ranks than on 8; a tree does not
POINTS = [
    make_point(
        experiment="weak_scaling",
        scaling="weak",
        world_size=p,
        global_batch_size=64 * p,
        layer_widths=(16, 32, 12, 1),
        placement="spread",
        block_s=0.002,
        warmup_s=0.0,
    )
    for p in (2, 4, 8)
]


def measured(algorithm: str = "", protocol: str = "", noise: Noise | None = None, rounds: int = 24) -> list[Record]:
    """Records of a simulated cluster with these variables set."""
    held = {"nccl_algorithms": (algorithm,)} if algorithm else {}
    held |= {"nccl_protocols": (protocol,)} if protocol else {}
    network = dataclasses.replace(NETWORK, **held)
    machine = dataclasses.replace(MACHINE, network=network, noise=noise or MACHINE.noise)
    records = simulate(POINTS, machine, rounds=rounds, seed=len(algorithm))
    for record in records:
        record.provenance["settings"] = {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol, "OMP_NUM_THREADS": "1"}
    return records


def test_a_fall_goes_away_with_trees_and_stays_with_rings():
    records = measured() + measured("Tree", "LL") + measured("Ring", "LL")
    table = monotonicity(records).set_index("choice")
    assert list(table["verdict"]) == [NOT_MONOTONIC, MONOTONIC, NOT_MONOTONIC]
    own = table.loc[FREE]
    assert (own["world_sizes"], own["between"], own["source"]) == ("2 4 8", "4 and 8 ranks", "simulated")
    overheads = {record.world_size: _overhead(record) for record in records[:3]}
    assert own["largest_fall"] == pytest.approx(overheads[4] - overheads[8])
    assert own["largest_fall_low"] < own["largest_fall"] < own["largest_fall_high"]
    assert own["overheads"].split() == [f"{100 * overheads[p]:.2f}" for p in (2, 4, 8)]
    assert table.loc["Tree LL", "largest_fall"] < 0
    told = answers(monotonicity(records))
    assert len(told) == 2
    assert "held to Tree LL: what is not monotonic goes away" in told[0]
    assert "held to Ring LL: what is not monotonic stays" in told[1]


def _overhead(record: Record) -> float:
    return 1 - PairedArms(record).ratio("ddp_noop", "ddp").value


def test_what_the_noise_hides_is_undecided():
    noisy = Noise(block_sd=0.05)
    table = monotonicity(measured(noise=noisy) + measured("Tree", "LL", noise=noisy))
    assert set(table["verdict"]) == {UNDECIDED}
    assert "the overhead was undecided as NCCL chooses" in answers(table)[0]
    few = monotonicity(measured(rounds=4))
    assert few.iloc[0]["verdict"] == UNDECIDED
    assert few.iloc[0]["reason"] == "too few rounds for an interval at 2, 4, 8 ranks"
    assert np.isnan(few.iloc[0]["largest_fall_low"])


def test_choices_measured_on_other_nodes_are_compared_and_it_is_said():
    records = [*measured(), *(held := measured("Tree", "LL"))]
    for record in held:
        record.provenance["node_set"] = ["c", "d"]
    assert "held to Tree LL on other nodes: what is not monotonic goes away" in answers(monotonicity(records))[0]
    held[-1].provenance["node_set"] = ["e", "f"]  # no curve joins two sets of nodes
    table = monotonicity(records).set_index("choice")
    assert list(table.loc[["Tree LL"], "world_sizes"]) == ["2 4"]


@pytest.mark.slow
def test_a_curve_that_rises_is_seldom_called_otherwise():
    """All overheads alike is the worst case: a fall is then seen by chance alone."""
    flat = Network()
    wrong = 0
    for seed in range(100):
        machine = dataclasses.replace(MACHINE, network=flat, noise=Noise(block_sd=0.01))
        wrong += monotonicity(simulate(POINTS, machine, rounds=16, seed=seed))["verdict"].eq(NOT_MONOTONIC).sum()
    assert wrong <= 8


def test_the_choice_is_that_of_the_variables():
    record = make_record(rounds=1)
    assert choice_of(record) == FREE
    record.provenance["settings"] = {"NCCL_PROTO": "LL"}
    assert choice_of(record) == "LL"
    record.provenance["settings"] |= {"NCCL_ALGO": "allreduce:Tree"}
    assert choice_of(record) == "Tree LL"


def test_nothing_to_compare_is_said():
    assert monotonicity([make_record(world_size=1), make_record(world_size=2)]).empty
    assert answers(monotonicity([])) == []
    assert answers(monotonicity(measured("Tree", "LL")))[0].endswith("so nothing can go away.")
    with pytest.raises(ValueError, match="is there twice with NCCL's own: must be one folder a choice"):
        monotonicity(measured() + measured())
