"""Predictions are the machine's own times where nothing is random, and cover what happens where something is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from calibrated import MACHINE, NETWORK, exact, noisy, records, strong_point
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import simulate

from kanstudy.analysis.attribution.chain import FACTORS
from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.calibration.calibration import Calibration, calibrate
from kanstudy.analysis.calibration.domain import NotCovered
from kanstudy.analysis.calibration.readings import read
from kanstudy.analysis.calibration.scatter import Scatter
from kanstudy.analysis.calibration.spread import TooFewSteps
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import spread_ranks
from kanstudy.analysis.machine_model.work import buffer_bytes
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.prediction.predict import NEW_LAUNCH, ONE_LAUNCH, SCENARIO, predict, tells_nothing
from kanstudy.analysis.prediction.site import PredictionError, Site
from kanstudy.analysis.prediction.widening import Widening

KNOWN = replace(NETWORK, basis="measured")
NODES = Site(ranks_per_node=2, network=KNOWN)


@pytest.mark.parametrize("p", [1, 2, 8, 64])
@pytest.mark.parametrize("scaling", ["strong", "weak"])
def test_without_noise_it_is_the_machines_own_chain(p: int, scaling: str) -> None:
    batch = 2048 if scaling == "strong" else 512 * p
    point = strong_point(p, scaling=scaling, global_batch_size=batch, n_samples=10**6)
    found = predict(exact(), [point], NODES).iloc[0]
    true = expected(point, MACHINE)
    assert found["step_time_s"] == pytest.approx(true.step_time_s, rel=3e-3)
    assert found["parallel_efficiency"] == pytest.approx(true.efficiency, rel=3e-3)
    for name, value in true.factors.items():
        assert found[name] == pytest.approx(value, rel=5e-3)
    assert found["throughput"] == pytest.approx(point.global_batch_size / found["step_time_s"])
    assert found["overhead"] == pytest.approx(true.overhead, abs=3e-3)
    assert found["source"] == "predicted"


@pytest.mark.parametrize("p", [2, 16])
def test_factors_multiply_to_the_efficiency_and_lie_in_their_bands(p: int) -> None:
    calibration = calibrate(records(noisy(0), seed=3))
    row = predict(calibration, [strong_point(p)], NODES).iloc[0]
    assert np.prod([row[name] for name in FACTORS]) == pytest.approx(row["parallel_efficiency"], rel=1e-12)
    for name in ("step_time_s", "parallel_efficiency", "exposed_s", *FACTORS):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert row["speedup"] == pytest.approx(p * row["parallel_efficiency"])
    assert row["interval"] == (ONE_LAUNCH if p == 2 else SCENARIO)


def test_held_out_settings_widen_the_bands() -> None:
    calibration = calibrate(records(noisy(0), seed=3))
    held_out = Widening({"step_time_s": 2.0}, level=0.9, settings=12)
    narrow, wide = (predict(calibration, [strong_point(2)], NODES, w).iloc[0] for w in (None, held_out))
    for name, factor in (("step_time_s", 2), ("throughput", 2), ("parallel_efficiency", 1)):
        assert narrow[name] == wide[name]
        reach = [np.log(row[f"{name}_high"] / row[name]) for row in (narrow, wide)]
        assert reach[1] == pytest.approx(factor * reach[0])
    assert (narrow["interval"], narrow["level"]) == (ONE_LAUNCH, 0.95)
    assert (wide["interval"], wide["level"]) == (NEW_LAUNCH, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(("launches", "rank_sd", "node_ranks"), [(1, 0.0, 2), (3, 0.02, 4)])
def test_bands_cover_new_launches_at_the_promised_rate(launches: int, rank_sd: float, node_ranks: int) -> None:
    """Of a machine calibrated on one node, launches at one, four and 32 nodes."""
    covered: dict[int, list[bool]] = {2: [], 8: [], 64: []}
    trials = 30
    for seed in range(trials):
        machine = replace(noisy(seed), rank_slowness=spread_ranks(64, rank_sd, seed), ranks_per_node=node_ranks)
        calibration = calibrate(records(machine, node_ranks, seed=seed, launches=launches))
        for p, hits in covered.items():
            row = predict(calibration, [strong_point(p)], Site(ranks_per_node=node_ranks, network=KNOWN)).iloc[0]
            new = simulate([strong_point(p)], machine, rounds=6, seed=1000 + seed)[0]
            found = {"step_time_s": read(new).time_s("ddp"), "parallel_efficiency": efficiency(new).value.value}
            hits += [row[f"{name}_low"] <= value <= row[f"{name}_high"] for name, value in found.items()]
    for p, hits in covered.items():
        # both quantities of a launch go together: as 30 trials, of which 25 or fewer has a probability of 0.3 %
        assert sum(hits) >= 2 * 26, (p, sum(hits))


def test_what_the_calibration_does_not_carry_is_refused() -> None:
    with pytest.raises(NotCovered, match="local_batch_size = 2"):
        predict(exact(), [strong_point(1024)], NODES)
    weak = strong_point(8192, scaling="weak", global_batch_size=8192 * 32, n_samples=10**6)
    with pytest.raises(TooFewSteps, match="world size 8192"):
        predict(exact(), [weak], NODES)
    with pytest.raises(PredictionError, match="no network between nodes is calibrated"):
        predict(exact(), [strong_point(8)])
    with pytest.raises(PredictionError, match="4 ranks on a node: 2 at once are calibrated"):
        predict(exact(), [strong_point(8)], Site(ranks_per_node=4, network=NETWORK))


def test_from_one_rank_alone_more_are_scenarios_without_contention() -> None:
    machine = replace(MACHINE, ranks_per_node=1)
    calibration = calibrate(records(machine, node_ranks=1))
    row = predict(calibration, [strong_point(8)], NODES).iloc[0]
    without = replace(MACHINE, contention=0.0, bucket_s=0.0, bucket_s_per_byte=0.0, overlap_slowdown=0.0)
    assert row["step_time_s"] == pytest.approx(expected(strong_point(8), without).step_time_s, rel=3e-3)
    assert row["interval"] == SCENARIO


@cache
def alone() -> Calibration:
    """Of one rank alone whose step has no costs but launches and work."""
    machine = replace(MACHINE, ranks_per_node=1, contention=0.0, ddp_s=0.0, ddp_s_per_byte=0.0)
    return calibrate(records(machine, node_ranks=1))


def free(**changes: float) -> Site:
    """One rank a node, over links that cost nothing but what is given."""
    return Site(ranks_per_node=1, network=Network(algorithm="ring", between=Link(**changes), basis="measured"))


@pytest.mark.parametrize("p", [2, 8, 64])
def test_without_costs_between_ranks_only_the_batch_loses(p: int) -> None:
    """E = T(B)/(p·T(B/p)): of launches, which every rank has whole."""
    point = strong_point(p)
    row = predict(alone(), [point], free()).iloc[0]
    time_s = [sum(MACHINE.phases_s(point, rows)) for rows in (point.global_batch_size, point.local_batch_size)]
    assert row["parallel_efficiency"] == pytest.approx(time_s[0] / (p * time_s[1]), rel=2e-3)
    for name in FACTORS:
        assert row[name] == pytest.approx(row["parallel_efficiency"] if name == "batch" else 1.0, rel=2e-3)
    assert row["exposed_s"] == pytest.approx(0.0, abs=1e-12)


@given(p=st.sampled_from([2, 4, 8, 16, 64]), latency_s=st.floats(1e-6, 1e-3), bytes_per_s=st.floats(1e8, 1e11))
@settings(max_examples=10, deadline=None)
def test_one_bucket_is_exposed_as_long_as_its_ring_takes(p: int, latency_s: float, bytes_per_s: float) -> None:
    """2(p-1)·α + 2(p-1)/p · S/B: in proportion to the gradients' bytes, twice as long over half the bandwidth."""
    point = strong_point(p)
    (size,) = gradient_buckets(point)
    row = predict(alone(), [point], free(latency_s=latency_s, bytes_per_s=bytes_per_s)).iloc[0]
    assert row["exposed_s"] == pytest.approx(2 * (p - 1) * (latency_s + size / p / bytes_per_s), rel=1e-6)


