"""The analysis is held to machines whose truth is known, and the tests to analyses that are known to be wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fabricate import make_point
from scipy import integrate, stats
from simulated import one_node, simulate, truth

from kanstudy.analysis import estimates, metrics
from kanstudy.analysis.attribution.chain import FACTORS
from kanstudy.analysis.attribution.decomposition import attribution, efficiency
from kanstudy.analysis.attribution.identity import identity_check
from kanstudy.analysis.attribution.verdict import verdicts
from kanstudy.analysis.guidelines import guidelines
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.statistics.intervals import Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record
from kanstudy.spec import PointSpec

WEAK = {"experiment": "weak_scaling", "scaling": "weak"}
PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}
QUIET = Noise(block_sd=5e-4)
TIGHT = 0.005
JITTER = 0.05
CAUSES: dict[str, dict] = {
    "batch": {"launch_s": 2e-3, "optimizer_s_per_parameter": 2e-8},
    "heterogeneity": {"rank_slowness": (1.0, 1.15)},
    "contention": {"contention": 0.1},
    "ddp": {"ddp_s": 1e-3},
    "synchronisation": {"noise": replace(QUIET, step_sd=JITTER)},
    "data_movement": {"network": one_node(1e-4, 5e8)},
}
EVERYTHING = {name: value for cause in CAUSES.values() for name, value in cause.items()}
SUPERLINEAR = EVERYTHING | {"cache_rows": 400, "spill_factor": 1.5}


def point(p: int, scaling: str = "strong", block_s: float = 0.15, **changes) -> PointSpec:
    """Strong scaling of 2048 rows, or the same local batch as that has."""
    kind = WEAK if scaling == "weak" else {}
    return make_point(**{**kind, "world_size": p, "global_batch_size": 2048, "block_s": block_s, **changes})


def record_of(spec: PointSpec, machine: MachineModel, rounds: int = 20, seed: int = 5) -> Record:
    return simulate([spec], machine, rounds, seed=seed)[0]


def recovered(found: Estimate, true: float) -> bool:
    """The criterion: the truth lies in the interval, made twice as wide, since a test asks for hundreds of them."""
    half = 2 * max(found.high - found.value, found.value - found.low)
    return bool(abs(found.value - true) <= half + 1e-9 * abs(true))


def slowest_of(p: int, sd: float) -> float:
    """E[max of p log-normal numbers of mean 1]."""
    scale = np.exp(-(sd**2) / 2)
    law = stats.lognorm(sd, scale=scale)
    return integrate.quad(lambda x: p * x * law.pdf(x) * law.cdf(x) ** (p - 1), 0.5, 2, epsabs=1e-10)[0]


def put_in(cause: str, spec: PointSpec, machine: MachineModel) -> float:
    """The factor of a cause that is alone, in closed form, from the machine's constants."""
    p, step = spec.world_size, sum(machine.phases_s(spec, spec.local_batch_size))
    if cause == "batch":
        return sum(machine.phases_s(spec, spec.global_batch_size)) / p / step
    if cause == "heterogeneity":
        return (1 + 1.15) / 2 / 1.15
    if cause == "contention":
        return 1 / (1 + 0.1 * (p - 1))
    if cause == "ddp":
        return step / (step + 1e-3)
    if cause == "synchronisation":
        return 1 / slowest_of(p, JITTER)
    (bucket,) = gradient_buckets(spec)  # one bucket leaves with the end of backward: nothing is hidden
    return step / (step + 2 * (p - 1) * 1e-4 + 2 * (p - 1) / p * bucket / 5e8)


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_that_is_alone_lands_in_its_own_factor_and_in_no_other(cause: str, p: int) -> None:
    machine = MachineModel(**({"noise": QUIET} | CAUSES[cause]))
    # the slowest of p means over few steps is slower than the ranks are: jitter needs long blocks
    spec = point(p, block_s=4.0 if cause == "synchronisation" else 0.15)
    found = efficiency(record_of(spec, machine, rounds=13))
    assert list(found.factors) == list(FACTORS)
    for name, factor in found.factors.items():
        expected = put_in(cause, spec, machine) if name == cause else 1.0
        assert factor.value == pytest.approx(expected, rel=TIGHT), name
    assert found.value.value == pytest.approx(put_in(cause, spec, machine), rel=TIGHT)
    assert put_in(cause, spec, machine) < 0.975, "a cause that costs nothing tests nothing"


