"""The committed reference result is a complete study of one machine, and its figures were made from it."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from kanstudy.analysis import estimates, results
from kanstudy.analysis.held_out import frozen, scoring
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.described_machine import machine_of
from kanstudy.study import experiments
from kanstudy.study.profile import load_profile

ROOT = Path(__file__).resolve().parents[1]
FOLDER, FIGURES = ROOT / "results" / "reference" / "laptop", ROOT / "figures" / "reference"
PREDICTION = ROOT / "results" / "reference" / "prediction"
SIMULATED = ROOT / "results" / "reference" / "finisterrae3-simulated"


def test_every_planned_point_is_measured_to_its_end() -> None:
    table = results.planned_versus_done(FOLDER)
    assert set(table["experiment"]) == {
        "strong_scaling",
        "weak_scaling",
        "communication_overhead",
        "model_size_scaling",
        "operator_scaling",
    }
    assert set(table["status"]) == {"ok"}
    assert (table["rounds_done"] == table["rounds_planned"]).all()
    assert results.load(FOLDER).problems.empty


def test_it_is_measured_on_one_machine_under_one_set_of_versions() -> None:
    records = results.load(FOLDER).records
    assert {record.source for record in records} == {"measured"}
    assert not any(record.oversubscribed for record in records)
    assert len({results.surroundings(record) for record in records}) == 1
    assert any(record.dataset == "flights" and record.holdout_loss is not None for record in records)


def test_it_is_small() -> None:
    of_benches = [path for path in (FOLDER / "bench").rglob("*") if path.is_file()]
    of_the_study = [path for path in FOLDER.rglob("*") if path.is_file() and path not in of_benches]
    for files in (of_the_study, of_benches):
        assert 0 < sum(path.stat().st_size for path in files) < 2_000_000


def test_the_simulated_reference_is_what_the_profile_gives_and_says_that_it_is_simulated() -> None:
    records = results.load(SIMULATED).records
    assert {record.source for record in records} == {"simulated"}
    assert set(results.planned_versus_done(SIMULATED)["status"]) == {"ok"}
    assert sum(path.stat().st_size for path in SIMULATED.rglob("*") if path.is_file()) < 1_000_000
    profile = load_profile("finisterrae3")
    points = {point.point_id: point for point in experiments.plan(profile, "strong_scaling", 6, launcher="none").points}
    strong = estimates.strong(records).set_index("point_id")
    assert set(strong.index) == set(points)
    for point_id, point in points.items():
        truth = expected(point, machine_of(profile, point)).efficiency
        assert strong.loc[point_id, "efficiency"] == pytest.approx(truth, rel=0.025), "steps wait for the slowest rank"


@pytest.mark.parametrize("name", ["strong_scaling", "weak_scaling", "communication_overhead", "model_size"])
def test_the_committed_tables_are_those_of_the_records(name: str) -> None:
    experiment = "model_size_scaling" if name == "model_size" else name
    frame = {
        "strong_scaling": estimates.strong,
        "weak_scaling": estimates.weak,
        "communication_overhead": estimates.overhead,
        "model_size": estimates.model_size,
    }[name](results.load(FOLDER, experiment).records)
    committed = pd.read_csv(FIGURES / f"{name}.csv")
    numbers = [column for column in committed if frame[column].dtype.kind == "f"]
    assert list(committed["point_id"]) == list(frame["point_id"])
    for column in numbers:
        pd.testing.assert_series_equal(
            committed[column], frame[column].astype(float).reset_index(drop=True), check_names=False, rtol=1e-9
        )


def test_the_figures_are_there() -> None:
    for name in (
        "overview",
        "beside_published",
        "strong_scaling",
        "attribution_strong",
        "weak_scaling",
        "communication_overhead",
    ):
        for ending in ("pdf", "png", "txt"):
            assert (FIGURES / f"{name}.{ending}").stat().st_size > 0


def test_the_numbers_of_the_readme_and_of_docs_are_those_of_the_tables() -> None:
    held_out = [record for record in results.load(PREDICTION).records if record.experiment.startswith("held_out")]
    checked = scoring.score(frozen.read(PREDICTION / frozen.FILE), held_out)
    tables = "\n".join(path.read_text(encoding="utf-8") for path in sorted(FIGURES.glob("*.md")))
    tables += "\n".join(scoring.sentences(checked))
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *ROOT.glob("notebooks/*.md"))]
    numbers = re.findall(r"-?\d+\.\d+ \[-?\d+\.\d+, -?\d+\.\d+\]", " ".join(" ".join(pages).split()))
    assert len(numbers) >= 15
    assert [number for number in numbers if number not in tables] == []
