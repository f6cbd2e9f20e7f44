"""KANs beside their controls: what is paired with what, known truths, and what cannot be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fabricate import make_point, make_record
from hypothesis import given
from hypothesis import strategies as st
from simulated import one_node, simulate, truth

from kanstudy.analysis import estimates
from kanstudy.analysis.attribution.chain import with_chain
from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.controls import HIGHER, LOWER, NO_DIFFERENCE, UNTOLD, Pair, controls, per_round
from kanstudy.analysis.controls_words import CLAIM, CONTROLS, sentence, sentences
from kanstudy.analysis.guidelines import guidelines
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.plots.controls import controls as figure_of
from kanstudy.analysis.published import compare
from kanstudy.analysis.tables.view import view
from kanstudy.record import Record
from kanstudy.sizes import matched_layer_widths
from kanstudy.spec import PointSpec

WIDTHS = (32, 64, 64, 1)
SEED = 1  # one interval in twenty misses: that of seed 0 does
PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}
THREE = {"arms": ("serial_global", "ddp_noop", "ddp")}
MACHINE = MachineModel(network=one_node(1e-3, 2e8), launch_s=1e-3, contention=0.1, noise=Noise(block_sd=0.01))


def mlp(**changes) -> dict:
    return {"model": "mlp", "layer_widths": matched_layer_widths(WIDTHS, 5, 3), **changes}


CALM = replace(MACHINE, noise=Noise())


def spec(model: str = "kan", batch: int = 2048, **changes) -> PointSpec:
    common = PAIR | {"global_batch_size": batch, "block_s": 0.1} | changes
    return make_point(**(mlp() if model == "mlp" else {"layer_widths": WIDTHS}), **common)


def beside(*machines: MachineModel, rounds: int = 13, launches: int = 1, **changes) -> list[Record]:
    """A KAN on the first machine, an MLP of the same batch on the second."""
    points = [spec(**changes), spec("mlp", **changes)]
    pairs = zip(points, machines, strict=True)
    return [record for point, machine in pairs for record in simulate([point], machine, rounds, launches, seed=SEED)]


def alike(records: list[Record]) -> list[Record]:
    """As if one machine had measured them all."""
    for record in records:
        record.conditions, record.device_name, record.provenance = "c0", "machine", {}
    return records


def only_row(records: list[Record]) -> pd.Series:
    (row,) = (row for _, row in controls(alike(records)).iterrows())
    return row


def slower_link(times: float) -> MachineModel:
    return replace(MACHINE, network=one_node(times * 1e-3, 2e8 / times))


def test_equal_exposed_time_is_no_difference_and_the_sentence_bounds_it() -> None:
    row = only_row(beside(MACHINE, MACHINE))
    assert (row["control"], row["control_batch"], row["verdict"]) == ("parameters", 2048, NO_DIFFERENCE)
    for model, name in (("kan", "exposed_ms"), ("mlp", "exposed_ms_control")):
        assert row[name] == pytest.approx(1e3 * truth(spec(model), CALM).exposed_s, rel=0.1)
    widest = max(abs(row["exposed_ms_difference_low"]), abs(row["exposed_ms_difference_high"]))
    assert f"a difference of up to {widest:.2f} ms" in sentence(row)
    assert f"nothing here contradicts the claim {CLAIM}" in sentence(row)


@pytest.mark.parametrize(
    ("times", "verdict", "words"),
    [(2.0, HIGHER, "more is exposed with the KAN, which speaks against"), (0.5, LOWER, "less is exposed with the KAN")],
)
def test_doubled_or_halved_exposed_time_is_told(times: float, verdict: str, words: str) -> None:
    row = only_row(beside(slower_link(times), MACHINE))
    calm = replace(slower_link(times), noise=Noise())
    true = 1e3 * (truth(spec(), calm).exposed_s - truth(spec("mlp"), CALM).exposed_s)
    assert row["verdict"] == row["verdict_overhead"] == verdict
    half = row["exposed_ms_difference_high"] - row["exposed_ms_difference_low"]  # twice as wide as the interval
    assert abs(row["exposed_ms_difference"] - true) <= half < abs(true)
    assert words in sentence(row)


def test_a_longer_step_has_a_smaller_share_of_equal_milliseconds_and_decides_nothing_else() -> None:
    slow = replace(MACHINE, flops_per_s=MACHINE.flops_per_s / 4)
    row = only_row(beside(slow, MACHINE))
    assert (row["verdict"], row["verdict_overhead"]) == (NO_DIFFERENCE, LOWER)
    assert row["step_ratio"] > 2
    higher = only_row(beside(replace(slow, network=one_node(3e-3, 2e8)), MACHINE))
    assert higher["verdict"] == HIGHER
    assert "not known to be equally long, so that this alone decides nothing" in sentence(higher)


def test_the_difference_covers_the_truth_about_as_often_as_it_says() -> None:
    noisy = replace(MACHINE, noise=Noise(block_sd=0.02, drift_per_round=0.01))
    points = [spec(), spec("mlp")]
    kan, control = (truth(point, CALM).exposed_s for point in points)
    covered = 0
    for seed in range(60):
        found = Pair(*simulate(points, noisy, 13, seed=seed)).difference("exposed_ms")
        covered += found.includes(1e3 * (kan - control))
    assert covered >= 51  # of 60: 95 % is nominal


@given(common=st.floats(0.5, 2.0), index=st.integers(0, 12))
def test_what_slows_both_rounds_of_a_pair_leaves_the_steps_ratio_alone(common: float, index: int) -> None:
    records = beside(MACHINE, MACHINE, rounds=13)
    before = Pair(*records).step_ratio
    for record in records:
        for arm in record.arms.values():
            item = arm.rounds[index]
            item.rank_step_times_s = [[common * time for time in steps] for steps in item.rank_step_times_s]
    after = Pair(*records).step_ratio
    assert (after.value, after.low, after.high) == pytest.approx((before.value, before.low, before.high))


def test_of_other_batches_the_nearest_step_is_the_control_and_the_line_says_which_would_match() -> None:
    kan, *others = simulate([spec(), *(spec("mlp", batch) for batch in (2048, 4096, 8192))], CALM, 13)
    for arm in kan.arms.values():  # a step three times as long as the MLP's with the same rows
        for item in arm.rounds:
            item.rank_step_times_s = [[3 * time for time in steps] for steps in item.rank_step_times_s]
    frame = controls(alike([kan, *others]))
    assert frame[["control", "control_batch"]].to_numpy().tolist() == [["parameters", 2048], ["step time", 8192]]
    times = {size: truth(spec("mlp", size), CALM).times_s["ddp_noop"] for size in (2048, 8192)}
    per_row = (times[8192] - times[2048]) / (8192 - 2048)
    target = 3 * truth(spec(), CALM).times_s["ddp_noop"]
    assert frame["matching_batch"].tolist() == [pytest.approx(2048 + (target - times[2048]) / per_row, abs=2)] * 2
    assert frame["step_ratio"].iloc[1] == pytest.approx(target / times[8192])
    assert f"{frame['matching_batch'].iloc[1]:.0f} rows would match it" in sentence(frame.iloc[1])
    alone = controls(alike([kan, others[0]]))["matching_batch"].item()
    assert alone == pytest.approx(2048 * frame["step_ratio"].iloc[0], abs=2)


def test_only_an_mlp_of_the_kans_size_under_the_same_settings_is_its_control() -> None:
    kan, control = spec(), spec("mlp")
    for other in (
        replace(control, layer_widths=(32, 219, 220, 1)),
        replace(control, bucket_cap_mb=0.1),
        replace(control, world_size=4),
        replace(control, optimizer="sgd"),
        replace(control, dataset="synthetic:32:2"),
    ):
        assert controls(alike(simulate([kan, other], MACHINE, 2))).empty
    assert controls(simulate([replace(kan, sync_buffers=True), control], MACHINE, 2)).empty
    assert controls(simulate([spec(world_size=1), spec("mlp", world_size=1)], MACHINE, 2)).empty
    assert len(controls(alike(simulate([kan, control], MACHINE, 2)))) == 1


def test_the_gradients_stand_beside_the_times() -> None:
    row = only_row(beside(MACHINE, MACHINE))
    kan, control = simulate([spec(), spec("mlp")], MACHINE, 1)
    assert (row["gradient_bytes"], row["gradient_bytes_control"]) == (kan.gradient_bytes, control.gradient_bytes)
    assert row["gradient_bytes_control"] == pytest.approx(row["gradient_bytes"], rel=0.02)
    assert row["bytes_per_flop"] == pytest.approx(kan.gradient_bytes / (kan.flops_per_sample * 1024))
    assert row["buckets"] == f"1: {kan.gradient_bytes / 1024:.1f}"
    cut = controls(alike(simulate([spec(bucket_cap_mb=0.01), spec("mlp", bucket_cap_mb=0.01)], MACHINE, 1))).iloc[0]
    assert [cut[name].count("+") for name in ("buckets", "buckets_control")] == [1, 1]


def test_own_values_are_those_of_the_other_tables() -> None:
    records = beside(MACHINE, MACHINE, experiment="strong_scaling", **THREE)
    row, strong, communication = only_row(records), estimates.strong(records), estimates.overhead(records)
    for end in ("", "_low", "_high"):
        for place, which in enumerate(("", "_control")):
            assert row[f"efficiency{which}{end}"] == strong[f"efficiency{end}"].iloc[place]
            assert row[f"overhead{which}{end}"] == communication[f"overhead{end}"].iloc[place]
            assert row[f"exposed_ms{which}{end}"] == communication[f"exposed_ms{end}"].iloc[place]
    assert row["verdict_efficiency"] in (NO_DIFFERENCE, HIGHER, LOWER)
    assert "Efficiency is 0." in sentence(row)
    assert np.isnan(only_row(beside(MACHINE, MACHINE))["efficiency_difference"])


def test_without_interval_trust_or_equal_conditions_nothing_is_told() -> None:
    few = only_row(beside(MACHINE, MACHINE, rounds=5))
    assert few["verdict"] == UNTOLD
    assert "whether they differ cannot be told: KAN: 5 rounds: too few for an interval" in sentence(few)
    noisy = [
        make_record(rounds=13, **PAIR, foreign={1: 0.5, 2: 0.5, 3: 0.5}),
        make_record(rounds=13, **PAIR, **mlp()),
    ]
    assert (only_row(noisy)["verdict"], only_row(noisy)["trusted"]) == (UNTOLD, False)
    kan, control = alike(beside(MACHINE, MACHINE))
    control.provenance = {"conditions": {"hosts": ["another"]}}
    (row,) = controls([kan, control]).to_dict("records")
    assert (row["verdict"], row["n_rounds"]) == (UNTOLD, 0)
    assert "different conditions" in row["reason"]
    assert per_round([kan, control]).empty
    halves = [
        make_record(**PAIR, foreign=dict.fromkeys(range(5), 0.5)),
        make_record(**PAIR, **mlp(), foreign=dict.fromkeys(range(5, 12), 0.5)),
    ]
    assert "no round is undisturbed in both" in sentence(only_row(halves))
    empty = make_record(rounds=0, **PAIR, **mlp())
    row = only_row([make_record(rounds=13, **PAIR), empty])
    assert row["verdict"] == UNTOLD
    assert "cannot be told" in sentence(row)


def test_a_pair_disturbed_in_either_is_left_out_and_a_cross() -> None:
    records = [make_record(rounds=13, **PAIR, foreign={4: 0.5}), make_record(rounds=13, **PAIR, **mlp())]
    row = only_row(records)
    assert (row["n_rounds"], row["n_disturbed"], row["trusted"]) == (12, 1, True)
    assert per_round(records)["disturbed"].tolist() == [index == 4 for index in range(13)]


def test_from_five_launches_on_the_launch_is_the_replicate() -> None:
    row = only_row(beside(slower_link(2), MACHINE, rounds=3, launches=5))
    assert (row["method"], row["launches"], row["verdict"]) == ("t over launches", 5, HIGHER)


def test_without_controls_the_sentence_says_so() -> None:
    frame = controls(simulate([spec()], MACHINE, 2))
    assert frame.empty
    assert sentences(frame) == [f"No control was measured, so that the claim, {CLAIM}, is not tested here."]
    assert view(frame, CONTROLS).cells.empty
    assert len(figure_of(frame, per_round([])).axes) == 0


def test_guidelines_speak_of_controls_and_the_published_study_is_compared_with_kans_only() -> None:
    records = beside(slower_link(2), MACHINE, experiment="strong_scaling", **THREE)
    frame, empty = controls(alike(records)), estimates.overhead([])
    strong = estimates.strong(records)
    nothing = (estimates.weak([]), empty, estimates.model_size([]), attribution([]))
    found = guidelines(strong, *nothing, pd.DataFrame(columns=["series", "scaling"]), controls=frame)
    (line,) = found[found["topic"] == "controls"].to_dict("records")
    assert line["told"]
    assert "MLP" not in " ".join(found.loc[found["topic"] == "ranks", "sentence"])
    assert line["point_ids"].split() == [record.point_id for record in records]
    compared = compare(strong, estimates.weak([]), empty, estimates.model_size([]))
    assert records[0].point_id in " ".join(compared["point_ids"])
    assert records[1].point_id not in " ".join(compared["point_ids"])


def test_a_control_has_no_chain() -> None:
    control = make_record(**mlp(), **THREE)
    whole = [make_record(), make_record(world_size=1), make_record(experiment="weak_scaling", scaling="weak")]
    assert with_chain([*whole, control]) == whole


def test_the_figure_shows_kan_and_controls_side_by_side() -> None:
    strong = [
        spec(**THREE, experiment="strong_scaling"),
        *(spec("mlp", b, **THREE, experiment="strong_scaling") for b in (2048, 4096)),
    ]
    records = alike(simulate([*strong, spec(), spec("mlp")], MACHINE, 13))
    frame = controls(records)
    exposed, overhead, efficiency = figure_of(frame, per_round(records)).axes
    for axis, name, scale in ((exposed, "exposed_ms", 1), (overhead, "overhead", 100)):
        drawn = {
            marker: [
                float(line.get_ydata()[0])
                for line in axis.lines
                if line.get_marker() == marker and len(line.get_xdata()) == 1
            ]
            for marker in "os^"
        }
        same, other = (frame[frame["control"] == kind] for kind in ("parameters", "step time"))
        assert drawn == {
            "o": (scale * same[name]).tolist(),
            "s": (scale * same[f"{name}_control"]).tolist(),
            "^": (scale * other[f"{name}_control"]).tolist(),
        }
    assert [tick.get_text() for tick in exposed.get_xticklabels()] == [
        "strong\nscaling\n2 ranks",
        "communication\noverhead\n2 ranks",
    ]
    assert len(efficiency.get_xticklabels()) == 1
    dots = [line for line in exposed.lines if line.get_marker() == "."]
    assert sum(len(line.get_xdata()) for line in dots) == 13 * (2 + 3)
