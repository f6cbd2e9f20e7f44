"""`kanstudy report --bundle` and `--from`: there and back."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kanstudy import cli
from kanstudy.study import places

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference" / "laptop"
PARAMETERS = "profile: str = ''\nresults_dir: str = ''\nfigures_dir: str = ''"
FINAL = """from pathlib import Path
out = Path(figures_dir)
out.mkdir(parents=True)
text = "point\\n" + "".join(f"{path.stem}\\n" for path in sorted(Path(results_dir).glob("*_scaling/*.json")))
(out / "points.csv").write_text(text)"""


def report(*arguments: object):
    return CliRunner().invoke(cli.main, ["report", *map(str, arguments)])


@pytest.fixture
def quick(tmp_path, monkeypatch, make_notebook) -> Path:
    """The current folder, in which the final notebook writes one small table."""
    make_notebook("90_figures_and_tables", PARAMETERS, FINAL, folder=tmp_path / "notebooks")
    monkeypatch.setattr(places, "project_root", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_that_is_shown_can_be_copied(quick: Path) -> None:
    packed = report("--results-dir", REFERENCE, "--bundle", "my paper.zip")
    shown = packed.output.splitlines()[-1].partition("kanstudy report ")[2]
    back = report(*shlex.split(shown))
    assert back.exit_code == 0, back.output


def test_there_and_back_the_table_is_the_same(quick: Path) -> None:
    before = sorted(REFERENCE.rglob("*"))
    packed = report("--results-dir", REFERENCE, "--bundle", "paper.zip")
    assert packed.exit_code == 0, packed.output
    assert re.search(r"^SHA-256 [0-9a-f]{64}$", packed.output, re.MULTILINE)
    assert sorted(REFERENCE.rglob("*")) == before
    back = report("--from", "paper.zip")
    assert back.exit_code == 0, back.output
    assert "every checksum holds" in back.output
    assert "Tables: 1 of 1 as in the bundle" in back.output
    assert back.output.splitlines()[-1] == "Look at paper/report.html and paper/figures"
    for path in REFERENCE.rglob("*.json"):
        assert (quick / "paper" / path.relative_to(REFERENCE)).read_bytes() == path.read_bytes()
    again = report("--from", "paper.zip")
    assert again.exit_code == 2
    assert "is there already" in again.output


def test_without_notebooks_nothing_is_written(quick: Path) -> None:
    """Where kanstudy is installed without a checkout."""
    report("--results-dir", REFERENCE, "--bundle", "paper.zip")
    shutil.rmtree(quick / "notebooks")
    before = sorted(quick.rglob("*"))
    for words in (["--from", "paper.zip"], ["--results-dir", REFERENCE, "--bundle", "again.zip"]):
        result = report(*words)
        assert result.exit_code == 2, result.output
        assert "no such folder: kanstudy runs the notebooks of a checkout" in result.output
    assert sorted(quick.rglob("*")) == before


def test_a_table_that_comes_out_otherwise_is_told(quick: Path, make_notebook) -> None:
    report("--results-dir", REFERENCE, "--bundle", "paper.tar.gz")
    other = FINAL.replace('"point\\n"', '"another\\n"')
    make_notebook("90_figures_and_tables", PARAMETERS, other, folder=quick / "notebooks")
    back = report("--from", "paper.tar.gz", "--results-dir", "again")
    assert back.exit_code == 1, back.output
    assert "points.csv: not the same" in back.output
    assert "Tables: 0 of 1 as in the bundle" in back.output


@pytest.mark.slow
def test_the_reference_result_comes_back_with_all_its_tables(tmp_path: Path) -> None:
    packed = report("--results-dir", REFERENCE, "--bundle", tmp_path / "paper.zip")
    assert packed.exit_code == 0, packed.output
    back = report("--from", tmp_path / "paper.zip", "--results-dir", tmp_path / "again")
    assert back.exit_code == 0, back.output
    found = re.search(r"Tables: (\d+) of (\d+) as in the bundle", back.output)
    assert found is not None
    assert found[1] == found[2]
    assert int(found[1]) >= 20
    assert len(list((tmp_path / "again" / "figures").glob("*.pdf"))) >= 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--results-dir", REFERENCE, "--bundle", "paper.rar"], "paper.rar: must end in .zip"),
        (["--bundle", "paper.zip"], "give --profile or --results-dir"),
        (["--results-dir", "empty", "--bundle", "paper.zip"], "empty: no records"),
        (["--results-dir", REFERENCE, "--bundle", "~nobody-at-all/x.zip"], "--bundle ~nobody-at-all/x.zip: cannot be"),
        (["--results-dir", REFERENCE, "--bundle", "empty.zip"], "--bundle empty.zip: is a folder"),
        (["--from", "absent.zip"], "absent.zip: cannot be read"),
        (["--from", "~nobody-at-all/x.zip"], "--from ~nobody-at-all/x.zip: cannot be used"),
        (["--from", "empty.zip"], "empty.zip: is no plain file"),
        (["--from", "text.zip"], "text.zip: not an archive that can be read"),
        (["--from", "text.zip", "--profile", "smoke"], "--profile does not go with --from"),
        (["--from", "text.zip", "--figures-dir", "x"], "--figures-dir does not go with --from"),
        (["--from", "text.zip", "--results-dir", "full"], "full: is there already"),
        (["--from", "text.zip", "--bundle", "paper.zip"], "exclude one another"),
        (["--compare", "a", "b", "--bundle", "paper.zip"], "exclude one another"),
    ],
)
def test_bad_input_is_refused_with_one_message_and_nothing_is_written(quick: Path, arguments, message) -> None:
    (quick / "empty").mkdir()
    (quick / "empty.zip").mkdir()
    (quick / "full").mkdir()
    (quick / "full" / "mine").touch()
    (quick / "text.zip").write_text("no archive")
    before = sorted(quick.rglob("*"))
    result = report(*arguments)
    assert result.exit_code == 2, result.output
    assert message in re.sub(r"\s+", " ", result.output)
    assert result.output.count("Error: ") == 1
    assert sorted(quick.rglob("*")) == before
