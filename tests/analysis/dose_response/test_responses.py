"""The dose-response on records whose truth is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from injected import DOSES, MACHINE, plain_point, simulated
from simulated import one_node, simulate

from kanstudy.analysis import metrics, plots
from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.dose_response.cause import DATA_WAIT, EFFECTS, Cause
from kanstudy.analysis.dose_response.on_paper import on_paper
from kanstudy.analysis.dose_response.responses import DoseResponse, dose_response, load
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.injection import DECK, OWN_FACTOR, Injection
from kanstudy.record_files import write_record

SILENT = dataclasses.replace(MACHINE, rank_slowness=(1.0,), contention=0.0, ddp_s=0.0, launch_s=0.0, noise=Noise())


@pytest.fixture(scope="module")
def found() -> DoseResponse:
    return dose_response(simulated())


def test_every_cause_lands_in_its_own_factor_and_in_no_other(found: DoseResponse) -> None:
    assert list(found.verdicts["cause"]) == list(OWN_FACTOR)
    assert list(found.verdicts["effect"]) == [factor or DATA_WAIT for factor in OWN_FACTOR.values()]
    assert found.verdicts["lands"].all(), found.verdicts["verdict"].tolist()
    assert (found.verdicts["others_within"] < 0.5).all()
    assert found.unused.empty


def test_the_slope_is_one_within_its_interval(found: DoseResponse) -> None:
    rows = found.verdicts
    assert rows["slope"].to_numpy(float) == pytest.approx(1, abs=0.1)
    width = (rows["slope_high"] - rows["slope_low"]).to_numpy(float)
    assert ((rows["slope_low"] - width / 2 <= 1 + 1e-9) & (rows["slope_high"] + width / 2 >= 1 - 1e-9)).all()


def test_there_is_a_row_for_every_cause_dose_and_effect(found: DoseResponse) -> None:
    assert len(found.responses) == len(OWN_FACTOR) * len(DOSES) * len(EFFECTS)
    assert len(found.confusion) == len(OWN_FACTOR) * len(EFFECTS)
    assert found.confusion.groupby("cause")["own"].sum().eq(1).all()
    own = found.confusion[found.confusion["own"]]
    assert own["expected"].to_numpy(float) == pytest.approx(1)
    unbounded = found.confusion[found.confusion["low"].isna()]
    assert set(unbounded["effect"]) == {DATA_WAIT}
    assert not unbounded["own"].any()


@pytest.mark.parametrize(("cause", "claimed"), [("jitter", "slow_link"), ("ddp_cost", "contention")])
def test_a_cause_under_another_name_is_not_found_there(cause: str, claimed: str) -> None:
    """What was put in is another cause than the record says: the verdict must say so."""
    records = simulated([cause])
    for record, dose in zip(records[1:], DOSES, strict=True):
        record.injection = str(Injection(claimed, dose))
    (row,) = dose_response(records).verdicts.to_dict("records")
    assert not row["lands"]
    assert row["other_effect"] == OWN_FACTOR[cause]
    assert OWN_FACTOR[cause].replace("_", " ").lower() in row["verdict"].lower() or "not found" in row["verdict"]


def test_half_a_dose_is_told() -> None:
    records = simulated(["contention"])
    for record in records[1:]:
        record.injection_step_s *= 2
    (row,) = dose_response(records).verdicts.to_dict("records")
    assert not row["lands"]
    assert 0.4 < row["slope"] < 0.65
    assert "lands in contention, but 0." in row["verdict"]


def test_in_no_other_needs_bounds_that_would_show_it() -> None:
    noisy = dataclasses.replace(MACHINE, noise=dataclasses.replace(MACHINE.noise, block_sd=0.08))
    (row,) = dose_response(simulated(["contention"], noisy)).verdicts.to_dict("records")
    assert not row["lands"]
    assert row["others_within"] > 0.5
    assert "whether in others, too, cannot be told" in row["verdict"]


def test_too_few_rounds_have_no_verdict() -> None:
    (row,) = dose_response(simulated(["slow_link"], rounds=8)).verdicts.to_dict("records")
    assert not row["lands"]
    assert row["verdict"].startswith("cannot be told: fewer than 12")
    assert np.isnan(row["slope_low"])


def test_disturbed_rounds_have_no_verdict() -> None:
    records = simulated(["slow_link"])
    for item in records[1].arms["ddp"].rounds[:4]:
        item.foreign_cpu_share = [0.9, 0.9]
    (row,) = dose_response(records).verdicts.to_dict("records")
    assert not row["lands"]
    assert row["verdict"].startswith("cannot be told: above 20% of the rounds")


def test_what_cannot_be_used_is_listed_with_the_reason() -> None:
    plain, first, second = simulated(["fixed_work"])
    first.arms["ddp"].rounds = []
    first.arms = {name: arm for name, arm in first.arms.items() if name != "ddp"}
    second.injection_step_s = None
    left = dose_response([plain, first, second])
    assert list(left.unused["point_id"]) == [first.point_id, second.point_id]
    assert left.unused["reason"].str.len().gt(0).all()
    assert left.verdicts.empty
    assert list(dose_response([simulated(["jitter"])[1]]).unused["reason"]) == [
        "no record of the same point without an injection"
    ]


@pytest.mark.parametrize("cause", [name for name, factor in OWN_FACTOR.items() if factor is not None])
def test_on_an_even_machine_a_cause_moves_its_own_factor_alone(cause: str) -> None:
    """Without noise and other losses, in closed form: T + x on the links from the cause's own on."""
    point = plain_point()
    (plain,) = simulate([point], dataclasses.replace(SILENT, network=one_node(0.0, 1e9)), rounds=4)
    step = sum(SILENT.phases_s(point, point.local_batch_size))
    dose = 0.3
    factors = efficiency(on_paper(plain, Injection(cause, dose), step)).factors
    before = efficiency(plain).factors
    pairs = np.array([[max(a, b) for a in DECK] for b in DECK])
    slowest = pairs.mean()  # of two ranks that deal independently
    expected = {
        "page_faults": 1 + dose,
        "fixed_work": (1 + dose / 2) / (1 + dose),
        "slow_rank": (1 + dose / 2) / (1 + dose),
        "contention": 1 / (1 + dose),
        "ddp_cost": 1 / (1 + dose),
        "jitter": (1 + dose) / (1 + dose * slowest),
        "slow_link": 1 / (1 + dose),
    }[cause]
    for name, factor in factors.items():
        if name == OWN_FACTOR[cause]:
            exposed = before["data_movement"].value if cause == "slow_link" else 1.0
            assert factor.value / before[name].value == pytest.approx(expected, rel=0.02 if exposed == 1.0 else 0.1)
        elif name != "data_movement":  # whose share shrinks where the step grows
            assert factor.value == pytest.approx(before[name].value, rel=2e-3), name