@pytest.mark.parametrize("scaling", ["strong", "weak"])
@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("machine", [EVERYTHING, SUPERLINEAR], ids=["everything", "superlinear"])
def test_of_a_mixture_every_number_is_recovered(machine: dict, p: int, scaling: str) -> None:
    noise = Noise(step_sd=JITTER, slow_step_sd=0.02, block_sd=0.004, drift_per_round=0.004, level_shift=0.03)
    model = MachineModel(**(machine | {"noise": noise}))
    spec = point(p, scaling, block_s=0.8)
    true, record = truth(spec, model, 2000), record_of(spec, model, rounds=30)
    found = efficiency(record)
    assert list(found.factors) == list(true.factors) == list(FACTORS)[scaling == "weak" :]
    for name, factor in found.factors.items():
        assert recovered(factor, true.factors[name]), (name, factor, true.factors[name])
        assert factor.value == pytest.approx(true.factors[name], rel=0.01), name
    assert recovered(found.value, true.efficiency)
    overhead = estimates.overhead([record]).iloc[0]
    for name, value in (("overhead", true.overhead), ("exposed_ms", 1e3 * true.exposed_s)):
        low, high = overhead[f"{name}_low"], overhead[f"{name}_high"]
        # a time in seconds carries the rounds' drift, its truth does not: a ratio of times does not either
        reach = 2 * (high - low) if name == "overhead" else 2 * (high - low) + 0.15 * value
        assert abs(overhead[name] - value) <= reach, name


def test_without_noise_everything_is_exact() -> None:
    model = MachineModel(**(SUPERLINEAR | {"noise": Noise()}))
    for p, scaling in ((1, "strong"), (1, "weak"), (2, "strong"), (4, "weak"), (8, "strong")):
        spec = point(p, scaling)
        true, record = truth(spec, model), record_of(spec, model, rounds=16)
        found = efficiency(record)
        assert found.value.value == pytest.approx(true.efficiency, rel=1e-9)
        assert {name: factor.value for name, factor in found.factors.items()} == pytest.approx(true.factors, rel=1e-9)
        row = estimates.overhead([record]).iloc[0]
        assert row["overhead"] == pytest.approx(true.overhead, rel=1e-9)
        assert row["exposed_ms"] == pytest.approx(1e3 * true.exposed_s, rel=1e-9)
        assert np.prod(list(true.factors.values())) == pytest.approx(true.efficiency, rel=1e-12)


@pytest.mark.parametrize("rounds", [6, 7, 12, 13, 16])
def test_one_slow_device_of_four_is_no_loss_of_the_batch(rounds: int) -> None:
    """`serial_global` meets the slow device in some rounds only: in which of them must not matter."""
    model = MachineModel(rank_slowness=(1.0, 1.0, 1.3, 1.0), noise=Noise(block_sd=1e-3))
    found = efficiency(record_of(point(4), model, rounds))
    assert found.factors["batch"].value == pytest.approx(1, rel=TIGHT)
    assert found.value.value == pytest.approx(1.075 / 1.3, rel=TIGHT)
    arms = PairedArms(record_of(point(4), model, rounds))
    assert arms.time("serial_global").value == pytest.approx(1.075 * sum(model.phases_s(point(4), 2048)), rel=TIGHT)


def test_a_serial_fraction_is_found_at_every_world_size() -> None:
    """What no rank shares is Amdahl's serial part: T(p) = t0 + t1·B/p."""
    model = MachineModel(**CAUSES["batch"], noise=QUIET)
    fixed = sum(replace(model, flops_per_s=1e30).phases_s(point(2), 2048))
    serial = fixed / sum(model.phases_s(point(2), 2048))
    frame = estimates.strong(simulate([point(p) for p in (1, 2, 4, 8)], model, rounds=20))
    assert frame["karp_flatt"].tolist()[1:] == pytest.approx([serial] * 3, rel=0.02)
    assert frame["speedup"].tolist() == pytest.approx(
        [1 / (serial + (1 - serial) / p) for p in (1, 2, 4, 8)], rel=0.005
    )


@pytest.mark.parametrize("p", [2, 4, 8])
def test_strong_scaling_is_the_batch_times_weak_scaling(p: int) -> None:
    model = MachineModel(**(EVERYTHING | {"noise": Noise(step_sd=0.03, block_sd=0.002)}))
    strong = simulate([point(1), point(p)], model, rounds=30, seed=1)
    weak = simulate([point(1, "weak"), point(p, "weak")], model, rounds=30, seed=2)
    (row,) = identity_check(strong, weak).to_dict("records")
    assert row["efficiency"] == pytest.approx(row["batch_times_weak"], rel=0.01)
    assert row["efficiency_low"] <= row["batch_times_weak_high"]
    assert row["batch_times_weak_low"] <= row["efficiency_high"]


@pytest.mark.parametrize("cause", CAUSES)
def test_the_verdict_and_the_guideline_name_the_cause(cause: str) -> None:
    model = MachineModel(**({"noise": Noise(block_sd=2e-3)} | CAUSES[cause]))
    records = simulate([point(p) for p in (1, 4)], model, rounds=20)
    (row,) = verdicts(records).to_dict("records")
    assert (row["told"], row["factor"], row["source"]) == (True, cause, "simulated")
    none = estimates.overhead([])
    frame = guidelines(
        estimates.strong(records), estimates.weak([]), none, none, attribution(records), verdicts(records)
    )
    (line,) = frame[frame["topic"] == "loss"].to_dict("records")
    assert line["told"]
    assert "(simulated: " in line["sentence"]


