from __future__ import annotations

import re
from dataclasses import replace

import known_calibration
import pytest
from known_calibration import CLUSTER, MACHINE, ONE_NODE, calibration, model

from kanstudy.analysis.guidelines.predicted import CAPS_MB, predicted
from kanstudy.analysis.guidelines.question import Question
from kanstudy.analysis.guidelines.ranks import TOPOLOGY
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.work import layer_bytes
from kanstudy.analysis.network.network import Link
from kanstudy.analysis.prediction.isoefficiency import with_hidden_width
from kanstudy.analysis.prediction.predict import predict

TRUTH = replace(MACHINE, ranks_per_node=2, nodes=4, network=CLUSTER.network)
"""The known machine on the cluster's site."""


def ask(point=None, site=CLUSTER, sizes=(2, 4, 8), **changes) -> dict[str, list[dict]]:
    """The guidelines by topic."""
    frame = predicted(Question(calibration(**changes), point or model(), site, sizes))
    assert set(frame["source"]) == {"predicted"}
    assert set(frame["point_ids"]) == {" ".join(calibration(**changes).point_ids)}
    return {topic: rows.to_dict("records") for topic, rows in frame.groupby("topic", sort=False)}


def numbers(text: str) -> list[tuple[float, float, float]]:
    """Every value with its range in a sentence."""
    found = re.findall(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]", text)
    return [(float(value), float(low), float(high)) for value, low, high in found]


def test_each_is_a_sentence_with_its_range_that_says_what_it_rests_on() -> None:
    found = ask()
    assert set(found) == {"ranks", TOPOLOGY, "least local batch", "bucket cap", "compression", "model size"} - {
        TOPOLOGY
    }
    for rows in found.values():
        for row in rows:
            assert row["sentence"].endswith(
                f"(predicted: from the calibration's {len(calibration().point_ids)} points)."
            )
            assert numbers(row["sentence"]) or not row["told"]


def test_how_many_ranks_are_those_of_the_predictions() -> None:
    first, _ = ask()["ranks"]
    frame = predict(calibration(), [model(p) for p in (2, 4, 8)], CLUSTER)
    kept = frame[frame["parallel_efficiency_low"] >= 0.7]
    last = kept.iloc[-1]
    assert f"up to {last['world_size']} ranks keep a parallel efficiency of at least 0.7" in first["sentence"]
    assert numbers(first["sentence"])[0] == pytest.approx(
        [last[f"parallel_efficiency{end}"] for end in ("", "_low", "_high")], abs=0.005
    )
    assert "scenario range" in first["sentence"], "no four ranks were calibrated"


def test_in_weak_scaling_every_rank_keeps_its_batch() -> None:
    weak = model(2, scaling="weak", global_batch_size=1024)
    first, *_ = ask(weak, sizes=(2, 4, 8))["ranks"]
    frame = predict(calibration(), [weak.at(p, "packed") for p in (2, 4, 8)], CLUSTER)
    assert frame["local_batch_size"].tolist() == [512, 512, 512]
    last = frame[frame["parallel_efficiency_low"] >= 0.7].iloc[-1]
    assert f"up to {last['world_size']} ranks keep a parallel efficiency" in first["sentence"]
    assert numbers(first["sentence"])[0] == pytest.approx(
        [last[f"parallel_efficiency{end}"] for end in ("", "_low", "_high")], abs=0.005
    )


def test_ranks_beyond_what_the_calibration_covers_are_not_spoken_of() -> None:
    """2048 rows on 512 ranks leave 4, fewer than were calibrated."""
    (_, second) = ask(sizes=(2, 8, 512))["ranks"]
    assert "512" not in second["sentence"]
    (refused,) = ask(model(512), sizes=(512,))["ranks"]
    assert not refused["told"]
    assert "local_batch_size = 4: calibrated are 8 to 4096" in refused["sentence"]


@pytest.mark.parametrize("between_bytes_per_s", [5e9, 1e8])
def test_the_placement_is_the_known_machines(between_bytes_per_s: float) -> None:
    network = replace(CLUSTER.network, between=Link(latency_s=1e-4, bytes_per_s=between_bytes_per_s))
    site = replace(CLUSTER, network=network)
    times = {
        placement: expected(replace(model(4), placement=placement), replace(TRUTH, network=network)).step_time_s
        for placement in ("packed", "spread")
    }
    best, other = sorted(times, key=times.__getitem__)
    (row,) = ask(model(4), site, sizes=(4,))[TOPOLOGY]
    assert row["told"]
    assert f"the step is shortest with placement {best}" in row["sentence"]
    assert f"with {other}" in row["sentence"]
    value, low, high = numbers(row["sentence"])[0]
    assert low <= value <= high
    assert value == pytest.approx(times[other] / times[best], rel=0.05)


def test_without_a_network_between_nodes_placements_are_not_compared() -> None:
    (row,) = ask(model(2), ONE_NODE, sizes=(2,))[TOPOLOGY]
    assert not row["told"]
    assert "no network between nodes is calibrated" in row["sentence"]


def test_the_local_batch_to_stay_above_is_where_fixed_costs_are_a_tenth() -> None:
    """T(b) = t0 + t1·b: b/T(b) is 0.9 of that at the most rows m at b = 0.9·t0/(t0/m + 0.1·t1)."""
    zero = sum(MACHINE.phases_s(model(), 0))
    row_s = (sum(MACHINE.phases_s(model(), 4096)) - zero) / 4096
    truth = 0.9 * zero / (zero / 4096 + 0.1 * row_s)
    (row,) = ask()["least local batch"]
    value, low, high = numbers(row["sentence"])[0]
    assert low <= value <= high
    assert value == pytest.approx(truth, rel=0.05)
    assert row["told"]