def test_jitter_has_the_same_mean_on_every_rank() -> None:
    point = plain_point()
    (plain,) = simulate([point], SILENT, rounds=1)
    step = sum(SILENT.phases_s(point, point.local_batch_size))
    (item,) = on_paper(plain, Injection("jitter", 0.2), step).arms["ddp_noop"].rounds
    means = metrics.rank_mean_step_times(item.rank_step_times_s)
    (before,) = plain.arms["ddp_noop"].rounds
    added = means - metrics.rank_mean_step_times(before.rank_step_times_s)
    assert added == pytest.approx(0.2 * step, rel=1e-6)
    assert metrics.slowest_at_every_step(item.rank_step_times_s) > 1.05 * means.max()


def test_on_paper_needs_the_whole_chain() -> None:
    (plain,) = simulate([plain_point()], MACHINE, rounds=1)
    del plain.arms["ddp_noop"]
    with pytest.raises(ValueError, match="must contain ddp_noop and ddp"):
        on_paper(plain, Injection("jitter", 0.1), 1e-3)


def test_records_of_another_size_are_not_compared() -> None:
    records, others = simulated(["slow_link"]), simulated(["slow_link"], rounds=2)
    for record in others[:2]:
        record.block_s = 0.1
    found = dose_response([*others[:2], *records])
    assert list(found.unused["reason"]) == ["of another size or machine than most records here"] * 2
    assert found.verdicts["n_rounds"].tolist() == [16]


def test_the_figure_and_its_caption(found: DoseResponse, tmp_path: Path) -> None:
    figure = plots.dose_response.dose_response(found)
    titles = [axis.get_title() for sub in figure.subfigs for axis in sub.axes]
    assert sum("→" in title for title in titles) == len(OWN_FACTOR)
    figure.savefig(tmp_path / "figure.png")
    said = plots.dose_response.caption(found, simulated())
    assert "8 of 8 causes land in their own factor and in no other" in said
    assert "Source: simulated" in said


def test_without_records_the_figure_says_what_to_do(tmp_path: Path) -> None:
    none = dose_response(load(tmp_path / "absent"))
    assert none.responses.empty
    (text,) = plots.dose_response.dose_response(none).texts
    assert "kanstudy bench attribution" in text.get_text()
    assert "kanstudy bench attribution" in plots.dose_response.caption(none, [])


def test_records_are_read_from_their_folder(tmp_path: Path) -> None:
    for record in simulated(["jitter"], rounds=2):
        write_record(record, tmp_path)
    assert [record.injection for record in load(tmp_path)].count("") == 1
    assert len(load(tmp_path)) == 3


def test_of_five_launches_the_intervals_are_those_between_launches() -> None:
    records = simulated(["contention"], rounds=4, launches=5)
    cause = Cause(records[0], records[1:])
    for found in (cause.response(cause.own), cause.recovered(0, 0), cause.unexpected(1)):
        assert (found.method, found.n) == ("t over launches", 5)
        assert [found.low, found.high] == pytest.approx(np.quantile(found.draws, [0.025, 0.975]))
    (row,) = dose_response(records).verdicts.to_dict("records")
    assert row["slope_low"] < row["slope"] < row["slope_high"]
    assert np.isfinite(row["others_within"])


def test_a_stall_needs_instrumented_steps_for_its_bounds() -> None:
    records = simulated(["input_stall"])
    for record in records:
        record.arms["ddp"].data_wait_s = [steps[:4] for steps in record.arms["ddp"].data_wait_s]
    (row,) = dose_response(records).verdicts.to_dict("records")
    assert not row["lands"]
    assert row["verdict"] == "cannot be told: fewer than 12 instrumented steps, too few for bounds"
