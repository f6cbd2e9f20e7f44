from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.layouts import Column
from kanstudy.analysis.tables.save import save_table
from kanstudy.analysis.tables.view import shown, view

COLUMNS = {
    "name": Column("name"),
    "time_s": Column("time (ms)", 1e3, 1),
    "share": Column("share (%)", 100, 0),
    "blank": Column("blank", 1, 2),
    "flag": Column("flag"),
}
FRAME = pd.DataFrame(
    {
        "name": ["a_b", "50 % & more"],
        "time_s": [0.0123, np.nan],
        "time_s_low": [0.0121, np.nan],
        "time_s_high": [0.0125, np.nan],
        "share": [-0.02, 1.3],
        "blank": [np.nan, np.nan],
        "flag": [True, False],
        "hidden": [1, 2],
    }
)


def test_intervals_stand_in_brackets_and_blanks_stay_blank() -> None:
    table = shown(FRAME, COLUMNS)
    assert list(table.columns) == ["name", "time (ms)", "share (%)", "flag"], "an empty column is left out"
    assert table["time (ms)"].tolist() == ["12.3 [12.1, 12.5]", ""]
    assert table["share (%)"].tolist() == ["-2", "130"], "nothing is clipped"
    assert table["flag"].tolist() == ["yes", "no"]


def test_a_table_of_nothing_has_no_rows(tmp_path: Path) -> None:
    assert len(shown(pd.DataFrame(), COLUMNS)) == 0
    save_table(pd.DataFrame(), COLUMNS, tmp_path, "nothing", "A caption")
    assert (tmp_path / "nothing.md").read_text() == "A caption\n\n(nothing measured)\n"


def test_three_files_hold_the_same_table(tmp_path: Path) -> None:
    save_table(FRAME, COLUMNS, tmp_path, "times", "Measured, 2 rounds: 50 % & more")
    again = pd.read_csv(tmp_path / "times.csv")
    pd.testing.assert_frame_equal(again, FRAME)
    markdown = (tmp_path / "times.md").read_text().splitlines()
    assert markdown[0] == "Measured, 2 rounds: 50 % & more"
    assert [cell.strip() for cell in markdown[4].split("|")[1:-1]] == ["a_b", "12.3 [12.1, 12.5]", "-2", "yes"]
    latex = (tmp_path / "times.tex").read_text()
    for part in (
        r"\toprule",
        r"\caption{Measured, 2 rounds: 50 \% \& more}",
        r"a\_b & 12.3 [12.1, 12.5] & -2 & yes \\",
    ):
        assert part in latex
    assert latex.count(r"\\") == 3


def test_notes_that_rows_share_stand_once_below() -> None:
    frame = pd.DataFrame({"name": ["a", "b", "c"], "reason": ["few; late", "late", ""]})
    table = view(frame, {"name": Column("name"), "reason": Column("note")})
    assert table.cells["note"].tolist() == ["1 2", "2", ""]
    assert table.notes == ("few", "late")
    assert table.to_markdown().endswith("1: few\n\n2: late")
    assert "1: few<br>2: late" in table._repr_html_()


def test_words_of_the_data_cannot_become_markup() -> None:
    frame = pd.DataFrame({"name": ["<b>"], "reason": ["<script>"]})
    text = view(frame, {"name": Column("name"), "reason": Column("note")})._repr_html_()
    assert "<b>" not in text
    assert "<script>" not in text


def test_every_row_of_every_table_leads_back_to_its_points() -> None:
    every = {name: table for name, table in vars(layouts).items() if isinstance(table, dict) and name.isupper()}
    shown_rows = {name: table for name, table in every.items() if name not in ("TEXT", "SCALE", "_RATIO", "_QUALITY")}
    assert {"STRONG", "ATTRIBUTION", "BESIDE", "IDENTITY", "COMPARISON", "GUIDELINES"} <= set(shown_rows)
    for name, table in shown_rows.items():
        assert {"point_id", "point_ids", "path"} & set(table), name


def test_in_a_notebook_an_interval_is_not_torn_from_its_number() -> None:
    page = view(FRAME, COLUMNS).to_html()
    assert "12.3\N{NO-BREAK SPACE}[12.1,\N{NO-BREAK SPACE}12.5]" in page
    assert "50 % &amp; more" in page
