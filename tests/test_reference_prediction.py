"""The committed check of predictions: frozen before it was measured, complete; its tables are those of its records."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from kanstudy.analysis import results
from kanstudy.analysis.held_out import frozen, rivals, scoring
from kanstudy.study import held_out

ROOT = Path(__file__).resolve().parents[1]
FOLDER, FIGURES = ROOT / "results" / "reference" / "prediction", ROOT / "figures" / "reference"


@pytest.fixture(scope="module")
def scores() -> scoring.Scores:
    records = results.load(FOLDER).records
    own = [record for record in records if record.experiment in (held_out.EXPERIMENT, held_out.RANKS_EXPERIMENT)]
    return scoring.score(frozen.read(FOLDER / frozen.FILE), own)


def test_every_planned_point_is_measured_to_its_end() -> None:
    table = results.planned_versus_done(FOLDER)
    assert set(table["experiment"]) == {"calibration", "links", "held_out", "held_out_ranks"}
    assert set(table["status"]) == {"ok"}
    assert (table["rounds_done"] == table["rounds_planned"]).all()


def test_nothing_that_is_scored_was_fitted(scores: scoring.Scores) -> None:
    records = results.load(FOLDER).records
    fitted = [record for record in records if record.experiment in ("calibration", "links")]
    scored = [record for record in records if record.experiment == "held_out"]
    assert not {tuple(r.layer_widths) for r in fitted} & {tuple(r.layer_widths) for r in scored}
    assert not {r.link for r in fitted if r.link} & {r.link for r in scored if r.link}
    assert set(scores.settings["source"]) == {"measured", "emulated"}
    assert (scores.settings["launches"] >= 5).all()
    assert set(scores.skill["rival"]) == {*rivals.RIVALS, rivals.WRONG}


@pytest.mark.parametrize("name", ["settings", "skill", "coverage", "links", "messages"])
def test_the_committed_tables_are_those_of_the_records(scores: scoring.Scores, name: str) -> None:
    committed = pd.read_csv(FIGURES / f"prediction_check_{name}.csv", keep_default_na=False, na_values=[""])
    found = getattr(scores, name)
    assert list(committed) == list(found)
    for column in found.select_dtypes("number"):
        pd.testing.assert_series_equal(
            committed[column].astype(float), found[column].astype(float), check_index=False, rtol=2e-5
        )


def test_it_is_small() -> None:
    assert 0 < sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 2_000_000