@pytest.mark.parametrize("slowdown", [0.0, 2.0])
def test_buckets_leave_in_their_order_within_a_backward_that_neighbours_and_messages_lengthen(slowdown: float) -> None:
    """A large bucket leaves early and travels behind what is left of backward, a small one last."""
    link = Link(latency_s=2e-5, bytes_per_s=1e8)
    network = Network(inside=link, between=link, algorithm="gloo", basis="measured")
    point = strong_point(8, layer_widths=(32, 16, 128, 1), bucket_cap_mb=0.02)
    first, second = gradient_buckets(point)
    assert first > 4 * second
    constants = replace(exact().constants, contention=0.6, overlap_slowdown=slowdown)
    machine = replace(
        MACHINE,
        **{
            name: getattr(constants, name)
            for name in ("contention", "overlap_slowdown", "bucket_s", "bucket_s_per_byte")
        },
        network=network,
    )
    row = predict(replace(exact(), constants=constants), [point], Site(ranks_per_node=2, network=network)).iloc[0]
    backward_s = machine.arm_phases_s(point, "ddp")[1]
    assert row["exposed_s"] == pytest.approx(float(machine.exposed_s(point, np.array([backward_s]))[0]), rel=0.01)


def test_buffers_are_broadcast_before_the_step() -> None:
    point = strong_point(8)
    site = free(latency_s=1e-4, bytes_per_s=1e8)
    plain, synced = (predict(alone(), [replace(point, sync_buffers=on)], site) for on in (False, True))
    more_s = synced["exposed_s"].iloc[0] - plain["exposed_s"].iloc[0]
    assert more_s == pytest.approx(site.network.broadcast_s(buffer_bytes(point), (1,) * 8), rel=1e-6)
    assert more_s > 3e-4