@pytest.mark.parametrize("p", [2, 8])
def test_overlap_hides_what_backward_outlasts_and_blocking_messages_are_another_quantity(p: int) -> None:
    """Three buckets: the last is exposed whole, the others only where the link is too slow for backward."""
    buckets = gradient_buckets(point(p, bucket_cap_mb=0.001))
    assert len(buckets) == 3
    fast = MachineModel(network=one_node(bytes_per_s=1e10), noise=QUIET)
    slow = replace(fast, network=one_node(bytes_per_s=2e7))
    for model in (fast, slow):
        spec = point(p, bucket_cap_mb=0.001, allreduce_bytes=(1024, 2**22), **PAIR)
        row = estimates.overhead([record_of(spec, model, rounds=30)]).iloc[0]
        first, middle, last = (model.network.allreduce_s(size, (p,)) for size in buckets)
        backward = model.phases_s(spec, spec.local_batch_size)[1]
        exposed = max(0.0, middle - backward * (1 - model.ready_shares(spec)[1])) + last
        assert row["total_comm_s"] == pytest.approx(first + middle + last, rel=1e-6)
        step = sum(model.phases_s(spec, spec.local_batch_size))
        assert row["overhead"] == pytest.approx(exposed / (step + exposed), abs=2e-3)
        assert row["exposed_ms"] == pytest.approx(1e3 * exposed, rel=0.02, abs=1e-3 * 1e3 * step)
        assert (exposed == last) == (model is fast)


# Analyses that are wrong on purpose: the criterion must refuse each, and accept the house's on the same records.


def test_a_mean_of_ratios_is_refused() -> None:
    model = MachineModel(noise=Noise(block_sd=0.5))
    record = record_of(point(2, block_s=0.01), model, rounds=600)
    times = PairedArms(record).times_s
    ratios = times["serial_global"] / times["ddp"] / 2
    error = 1.96 * ratios.std() / np.sqrt(len(ratios))
    mean = Estimate(ratios.mean(), ratios.mean() - error, ratios.mean() + error, 600, "mean of ratios", 0.95)
    assert recovered(efficiency(record).value, 1.0)
    assert not recovered(mean, 1.0)


def test_blocks_without_warm_up_are_refused() -> None:
    """The first steps are slow; the local batch has more steps a block, so that they weigh less there."""
    model = MachineModel(launch_s=1e-3, noise=Noise(step_sd=0.01, block_sd=1e-3, cold_steps=10, cold_factor=2.0))
    warm, cold = point(4, warmup_steps=10, warmup_s=0.0), point(4, warmup_steps=1, warmup_s=0.0)
    true = truth(warm, model, 4000)
    assert truth(cold, model, 4000).efficiency == pytest.approx(true.efficiency, rel=1e-3)
    assert recovered(efficiency(record_of(warm, model)).value, true.efficiency)
    assert not recovered(efficiency(record_of(cold, model)).value, true.efficiency)


@pytest.mark.parametrize("wrong", ["ddp at p = 1", "local batch"])
def test_a_wrong_baseline_is_refused(wrong: str) -> None:
    model = MachineModel(ddp_s=1e-3, launch_s=2e-3, contention=0.05, noise=Noise(block_sd=1e-3))
    one, many = simulate([point(1), point(4)], model, rounds=30)
    true, arms = truth(point(4), model, 4000).efficiency, PairedArms(many)
    if wrong == "local batch":
        found = arms.ratio("serial_local", "ddp")
    else:
        found = efficiency(many).value.times(PairedArms(one).ratio("ddp", "serial_global"))
    assert recovered(efficiency(many).value, true)
    assert not recovered(found, true)


@pytest.mark.parametrize("p", [2, 4, 8])
def test_waiting_booked_as_data_movement_is_refused(p: int) -> None:
    """Without the link of the slowest rank at every step, 5 % of step jitter would be 3 to 7 % of communication."""
    model = MachineModel(**CAUSES["data_movement"], noise=replace(QUIET, step_sd=JITTER))
    spec = point(p, block_s=1.0)
    record, true = record_of(spec, model), truth(spec, model, 2000).factors["data_movement"]
    assert recovered(efficiency(record).factors["data_movement"], true)
    assert not recovered(PairedArms(record).ratio("ddp_noop", "ddp"), true)


def test_disturbed_rounds_left_in_are_refused() -> None:
    """Bursts hit half of the blocks of a fifth of the rounds; means over all rounds feel them, the house does not."""
    model = MachineModel(contention=0.1, noise=Noise(block_sd=2e-3, burst_share=0.15, burst_foreign_cpu=0.8))
    record, true = record_of(point(2), model, rounds=60), 1 / 1.1
    found = efficiency(record)
    assert 0 < found.n_disturbed < 20
    assert recovered(found.value, true)
    assert recovered(found.of_means, true)
    every = PairedArms(record, all_rounds=True).times_s
    mean = metrics.speed_up(every["serial_global"].mean(), every["ddp"].mean()) / 2
    assert mean != pytest.approx(true, rel=0.02)
