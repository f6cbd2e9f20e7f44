from __future__ import annotations

import json
from pathlib import Path

import pytest
from calibrated import exact, records

from kanstudy.analysis.calibration import calibration_file
from kanstudy.analysis.calibration.calibration import CalibrationError
from kanstudy.record_files import write_record


def test_a_calibration_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    calibration_file.save(exact(), path)
    assert calibration_file.load(path) == exact()


def test_a_folder_of_results_is_fitted(tmp_path: Path) -> None:
    for record in records():
        write_record(record, tmp_path)
    found = calibration_file.load(tmp_path)
    assert found.constants.launch_s == pytest.approx(exact().constants.launch_s, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.pop("domain"), "field 'domain' is missing"),
        (lambda v: v.pop("points"), "not written by this version; calibrate again: kanstudy run --only calibration"),
        (lambda v: v.update(colour="red"), "field 'colour' is unknown"),
        (lambda v: v["constants"].update(launch_s="fast"), "calibration.constants.launch_s = 'fast': must be float"),
        (lambda v: v["constants"].update(launch_s=float("nan")), "calibration.constants.launch_s = nan: must be a"),
        (lambda v: v["constants"].update(launch_s=-1.0), "launch_s = -1.0: must be a finite number >= 0"),
        (lambda v: v["constants"].update(launch_s=10**400), "launch_s = 1000"),
        (lambda v: v["draws"][0].update(backward_share=2.0), "backward_share = 2.0: must be a number between 0 and 1"),
        (lambda v: v["ranks"].update(slowness=[]), "rank_slowness = (): must be at least one number > 0"),
        (lambda v: v.update(node_ranks=0), "ranks_per_node = 0: must be a whole number >= 1"),
        (lambda v: v.update(draws=[]), "calibration.draws is empty"),
        (lambda v: v["domain"].update(rows=[1]), "calibration.domain.rows: must be a list of 2"),
        (lambda v: v.update(draws={}), "calibration.draws: must be a list"),
        (lambda v: v.update(node_ranks=1.5), "calibration.node_ranks = 1.5: must be int"),
        (lambda v: v.update(schema_version=99), "schema_version 99: this version of kanstudy reads 2"),
        (lambda v: v.update(kind="record"), "this is no calibration"),
    ],
)
def test_a_file_that_is_not_one_is_refused_by_field(tmp_path: Path, change, words: str) -> None:
    path = tmp_path / "machine.json"
    calibration_file.save(exact(), path)
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(CalibrationError) as raised:
        calibration_file.load(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert words in str(raised.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(CalibrationError, match="not JSON"):
        calibration_file.load(tmp_path / "a.json")
    with pytest.raises(CalibrationError, match="no records of the experiment calibration"):
        calibration_file.load(tmp_path)
    with pytest.raises(OSError, match="missing"):
        calibration_file.load(tmp_path / "missing.json")
