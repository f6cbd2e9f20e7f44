from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fabricate import make_point
from scipy import integrate, stats
from simulated import chain_times, one_node, simulate, truth

from kanstudy.analysis import estimates, guidelines, plots, results
from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.attribution.verdict import verdicts
from kanstudy.analysis.captions import caption
from kanstudy.analysis.machine_model.model import MachineModel, spread_ranks
from kanstudy.analysis.machine_model.noise import Noise, autocorrelated
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.analysis.statistics.intervals import seed_of
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.save import save_table
from kanstudy.record_files import read_record, write_record
from kanstudy.wanted import Wanted

WEAK = {"experiment": "weak_scaling", "scaling": "weak"}
PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}
NOISY = Noise(
    step_sd=0.05, slow_step_sd=0.03, straggler_share=0.01, straggler_factor=3.0, cold_steps=8, cold_factor=1.5,
    block_sd=0.02, block_correlation=0.2, drift_per_round=0.003, level_shift=0.05, launch_sd=0.02, burst_share=0.1,
)  # fmt: skip
MACHINE = MachineModel(
    name="two sockets", launch_s=1e-3, optimizer_s_per_parameter=1e-8, cache_rows=600, spill_factor=1.3,
    rank_slowness=(1.0, 1.05), contention=0.1, ddp_s=2e-4, network=one_node(5e-5, 1e9), noise=NOISY,
)  # fmt: skip


def points(sizes: tuple[int, ...] = (1, 2, 4), **changes):
    return [make_point(**{"world_size": p, "block_s": 0.05, **changes}) for p in sizes]


def test_records_go_through_the_schema_unchanged(tmp_path: Path) -> None:
    records = simulate(points(), MACHINE, rounds=5, launches=2, seed=3)
    for record in records:
        back = read_record(write_record(record, tmp_path))
        assert (back.source, back.status, back.profile) == ("simulated", "ok", "simulated")
        assert Wanted(5, 2).is_complete(back)
        for name, arm in back.arms.items():
            assert [(item.launch, item.index) for item in arm.rounds] == [(i, j) for i in range(2) for j in range(5)]
            active = [item.active_ranks for item in arm.rounds[: record.world_size]]
            everyone = list(range(record.world_size))
            assert active == ([[rank] for rank in everyone] if name == "serial_global" else [everyone] * len(everyone))
        orders = [[arm.rounds[3].order for arm in back.arms.values()], sorted(range(len(back.arms)))]
        assert sorted(orders[0]) == orders[1]
    assert attribution(results.load(tmp_path).records)["value"].notna().all()
    assert set(results.points(records)["source"]) == {"simulated"}
    assert "Source: simulated; profile: simulated; hardware: two sockets" in caption(records)


