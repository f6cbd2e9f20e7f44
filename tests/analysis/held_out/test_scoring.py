"""Scores on known truth: the right machine wins, a wrong one loses, and what was not frozen before is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from known_machine import PROFILE, calibration_records, held_out_records, measured

from kanstudy.analysis.calibration.calibration import calibrate
from kanstudy.analysis.held_out import emulated, frozen, rivals, scoring
from kanstudy.analysis.plots.prediction_check import caption, predicted_versus_measured
from kanstudy.study import held_out


@pytest.fixture(scope="module")
def law():
    return emulated.learn(measured(held_out.links_plan(PROFILE).points, 1, 1))


@pytest.fixture(scope="module")
def file(tmp_path_factory, law):
    """Predictions frozen from a calibration of the known machine, of all that is held out by default."""
    path = tmp_path_factory.mktemp("out") / frozen.FILE
    points, more = held_out.held_out_plan(PROFILE).points, held_out.more_ranks_plan(PROFILE).points
    records = calibration_records()
    found = calibrate(records)
    predicted, basis = rivals.predictions(found, records, points, law), {"calibration": found.point_ids}
    frozen.freeze(path, (*points, *more), predicted, emulated.messages(law, more), basis)
    return path


@pytest.fixture(scope="module")
def scores(file):
    predicted = frozen.read(file)
    return scoring.score(predicted, held_out_records(predicted))


def test_the_right_machine_beats_every_rival_in_both_groups(scores):
    exposed = scores.skill[scores.skill["quantity"] == "exposed_s"]
    assert set(exposed["source"]) == {"measured", "emulated"}
    assert set(exposed["rival"]) == {*rivals.RIVALS, rivals.WRONG}
    assert (exposed["skill"] > 0.5).all()
    assert (exposed["skill_low"] > 0).all()
    assert set(exposed["settings"]) == {8, 10}


def test_a_latency_that_is_ten_times_too_large_loses(file, scores):
    predicted = frozen.read(file)
    swapped = predicted.predictions.replace({"predictor": {rivals.OWN: rivals.WRONG, rivals.WRONG: rivals.OWN}})
    wrong = scoring.score(frozen.Frozen(**(vars(predicted) | {"predictions": swapped})), held_out_records(predicted))
    lost = wrong.skill[(wrong.skill["quantity"] == "exposed_s") & (wrong.skill["rival"] == rivals.WRONG)]
    assert (lost["skill"] < -0.5).all()
    assert not wrong.links["within"].all()
    assert scores.links["within"].all()


def test_bands_hold_what_new_launches_do(scores):
    steps = scores.coverage[scores.coverage["quantity"] == "step_time_s"]
    assert (steps["coverage"] >= 0.85).all()
    assert steps.set_index("source")["launches"].to_dict() == {"measured": 24, "emulated": 30}
    assert (steps["level"] == steps["source"].map({"measured": 0.8, "emulated": 0.9})).all()


def test_sources_and_links_are_named_in_all_that_is_shown(scores):
    text = "\n".join(scoring.sentences(scores))
    for word in ("measured, exposed", "emulated, exposed", "link 50mbit:0ms", "within 15%", "all-reduces of 4 ranks"):
        assert word in text
    figure = predicted_versus_measured(scores)
    labels = {label for axis in figure.axes for label in axis.get_legend_handles_labels()[1]}
    drawn = {"measured", "emulated", "measured, wrong latency", "emulated, wrong latency"}
    assert labels == {*drawn, "predicted for a new launch"}
    assert scores.sha256[:12] in caption(scores)
    assert "50 Mbit/s" in " ".join(scores.settings["label"])


def test_what_two_ranks_teach_of_links_holds_for_four(scores):
    assert set(scores.messages["world_size"]) == {4}
    assert set(scores.messages["link"]) == set(held_out.LINKS)
    assert (scores.messages["error"].abs() < 0.01).all()


def test_factors_multiply_to_the_efficiency_in_what_is_predicted_and_measured(scores):
    for column in ("predicted", "measured"):
        own = scores.settings[scores.settings["predictor"] == rivals.OWN]
        table = own.pivot(index="point_id", columns="quantity", values=column)
        product = table[list(rivals.FACTORS)].prod(axis=1)
        assert np.allclose(product, table["parallel_efficiency"], rtol=1e-6)


def test_predictions_that_were_changed_afterwards_are_refused(file, tmp_path):
    records = held_out_records(frozen.read(file))
    changed = tmp_path / frozen.FILE
    values = json.loads(file.read_text())
    values["predictions"][0]["step_time_s"] *= 1.01
    changed.write_text(json.dumps(values, indent=1) + "\n")
    with pytest.raises(frozen.FrozenError, match="was measured after other predictions, or none"):
        scoring.score(frozen.read(changed), records)


@pytest.mark.parametrize("how", ["without", "before", "other"])
def test_records_that_do_not_follow_the_predictions_are_refused(file, how):
    predicted = frozen.read(file)
    records = held_out_records(predicted, launches=1)
    if how == "without":
        del records[3].provenance[frozen.PROVENANCE]
    elif how == "before":
        records[3].arms["ddp"].rounds[0].started_utc = "2020-01-01T00:00:00.000+00:00"
    else:
        records[3].point_id = "strong_w2_b64-00000000"
    words = {"without": "other predictions, or none", "before": "before the predictions were frozen"}
    with pytest.raises(frozen.FrozenError, match=words.get(how, "nothing was predicted for it")):
        scoring.score(predicted, records)


def test_predictions_are_written_once(file):
    predicted = frozen.read(file)
    with pytest.raises(frozen.FrozenError, match="frozen already"):
        frozen.freeze(file, predicted.points, predicted.predictions, predicted.messages, {})
    assert frozen.read(file).sha256 == predicted.sha256


@pytest.mark.parametrize("content", ["", "{}", '{"frozen_utc": 1, "points": [{}], "predictions": [], "basis": {}}'])
def test_what_is_no_prediction_is_refused(tmp_path, content):
    path = tmp_path / frozen.FILE
    path.write_text(content)
    with pytest.raises(frozen.FrozenError, match="no frozen predictions"):
        frozen.read(path)


def test_without_complete_records_there_is_no_score(file):
    predicted = frozen.read(file)
    [record, *_] = held_out_records(predicted, launches=1)
    record.status = "partial"
    with pytest.raises(ValueError, match="nothing can be scored"):
        scoring.score(predicted, [record])
