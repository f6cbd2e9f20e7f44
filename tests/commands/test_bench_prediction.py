"""`kanstudy bench prediction`, on a machine that is known: the order of what it does, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from known_machine import measured

from kanstudy.cli import main
from kanstudy.record_files import read_record, record_path, write_record
from kanstudy.study import launch
from kanstudy.study.emulation import ranks
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.strict import ProfileError

SMALL = ("--setting", "40,40:96:25", "--setting", "96,96:256:0.1", "--link", "50mbit:1ms", "--launches", "2")


def run(out: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "prediction", "--profile", "laptop", "--out", str(out), *arguments])


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The experiments that were asked for, each 'measured' at once where it is not there already."""
    asked: list[str] = []

    def measure(plan: ExperimentPlan, results: Path) -> None:
        asked.append(plan.experiment)
        for record in measured(plan.points, 2, plan.launches):
            if record_path(results, plan.experiment, record.point_id).exists():
                continue
            record.provenance |= plan.provenance
            for arm in record.arms.values():
                for item in arm.rounds:
                    item.started_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
            write_record(record, results)

    monkeypatch.setattr(launch, "run", measure)
    monkeypatch.setattr(ranks, "check", lambda: None)
    return asked


def test_it_calibrates_freezes_measures_and_scores_and_then_has_nothing_left_to_do(plans, tmp_path):
    done = run(tmp_path, *SMALL)
    assert done.exit_code == 0, done.output
    assert plans == ["calibration", "links", "held_out", "held_out_ranks"]
    assert "link 50mbit:1ms: step off by at most" in done.output
    frozen = (tmp_path / "predictions.json").read_bytes()
    values = json.loads(frozen)
    assert len(values["points"]) == 5
    for path in (tmp_path / "held_out").glob("*.json"):
        assert f"SHA-256 {read_record(path).provenance['prediction']['sha256']}" in done.output
    for name in ("prediction_check.pdf", "prediction_check.txt", "prediction_check_skill.csv"):
        assert (tmp_path / "figures" / name).stat().st_size > 0
    again = run(tmp_path, *SMALL)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "predictions.json").read_bytes() == frozen


def test_other_settings_need_another_folder(plans, tmp_path):
    assert run(tmp_path, *SMALL, "--no-links").exit_code == 0
    assert plans == ["calibration", "held_out"]
    done = run(tmp_path, "--setting", "48,48:96:25", "--no-links")
    assert done.exit_code == 1
    assert "predicts other settings than those asked for: choose another --out" in done.output
    assert plans[2:] == ["calibration"]


def test_predictions_that_were_changed_are_not_scored(plans, tmp_path):
    run(tmp_path, *SMALL, "--no-links")
    path = tmp_path / "predictions.json"
    path.write_text(path.read_text().replace('"predictor": "kanstudy"', '"predictor":  "kanstudy"', 1))
    done = run(tmp_path, *SMALL, "--no-links")
    assert done.exit_code == 1
    assert "was measured after other predictions, or none" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--setting", "64,64:96:25"), "held-out widths 64,64: are calibrated"),
        (("--link", "9mbit"), "link '9mbit': must be RATEmbit:LATENCYms"),
        (("--profile", "nowhere"), "profile 'nowhere': must be one of"),
        (("--out", "~nobody-at-all/x"), "--out ~nobody-at-all/x: cannot be used"),
        (("--profile", "finisterrae3"), "ranks run in a job"),
    ],
)
def test_bad_input_starts_nothing(plans, tmp_path, arguments, message):
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output.replace("\n", " ")
    assert plans == []


def test_where_links_cannot_be_emulated_nothing_starts(plans, tmp_path, monkeypatch):
    def refuse() -> None:
        raise ProfileError("a link cannot be emulated here: no C compiler")

    monkeypatch.setattr(ranks, "check", refuse)
    done = run(tmp_path, *SMALL)
    assert (done.exit_code, plans) == (2, [])
    assert "no C compiler" in done.output
    assert run(tmp_path, *SMALL, "--no-links").exit_code == 0


def test_a_setting_beyond_the_calibration_is_refused_with_what_to_measure(plans, tmp_path):
    done = run(tmp_path, "--setting", "40,40:96:25", "--setting", "300,300:96:25", "--no-links")
    assert done.exit_code == 2
    assert "nothing is predicted beyond" in done.output.replace("\n", " ")
    assert plans == []