def test_a_launch_moves_times_and_no_ratio_within_it() -> None:
    calm, moved = (
        predict(replace(exact(), launch=launch), [strong_point(2)]).iloc[0]
        for launch in (exact().launch, Scatter(sd=0.1, freedom=10**6))
    )

    def width(row: pd.Series, name: str) -> float:
        return float(np.log(row[f"{name}_high"] / row[f"{name}_low"]))

    assert width(moved, "step_time_s") == pytest.approx(2 * 1.96 * 0.1, rel=0.2)
    assert width(moved, "parallel_efficiency") == pytest.approx(width(calm, "parallel_efficiency"), rel=0.5, abs=5e-3)


def test_the_overhead_has_the_waiting_in_it_that_exposed_time_has_not() -> None:
    row = predict(calibrate(records(noisy(0), seed=3)), [strong_point(8)], NODES).iloc[0]
    assert row["overhead"] > 1.001 * row["exposed_s"] / row["step_time_s"]


def test_memory_is_told_and_compared() -> None:
    point = strong_point(2)
    need = MACHINE.peak_memory_bytes(point, "ddp")
    for memory, fits in ((2.0 * need, True), (0.5 * need, False)):
        row = predict(exact(), [point], Site(ranks_per_node=2, network=NETWORK, memory_bytes=memory)).iloc[0]
        assert row["memory_bytes"] == pytest.approx(need, rel=1e-6)
        assert bool(row["fits"]) is fits
    assert predict(exact(), [point]).iloc[0]["fits"] is None


@pytest.mark.filterwarnings("error")
def test_a_band_that_reaches_anywhere_is_said_to_predict_nothing() -> None:
    hopeless = replace(exact(), launch=Scatter(sd=500.0, freedom=3))
    sizes = [strong_point(p) for p in (2, 8)]
    assert "on 2, 8 rank(s) a band spans more than 10 times" in tells_nothing(predict(hopeless, sizes, NODES))
    assert tells_nothing(predict(exact(), sizes, NODES)) == ""
