"""`kanstudy bench operator`: what it refuses, where it writes, how it exits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench_records import bench_record
from click.testing import CliRunner

from kanstudy import cli
from kanstudy.bench_record import BenchRecord, Memory, Timing, read_bench, write_bench
from kanstudy.commands import bench as command
from kanstudy.study import bench, places
from kanstudy.study.bench_plan import BenchPlan


def kanstudy(*arguments: str):
    return CliRunner().invoke(cli.main, ["bench", "operator", *arguments])


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder like a checkout, in which nothing is measured but written at once."""
    record = bench_record()
    asked: list[BenchPlan] = []

    def run(plan: BenchPlan, results: Path, say) -> BenchRecord:
        asked.append(plan)
        write_bench(record, results)
        return record

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(places, "project_root", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("class KAN:\n    pass\n")
    return record, asked


def test_record_table_and_figure_go_where_the_profiles_go(project, tmp_path):
    record, asked = project
    result = kanstudy("--profile", "laptop", "--no-peers", "--add", "own=own.py:KAN", "--rounds", "7")
    assert result.exit_code == 0, result.output
    assert (asked[0].rounds, asked[0].threads, asked[0].profile) == (7, 1, "laptop")
    assert asked[0].candidates[-1] == "own"
    assert asked[0].added == {"own": f"{tmp_path / 'own.py'}:KAN"}
    assert len(read_bench(tmp_path / "results/laptop").cells) == len(record.cells)
    made = {path.suffix for path in (tmp_path / "figures/laptop").glob("operator_speed.*")}
    assert made == {".csv", ".md", ".tex", ".pdf", ".png", ".txt"}
    assert "| fused" in result.output
    assert result.output.splitlines()[-1] == f"Look at {tmp_path / 'figures/laptop'}"


def test_a_results_folder_takes_the_figures_too(project, tmp_path):
    result = kanstudy("--results-dir", "ö out", "--shapes", "4,3,1:8", "--operators", "floor, fused")
    assert result.exit_code == 0, result.output
    assert project[1][0].shapes == ("4,3,1:8",)
    assert project[1][0].candidates == ("floor", "fused")
    assert (tmp_path / "ö out/bench/operator.json").exists()
    assert (tmp_path / "ö out/figures/operator_speed.png").exists()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["absent", "slow"], 0), (["oom"], 3), (["oom", "failed"], 1), (["timeout"], 1), (["not measured"], 1)],
)
def test_the_exit_code_tells_what_became_of_the_candidates(project, statuses, code):
    record = project[0]
    for cell, status in zip(record.cells, statuses, strict=False):
        cell.memory, cell.timing = Memory(status=status, reason="why"), Timing(status=status, reason="why")
    result = kanstudy("--profile", "laptop")
    assert result.exit_code == code == command.exit_code(record), result.output
    assert ("exit code" in result.output.splitlines()[-1]) == (code != 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --profile or --results-dir"),
        (["--profile", "laptp"], "did you mean 'laptop'?"),
        (["--results-dir", "own.py"], "is a file, must be a folder"),
        (["--profile", "laptop", "--shapes", "64:8"], "shape '64:8': must be at least three layer widths"),
        (["--profile", "laptop", "--operators", "fusd"], "operator 'fusd': must be one of"),
        (["--profile", "laptop", "--operators", ","], "--operators ,: must be names, separated by commas"),
        (["--profile", "laptop", "--threads", "4096"], "threads = 4096: must be from 1"),
        (["--profile", "laptop", "--rounds", "0"], "0 is not in the range"),
        (["--profile", "laptop", "--add", "own"], "--add own: must be NAME=FILE.py:CLASS"),
        (["--profile", "laptop", "--add", "fused=own.py:KAN"], "the name fused is taken"),
        (["--profile", "laptop", "--add", "own=none.py:KAN"], "cannot be read as Python"),
        (["--profile", "laptop", "--add", "own=bad.py:KAN"], "cannot be read as Python"),
        (["--profile", "laptop", "--add", "own=~nobody-at-all/x.py:KAN"], "--add ~nobody-at-all/x.py: cannot be used"),
        (["--profile", "laptop", "--add", "own=own.py:Other"], "own.py defines no Other"),
    ],
)
def test_bad_input_is_refused_with_one_message_and_nothing_starts(project, tmp_path, arguments, message):
    (tmp_path / "bad.py").write_text("class KAN(")
    result = kanstudy(*arguments)
    assert result.exit_code == 2, result.output
    assert message in re.sub(r"\s+", " ", result.output)
    assert result.output.count("Error: ") == 1
    assert not project[1]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("error", "code", "how"), [(KeyboardInterrupt(), 130, "Interrupted."), (SystemExit(143), 143, "Terminated.")]
)
def test_a_benchmark_that_is_ended_says_what_is_kept(project, monkeypatch, error, code, how):
    def end(*_: object) -> BenchRecord:
        raise error

    monkeypatch.setattr(bench, "run", end)
    result = kanstudy("--profile", "laptop")
    assert result.exit_code == code
    kept = "What was measured is kept in the record; the same command begins anew."
    assert result.output.splitlines()[-1] == f"{how} {kept}"


def test_help_teaches_with_an_example():
    assert "\n    kanstudy bench operator --profile laptop" in kanstudy("--help").output


@pytest.mark.parametrize("file", ["bench", "logs"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, file):
    (tmp_path / file).touch()
    result = kanstudy("--results-dir", str(tmp_path), "--shapes", "4,3,1:8", "--operators", "floor")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    assert str(tmp_path / file) in result.output