def test_where_the_fewest_rows_are_enough_nothing_is_told_of_fewer() -> None:
    few = replace(calibration(), domain=replace(calibration().domain, rows=(2048, 4096)))
    large = model(2, layer_widths=(32, 512, 512, 1), global_batch_size=4096)
    frame = predicted(Question(few, large, CLUSTER, (2,)))
    (row,) = frame[frame["topic"] == "least local batch"].to_dict("records")
    assert not row["told"]
    assert "already 2048 rows, the fewest that are calibrated" in row["sentence"]


def test_the_bucket_cap_is_the_known_machines_and_equal_buckets_make_no_difference() -> None:
    large = model(8, layer_widths=(32, 512, 512, 1))
    times = {cap: expected(replace(large, bucket_cap_mb=cap), TRUTH).step_time_s for cap in CAPS_MB}
    (row,) = ask(large)["bucket cap"]
    assert row["told"]
    named = float(re.search(r"bucket cap ([\d.]+) MiB \(", row["sentence"])[1])
    assert times[named] == min(times.values())
    value, low, high = numbers(row["sentence"])[0]
    assert value == pytest.approx(times[25] / times[named], rel=0.02)
    assert 1 < low <= value <= high
    (same,) = ask(model(8, layer_widths=(32, 64, 64, 1)))["bucket cap"]
    assert "every bucket cap from 1 to 100 MiB gives the same buckets" in same["sentence"]


def test_compression_pays_below_the_bandwidth_at_which_it_saves_what_it_costs() -> None:
    """Of one bucket on two ranks nothing is hidden: half of S·(p-1)/p·2/(0.95·B) is saved, S times the copies spent."""
    small = model(2, layer_widths=(32, 64, 64, 1), global_batch_size=512)
    truth = 0.5 / (0.95 * MACHINE.ddp_s_per_byte)
    (row,) = ask(small, ONE_NODE, sizes=(2,))["compression"]
    threshold, copies, own = numbers(row["sentence"])
    assert threshold[1] <= truth / 1e9 <= threshold[2]
    assert copies[0] == pytest.approx(1e3 * MACHINE.ddp_s_per_byte * sum(layer_bytes(small)), rel=0.3)
    assert own[0] == pytest.approx(1, rel=0.05)
    assert "inside the node" in row["sentence"]


@pytest.mark.parametrize(("bytes_per_s", "verdict"), [(1e8, "it would here"), (1e11, "it would not here")])
def test_compression_is_told_for_the_link_that_is_there(bytes_per_s: float, verdict: str) -> None:
    links = {"inside": Link(bytes_per_s=1e11), "between": Link(latency_s=1e-4, bytes_per_s=bytes_per_s)}
    (row,) = ask(model(8), replace(CLUSTER, network=replace(CLUSTER.network, **links)))["compression"]
    assert row["told"]
    assert f"GB/s: {verdict} (predicted" in row["sentence"]


@pytest.mark.parametrize(("inside_bytes_per_s", "how"), [(1e8, "at every bandwidth"), (1e13, "below")])
def test_where_another_link_is_slow_compression_pays_whatever_this_one_does(
    inside_bytes_per_s: float, how: str
) -> None:
    network = replace(CLUSTER.network, inside=Link(bytes_per_s=inside_bytes_per_s))
    (row,) = ask(model(8), replace(CLUSTER, network=network))["compression"]
    assert row["told"]
    assert f"pays {how} " in row["sentence"]
    assert "between nodes" in row["sentence"]


def test_where_copies_cost_nothing_that_is_known_compression_is_not_told() -> None:
    (row,) = ask(ddp_s_per_byte=0.0)["compression"]
    assert not row["told"]
    assert "compression cannot be told: what DDP's copies of gradients cost" in row["sentence"]


def test_the_largest_width_fits_and_the_next_does_not() -> None:
    (row,) = ask()["model size"]
    (width,) = re.findall(r"hidden widths up to (\d+)", row["sentence"])
    widths = model().layer_widths
    memory = [
        calibration().memory.peak_bytes(replace(model(), layer_widths=with_hidden_width(widths, int(width) + more)))
        for more in (0, 1)
    ]
    assert memory[0] <= CLUSTER.memory_bytes < memory[1]
    (unknown,) = ask(site=replace(CLUSTER, memory_bytes=None))["model size"]
    assert "the memory of a rank is not stated" in unknown["sentence"]
    (tiny,) = ask(site=replace(CLUSTER, memory_bytes=1e3))["model size"]
    assert not tiny["told"]


def test_another_kind_of_model_is_not_told_anything_but_its_size() -> None:
    found = ask(model(8, optimizer="sgd"))
    told = {topic: any(row["told"] for row in rows) for topic, rows in found.items()}
    assert {topic for topic, value in told.items() if value} <= {"model size"}
    assert "optimizer = 'sgd': the calibration is of 'adam'" in found["bucket cap"][0]["sentence"]


def test_every_point_of_the_calibration_is_among_the_ids() -> None:
    assert len(calibration().point_ids) == len(known_calibration.points())