def test_a_seed_decides_everything_and_points_are_drawn_independently() -> None:
    first, again, other = (simulate(points((2,)), MACHINE, rounds=3, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first.arms["ddp"].rounds[0].rank_step_times_s != other.arms["ddp"].rounds[0].rank_step_times_s
    alone = simulate(points((4,)), MACHINE, rounds=3, seed=1)[0]
    assert alone == simulate(points((1, 2, 4)), MACHINE, rounds=3, seed=1)[-1]


@pytest.mark.parametrize("rounds", [3, 7, 13])
def test_all_tables_figures_and_guidelines_take_simulated_records(rounds: int, tmp_path: Path) -> None:
    strong = simulate(points(), MACHINE, rounds)
    weak = simulate(points(**WEAK), MACHINE, rounds)
    comm = simulate(
        [
            *points((2, 4), **PAIR, allreduce_bytes=(1024, 2**22)),
            *points((2, 4), **PAIR, bucket_cap_mb=0.1),
            *points((2, 4), **PAIR, sync_buffers=True),
        ],
        MACHINE,
        rounds,
    )
    arms = ("serial_global", "ddp_noop", "ddp")
    widths = {"experiment": "model_size_scaling", "arms": arms}
    models = simulate([make_point(**widths, layer_widths=(8, w, 1), block_s=0.05) for w in (8, 64)], MACHINE, rounds)
    control = simulate(points((1, 2), model="mlp", layer_widths=(32, 180, 180, 1)), MACHINE, rounds)
    every = estimates.per_round([*strong, *weak, *comm, *models, *control])
    chain = attribution(strong)
    frames = [
        (estimates.strong([*strong, *control]), layouts.STRONG),
        (estimates.weak(weak), layouts.WEAK),
        (estimates.overhead(comm), layouts.OVERHEAD),
        (estimates.allreduce(comm), layouts.ALLREDUCE),
        (estimates.model_size(models), layouts.MODEL_SIZE),
        (estimates.phases([*strong, *comm]), layouts.PHASES),
        (chain, layouts.ATTRIBUTION),
    ]
    for number, (frame, columns) in enumerate(frames):
        assert len(frame)
        assert set(frame["source"]) == {"simulated"}
        save_table(frame, columns, tmp_path, f"t{number}", "caption")
    plots.scaling.strong_scaling(frames[0][0], every)
    plots.scaling.weak_scaling(frames[1][0], every)
    plots.communication.overhead(frames[2][0], every)
    plots.communication.allreduce(frames[3][0])
    plots.model_size.model_size(frames[4][0])
    written = guidelines.guidelines(frames[0][0], frames[1][0], frames[2][0], frames[4][0], chain, verdicts(strong))
    assert written["sentence"].str.contains(r"\(simulated: ").all()


@pytest.mark.parametrize("changes", [{}, WEAK])
@pytest.mark.parametrize("noise", [Noise(), NOISY])
def test_the_columns_drawn_at_once_are_those_of_the_records(changes: dict, noise: Noise) -> None:
    (point,) = points((4,), **changes)
    machine = replace(MACHINE, noise=noise)
    (record,) = simulate([point], machine, rounds=6, launches=2, seed=9)
    columns = chain_times(point, machine, 2, 6, np.random.default_rng([9, seed_of(point.point_id)]))
    frame = blocks(record).times_s
    assert list(columns) == list(frame)
    for name, times in columns.items():
        np.testing.assert_allclose(times.ravel(), frame[name], rtol=1e-12)


def test_the_truth_of_jitter_is_the_expected_maximum() -> None:
    (point,) = points((4,), block_s=8.0)
    sd, law = 0.05, stats.lognorm(0.05, scale=np.exp(-(0.05**2) / 2))
    expected = integrate.quad(lambda x: 4 * x * law.pdf(x) * law.cdf(x) ** 3, 0.5, 2, epsabs=1e-10)[0]
    found = truth(point, MachineModel(noise=Noise(step_sd=sd)), 300)
    assert found.factors["synchronisation"] == pytest.approx(1 / expected, rel=2e-3)
    assert found.efficiency == pytest.approx(1 / expected, rel=1e-3)
    correlated = truth(point, MachineModel(noise=Noise(slow_step_sd=sd, slow_step_correlation=0.5)), 300)
    assert correlated.efficiency == pytest.approx(1 / expected, rel=2e-3), "waiting asks for the spread alone"


def test_short_blocks_book_jitter_as_heterogeneity_and_the_truth_says_how_much() -> None:
    """The slowest of 8 means over k steps is 1.42 sd/√k slower than they are on average."""
    (point,) = points((8,), block_s=0.1)
    found = truth(point, MachineModel(noise=Noise(step_sd=0.05)), 4000)
    steps = round(0.1 / found.times_s["serial_local"])
    assert 1 - found.factors["heterogeneity"] == pytest.approx(1.4236 * 0.05 / np.sqrt(steps), rel=0.1)


def test_the_truth_is_the_same_every_time_and_does_not_ask_for_the_bursts() -> None:
    (point,) = points((2,))
    calm = replace(MACHINE, noise=replace(NOISY, burst_share=0.0, drift_per_round=0.0, level_shift=0.0, cold_steps=0))
    assert truth(point, MACHINE, 500) == truth(point, calm, 500) == truth(point, calm, 500)


def test_without_the_serial_arms_there_is_no_efficiency_and_no_factor() -> None:
    (point,) = points((2,), **PAIR)
    found = truth(point, MACHINE, 200)
    assert found.factors == {}
    assert np.isnan(found.efficiency)
    assert 0 < found.overhead < 1
    assert found.exposed_s > 0


def test_what_does_not_fit_is_a_record_too(tmp_path: Path) -> None:
    (point,) = points((4,), operator="fused")
    need = {arm: MACHINE.peak_memory_bytes(point, arm) for arm in point.arms}
    assert need["serial_global"] > need["ddp"] > need["serial_local"]
    small = replace(MACHINE, memory_bytes=need["serial_global"] - 1)
    record = read_record(write_record(simulate([point], small, rounds=3)[0], tmp_path))
    assert (record.status, record.error.arm, record.arms["serial_global"].status) == ("oom", "serial_global", "oom")
    assert f"{need['serial_global']} of {need['serial_global'] - 1} bytes" in record.error.reason
    assert attribution([record])["reason"].iloc[0].startswith("oom: out of memory")
    assert simulate([point], replace(small, memory_bytes=need["serial_global"]), rounds=3)[0].status == "ok"


def test_one_rank_moves_nothing_and_all_reduce_follows_the_ring() -> None:
    machine = MachineModel(network=one_node(1e-4, 1e9))
    assert machine.network.allreduce_s(1e6, (1,)) == 0
    assert machine.network.allreduce_s(1e6, (4,)) == pytest.approx(6e-4 + 1.5e-3)
    assert float(machine.exposed_s(make_point(world_size=1, sync_buffers=True), np.array(0.1))) == 0
    assert machine.network.broadcast_s(1e6, (8,)) == pytest.approx(3 * (1e-4 + 1e-3))


def test_bursts_are_seen_by_the_rule_of_disturbed_rounds() -> None:
    machine = replace(MACHINE, noise=Noise(block_sd=0.01, burst_share=0.2, burst_foreign_cpu=0.5))
    (record,) = simulate(points((2,), block_s=1.0), machine, rounds=60)
    hit = {
        item.index
        for arm in record.arms.values()
        for item in arm.rounds
        if max(item.foreign_cpu_share) > 0  # type: ignore[type-var]
    }
    found = blocks(record)
    assert set(np.flatnonzero(found.disturbed)) == hit
    assert 5 <= len(hit) <= 20


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_autocorrelated_noise_has_the_correlation_asked_for(correlation: float) -> None:
    series = autocorrelated((2000, 50), correlation, np.random.default_rng(0))
    assert series.std() == pytest.approx(1, abs=0.03)
    assert series[:, 0].std() == pytest.approx(1, abs=0.06), "stationary from the start"
    assert np.mean(series[:, 1:] * series[:, :-1]) == pytest.approx(correlation, abs=0.03)


def test_devices_of_one_make_spread_around_one() -> None:
    spread = spread_ranks(1000, 0.05, 1)
    assert spread == spread_ranks(1000, 0.05, 1)
    assert np.std(np.log(spread)) == pytest.approx(0.05, rel=0.1)
    assert MachineModel(rank_slowness=(1.0, 2.0)).slowness(3).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("cls", "field", "value", "allowed"),
    [
        (MachineModel, "flops_per_s", 0, "a number > 0"),
        (MachineModel, "flops_per_s", float("inf"), "a number > 0"),
        (MachineModel, "contention", -0.1, "a number >= 0"),
        (MachineModel, "ddp_s", float("nan"), "a number >= 0"),
        (MachineModel, "cache_rows", 0, "a number > 0"),
        (MachineModel, "rank_slowness", (), "at least one number > 0"),
        (MachineModel, "rank_slowness", (1.0, 0.0), "at least one number > 0"),
        (MachineModel, "noise", None, "a Noise"),
        (Noise, "step_sd", -1, "a number >= 0"),
        (Noise, "step_sd", "0.1", "a number >= 0"),
        (Noise, "block_correlation", 1.0, "a number from 0 to below 1"),
        (Noise, "straggler_share", True, "a number from 0 to below 1"),
        (Noise, "straggler_factor", 0, "a number > 0"),
        (Noise, "cold_steps", 1.5, "a whole number >= 0"),
        (Noise, "drift_per_round", float("inf"), "a number"),
    ],
)
def test_bad_values_are_refused_by_name(cls: type, field: str, value: object, allowed: str) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        cls(**{field: value})
    assert str(caught.value) == f"{field} = {value!r}: must be {allowed}"
