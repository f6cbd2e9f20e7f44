"""`kanstudy report --compare`: what it writes, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from click.testing import CliRunner

from kanstudy import cli
from kanstudy.record_files import read_record, write_record

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference" / "laptop"


def kanstudy(*arguments: str):
    return CliRunner().invoke(cli.main, ["report", *arguments])


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The strong scaling of the reference on a machine that is not there: every step takes twice as long, but one point
    has another batch."""
    folder = tmp_path / "slow one"
    for path in sorted((REFERENCE / "strong_scaling").glob("*.json")):
        record = read_record(path)
        record.source = "simulated"
        if record.model == "mlp":
            record.bucket_cap_mb = 1.0
        for arm in record.arms.values():
            for item in arm.rounds:
                item.rank_step_times_s = [[2 * step for step in steps] for steps in item.rank_step_times_s]
        write_record(record, folder)
    return folder


def test_two_results_become_one_page_with_tables_and_figures(slower: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = kanstudy("--compare", str(REFERENCE), str(slower), "--figures-dir", str(out))
    assert result.exit_code == 0, result.output
    assert "A: laptop (measured) beside B: slow one (simulated)" in result.output
    assert "Points: 4 compared, 20 without a partner" in result.output
    page = (out / "comparison.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="[^"]*">(.+?)</h2>', page)
    assert headings[:3] == ["Conditions that differ", "What cannot be compared", "Strong scaling"]
    assert headings[-1] == "How to read this"
    assert "what one kind of source leaves out is part of every difference" in page
    assert "bucket cap mb 25 here, 1 there" in page
    assert not re.search(r'src="(?!data:)|href="[a-z]+:', page)
    links = re.findall(r'href="([^#"]+)"', page)
    assert all((out / unquote(link)).resolve().is_file() for link in links)
    assert {(out / unquote(link)).resolve().parents[1] for link in links} == {REFERENCE, slower}
    table = pd.read_csv(out / "changes_strong_scaling.csv")
    steps = table[table["quantity"] == "step (ms)"]
    assert steps["change"].to_numpy() == pytest.approx(2.0, rel=1e-6)
    assert set(steps["told"]) == {"B is larger"}
    same = table[table["quantity"] == "parallel efficiency"]
    assert same["change"].to_numpy() == pytest.approx(1.0, rel=1e-6)
    assert set(same["told"]) == {"not told apart"}
    for name in ("strong_scaling.pdf", "changes_strong_scaling.png", "attribution_strong.pdf", "conditions.tex"):
        assert (out / name).stat().st_size > 0


def test_where_nothing_is_the_same_work_it_says_what_to_do(tmp_path: Path) -> None:
    other = REFERENCE.with_name("finisterrae3-simulated")
    result = kanstudy("--compare", str(REFERENCE), str(other), "--figures-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Points: 0 compared" in result.output
    assert "give both one series" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "laptop"], "requires 2 arguments"),
        (["--compare", "absent", "other"], "--compare absent: results_dir"),
        (
            ["--compare", "absent", "other"],
            "must be a folder that exists, or a profile: cluster_template, ",
        ),
        (["--compare", "empty", "empty"], "no records in empty: must be a profile or its results"),
        (["--compare", "odd.toml", "empty"], "odd.toml: cannot be read"),
        (["--compare", "file", "empty"], "--compare file: is a file, must be a folder"),
        (["--compare", "empty", "empty", "--figures-dir", "~no-one/x"], "--figures-dir ~no-one/x: cannot be used"),
        (["--compare", "empty", "empty", "--profile", "laptop"], "--profile does not go with --compare"),
    ],
)
def test_bad_input_is_refused_with_one_message(tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    result = kanstudy(*arguments)
    assert result.exit_code == 2, result.output
    assert message in re.sub(r"\s+", " ", result.output)
    assert result.output.count("Error: ") == 1
