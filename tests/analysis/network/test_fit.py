"""Constants of a network are found again from its own all-reduces, with an interval that holds them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from fabricate import make_record

from kanstudy.analysis.external.nccl_log import NcclLog
from kanstudy.analysis.network.fit import MESSAGES, fit_network, messages_of_log, messages_of_records
from kanstudy.analysis.network.network import Link, Network
from kanstudy.network_words import ALGORITHMS

SIZES = [2**power for power in range(10, 27, 2)]
BOTH = [(2,), (1, 1), (2, 2), (1, 1, 1, 1)]
TRUE = Network(
    inside=Link(latency_s=8e-6, bytes_per_s=11e9), between=Link(latency_s=2e-5, bytes_per_s=6e9), name="true"
)
CONSTANTS = [("inside", "latency_s"), ("inside", "bytes_per_s"), ("between", "latency_s"), ("between", "bytes_per_s")]


def messages(network: Network, layouts: list[tuple[int, ...]], noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        (size, layout, network.allreduce_s(size, layout) * np.exp(noise * rng.standard_normal()), f"p{sum(layout)}")
        for layout in layouts
        for size in SIZES
    ]
    return pd.DataFrame(rows, columns=list(MESSAGES))


def constants(network: Network) -> list[float]:
    return [getattr(getattr(network, tier), name) for tier, name in CONSTANTS]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_constants_of_both_tiers_are_found_again(algorithm):
    true = dataclasses.replace(TRUE, algorithm=algorithm)
    found = fit_network(messages(true, BOTH), Network(algorithm=algorithm, name="fitted", basis="measured"))
    assert found.reason == ""
    assert constants(found.network) == pytest.approx(constants(true), rel=1e-4)
    assert (found.network.name, found.network.basis) == ("fitted", "measured")
    assert found.tiers == ("inside", "between")
    assert found.point_ids == ("p2", "p4")


def test_intervals_and_draws_hold_the_truth_as_often_as_they_say():
    held, inside, bands = [], 0, []
    target = (2**20, (2, 2))
    for seed in range(60):
        found = fit_network(messages(TRUE, BOTH, noise=0.05, seed=seed), Network())
        estimates = [found.fit.parameters[f"{tier}_{name}"] for tier, name in CONSTANTS]
        held += [
            estimate.low <= value <= estimate.high for estimate, value in zip(estimates, constants(TRUE), strict=True)
        ]
        assert found.fit.residual_sd == pytest.approx(0.05, rel=0.6)
        times = [network.allreduce_s(*target) for network in found.draws(200, seed)]
        low, high = np.quantile(times, [0.025, 0.975])
        inside += low <= TRUE.allreduce_s(*target) <= high
        bands.append(high / low)
    assert 0.88 <= np.mean(held) <= 0.995
    assert inside / 60 >= 0.85
    assert np.median(bands) < 1.2


def test_draws_are_the_same_for_the_same_seed():
    found = fit_network(messages(TRUE, BOTH, noise=0.1), Network())
    assert found.draws(3, 7) == found.draws(3, 7) != found.draws(3, 8)


def test_a_corrected_network_passes_through_what_was_measured():
    rows = messages(TRUE, BOTH, noise=0.3)
    found = fit_network(rows, Network())
    corrected = found.corrected()
    for _, row in rows.iterrows():
        assert corrected.allreduce_s(row["message_bytes"], row["layout"]) == pytest.approx(row["time_s"])
        assert found.network.allreduce_s(row["message_bytes"], row["layout"]) != pytest.approx(row["time_s"], rel=1e-3)
    factors = [corrected.allreduce_s(size, (2,)) / found.network.allreduce_s(size, (2,)) for size in (1024, 3000, 4096)]
    assert sorted(factors)[1] == factors[1]
    assert corrected.allreduce_s(3000, (8,)) == found.network.allreduce_s(3000, (8,))
    with pytest.raises(ValueError, match="was not fitted"):
        fit_network(messages(TRUE, [(2,)]).iloc[:3], Network()).corrected()


def test_a_tier_without_messages_stays_as_it_was_and_is_not_covered():
    begin = Network(between=Link(latency_s=1e-3, bytes_per_s=1e8))
    found = fit_network(messages(TRUE, [(2,), (4,)]), begin)
    assert found.tiers == ("inside",)
    assert found.network.between == begin.between
    assert found.network.inside.bytes_per_s == pytest.approx(11e9, rel=1e-4)
    assert found.covers((8,))
    assert found.covers((1,))
    assert not found.covers((2, 2))
    assert not found.covers((1, 1))


def test_what_the_messages_do_not_determine_is_refused_and_says_what_to_measure():
    hidden = fit_network(messages(TRUE, [(2, 2), (4, 4)]), Network())
    assert "placements packed and spread" in hidden.reason
    assert not hidden.covers((2, 2))
    with pytest.raises(ValueError, match="network 'network' was not fitted: "):
        hidden.draws(1)
    few = fit_network(messages(TRUE, [(2,)]).iloc[:3], Network())
    assert "2 parameters need at least 4" in few.reason
    one_size = messages(TRUE, [(2,)] * 3)
    assert fit_network(one_size[one_size["message_bytes"] == 1024], Network()).reason != ""
    assert "no all-reduce" in fit_network(messages(TRUE, [(1,)]).iloc[:0], Network()).reason


def on(hosts: list[str], times: dict[int, list[float]], **changes):
    values = {"global_batch_size": 2520} | changes
    record = make_record(world_size=len(hosts), rounds=1, allreduce=times, **values)
    record.provenance = {"node_set": ["a", "b"], "conditions": {"hosts": hosts, "ranks": hosts}}
    return record


def test_messages_of_records_are_medians_on_the_hosts_that_they_name():
    records = [
        on(["a", "a"], {1024: [1e-5, 3e-5, 2e-5]}),
        on(["a", "b"], {1024: [5e-5], 2048: []}, placement="spread"),
        on(["a", "a", "b"], {4096: [7e-5]}),
        on(["a"], {1024: [1.0]}),
        on(["a", "a"], {1024: [9.0]}, oversubscribed=True, global_batch_size=4096),
    ]
    rows = messages_of_records(records)
    assert list(zip(rows["message_bytes"], rows["layout"], rows["time_s"], strict=True)) == [
        (1024, (2,), 2e-5),
        (1024, (1, 1), 5e-5),
        (4096, (2, 1), 7e-5),
    ]


def test_machines_are_not_mixed():
    times = {1024: [1e-5]}
    with pytest.raises(ValueError, match=r"source of the all-reduces is measured and simulated: must be one"):
        messages_of_records([on(["a", "a"], times), on(["a", "b"], times, source="simulated")])
    with pytest.raises(ValueError, match="device_name"):
        messages_of_records([on(["a", "a"], times), on(["a", "b"], times, device_name="another")])
    other = on(["c", "d"], times)
    other.provenance["node_set"] = ["c", "d"]
    with pytest.raises(ValueError, match="other nodes or versions"):
        messages_of_records([on(["a", "a"], times), other])


def log(in_place: list[bool]) -> NcclLog:
    frame = pd.DataFrame(
        {
            "message_bytes": [size for size in SIZES for _ in in_place],
            "in_place": in_place * len(SIZES),
            "time_s": [TRUE.allreduce_s(size, (2, 2)) * (1 if half else 2) for size in SIZES for half in in_place],
        }
    )
    return NcclLog(frame, frame.iloc[:0], 4, 0.0, len(frame), ())


def test_an_nccl_tests_log_serves_as_well():
    rows = messages_of_log(log([False, True]), (2, 2))
    assert rows["time_s"].to_list() == [TRUE.allreduce_s(size, (2, 2)) for size in SIZES]
    assert len(messages_of_log(log([False]), (2, 2))) == len(SIZES)
    with pytest.raises(ValueError, match=r"layout = \(2, 1\): must have the 4 ranks of the log"):
        messages_of_log(log([True]), (2, 1))
    with pytest.raises(ValueError, match=r"layout = \(\): must have the 4 ranks of the log"):
        messages_of_log(log([True]))
    listed = dataclasses.replace(log([True]), layout=(2, 2))
    assert set(messages_of_log(listed)["layout"]) == {(2, 2)}
