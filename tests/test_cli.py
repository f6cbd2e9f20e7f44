"""The command line: what it starts, what it says, and how it exits. The notebooks here write records at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner

from kanstudy import cli
from kanstudy.study import places
from kanstudy.study.series import NOTEBOOKS

PROFILE = """
[study]
rounds = 1
block_s = 0.01

[[study.strong_scaling]]
dataset = "synthetic:2:1"
n_samples = 64
hidden_widths = [2]
global_batch_size = 8

[[study.weak_scaling]]
dataset = "synthetic:2:1"
n_samples = 64
hidden_widths = [2]
local_batch_size = 8

[machine]
device = "cpu"
world_sizes = [1]
"""
COMMON = """profile: str = "smoke"
launcher: str = "local"
results_dir: str = ""
rounds: int = 0
launches: int = 1
max_minutes: float = 0.0
"""
MEASURE = """
from kanstudy.record import Arm, Round, blank_record
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.study.experiments import plan
from kanstudy.study.profile import load_profile

todo = plan(load_profile(profile), EXPERIMENT, rounds, launches)
for point in todo.points:
    run = RunSpec(profile="mine", experiment=EXPERIMENT, points=(point,), data_files={data_key(point): "x"},
                  results_dir=results_dir, progress_file="x", rounds={point.point_id: todo.rounds[point.point_id]})
    record = blank_record(point, run, STATUS)
    block = [Round(launch=n, attempt=1, index=i, order=0, active_ranks=[0], rank_step_times_s=[[0.1]],
                   rank_block_times_s=[0.1],
                   reference_kernel_s=[0.1], foreign_cpu_share=[None], minor_faults=[None], started_utc="")
             for n in range(launches) for i in range(todo.rounds[point.point_id])]
    record.arms = {arm: Arm(rounds=block) for arm in point.arms}
    write_record(record, results_dir)
print("measured", EXPERIMENT, rounds, launches, max_minutes, flush=True)
"""


@pytest.fixture
def project(tmp_path, monkeypatch, make_notebook):
    """A folder like a checkout: a profile of two experiments, and notebooks that write the records of their plan."""
    folder = tmp_path / "notebooks"
    make_notebook("00_kan_model", "steps: int = 1", "print('explained')", folder=folder)
    for experiment, name in NOTEBOOKS.items():
        make_notebook(name, COMMON, f"EXPERIMENT, STATUS = {experiment!r}, 'ok'", MEASURE, folder=folder)
    final = "profile: str = ''\nresults_dir: str = ''\nfigures_dir: str = ''"
    make_notebook("90_figures_and_tables", final, "print('final', profile, figures_dir)", folder=folder)
    (tmp_path / "mine.toml").write_text(PROFILE)
    monkeypatch.setattr(places, "project_root", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kanstudy(*arguments: str):
    return CliRunner().invoke(cli.main, arguments)


def replace_cell(project: Path, make_notebook, name: str, *cells: str) -> None:
    make_notebook(name, COMMON, *cells, folder=project / "notebooks")


def test_run_measures_everything_and_says_where_to_look(project):
    result = kanstudy("run", "--profile", "mine.toml")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:2] == ["Profile mine", "Points: strong_scaling 1, weak_scaling 1; results in results/mine"]
    assert re.fullmatch(r"To measure: 2 of 2 points, about \d+ s", lines[2])
    starts = [line for line in lines if line.startswith("[")]
    assert starts == [
        "[1/4] 00_kan_model",
        "[2/4] 01_strong_scaling",
        "[3/4] 02_weak_scaling",
        "[4/4] 90_figures_and_tables",
    ]
    assert "Points planned: 2 (2 ok)" in lines
    assert lines[-1] == "Look at results/mine/report.html and figures/mine"
    report = (project / "results/mine/report.html").read_text(encoding="utf-8")
    assert f"final {project / 'mine.toml'} {project / 'figures/mine'}" in report
    assert len(list((project / "results/mine/notebooks").iterdir())) == 4


def test_only_runs_one_experiment_and_the_report_with_the_options_given(project):
    options = ["--only", "weak_scaling", "--rounds", "2", "--launches", "3", "--results-dir", "ö out"]
    result = kanstudy("run", "--profile", "mine.toml", *options)
    assert result.exit_code == 0, result.output
    assert "measured weak_scaling 2 3 0.0" in result.output
    assert "strong" not in result.output
    assert "explained" not in result.output
    assert result.output.splitlines()[-1] == "Look at ö out/report.html and ö out/figures"
    assert not (project / "results").exists()


@pytest.mark.parametrize(("status", "code"), [("oom", 3), ("failed", 1)])
def test_the_exit_code_tells_what_became_of_the_points(project, make_notebook, status, code):
    cell = f"EXPERIMENT, STATUS = 'weak_scaling', {status!r}"
    replace_cell(project, make_notebook, "02_weak_scaling", cell, MEASURE)
    result = kanstudy("run", "--profile", "mine.toml", "--only", "weak_scaling")
    assert result.exit_code == code, result.output
    assert f"  {status}: weak_scaling/weak_w1_b8-" in result.output
    assert f"(exit code {code})" in result.output.splitlines()[-1]


def test_a_run_stopped_by_its_time_is_incomplete(project):
    result = kanstudy("run", "--profile", "mine.toml", "--max-minutes", "0.0001")
    assert result.exit_code == 4, result.output
    assert "01_strong_scaling: not begun" in result.output
    assert "Points planned: 2 (2 missing)" in result.output
    assert (project / "results/mine/report.html").exists()


@pytest.mark.parametrize("cell", ["raise RuntimeError('rank 1 died')", "import sys; sys.exit(0)"])
def test_a_notebook_that_fails_or_leaves_early_is_a_failure(project, make_notebook, cell):
    replace_cell(
        project, make_notebook, "01_strong_scaling", "EXPERIMENT, STATUS = 'strong_scaling', 'ok'", MEASURE, cell
    )
    result = kanstudy("run", "--profile", "mine.toml", "--only", "strong_scaling")
    assert result.exit_code == 1, result.output
    assert "Points planned: 1 (1 ok)" in result.output
    assert "01_strong_scaling.ipynb: cell 4" in result.output
    assert "01_strong_scaling.failed.ipynb" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing option '--profile'"),
        (["run", "--profile", "smok"], "did you mean 'smoke'?"),
        (["run", "--profile", "absent.toml"], "absent.toml: cannot be read"),
        (["run", "--profile", "broken.toml"], "not TOML"),
        (["run", "--profile", "unknown.toml"], "unknown key 'blocks'"),
        (["run", "--profile", "many.toml"], "threads_per_rank are more than"),
        (["run", "--profile", "odd.toml"], "global_batch_size = 9"),
        (["run", "--profile", "mine.toml", "--only", "strong"], "'strong' is not one of"),
        (["run", "--profile", "mine.toml", "--only", "model_size_scaling"], "no series [[study.model_size_scaling]]"),
        (["run", "--profile", "mine.toml", "--rounds", "0"], "0 is not in the range"),
        (["run", "--profile", "mine.toml", "--launches", "x"], "'x' is not a valid integer"),
        (["run", "--profile", "mine.toml", "--max-minutes", "0"], "0.0 is not in the range"),
        (["run", "--profile", "mine.toml", "--max-minutes", "nan"], "nan is not a number of minutes"),
        (["run", "--profile", "mine.toml", "--results-dir", "mine.toml"], "is a file, must be a folder"),
        (["status"], "give --profile or --results-dir"),
        (["report"], "give --profile or --results-dir"),
        (["report", "--profile", "mine.toml"], "no records; measure first"),
        (["measure"], "No such command 'measure'"),
    ],
)
def test_bad_input_is_refused_with_one_message_and_nothing_starts(project, arguments, message):
    (project / "broken.toml").write_text("[study")
    (project / "unknown.toml").write_text(PROFILE.replace("block_s", "blocks"))
    (project / "many.toml").write_text(PROFILE.replace("world_sizes = [1]", "world_sizes = [1, 4096]"))
    odd = PROFILE.replace("world_sizes = [1]", "world_sizes = [1, 2]\nallow_oversubscription = true")
    (project / "odd.toml").write_text(odd.replace("global_batch_size = 8", "global_batch_size = 9"))
    result = kanstudy(*arguments)
    assert result.exit_code == 2, result.output
    assert message in re.sub(r"\s+", " ", result.output)
    assert result.output.count("Error: ") == 1
    assert not (project / "results").exists()


@pytest.mark.parametrize("command", ["run", "status"])
def test_a_folder_that_cannot_be_used_is_refused_before_anything_starts(project, command):
    result = kanstudy(command, "--profile", "mine.toml", "--results-dir", "mine.toml/below")
    assert result.exit_code == (2 if command == "run" else 0), result.output
    assert ("cannot be written" if command == "run" else "nothing measured yet") in result.output
    (project / "loop").symlink_to("loop")
    for folder in ("~nobody-at-all/x", "loop"):
        result = kanstudy(command, "--profile", "mine.toml", "--results-dir", folder)
        assert result.exit_code == 2, result.output
        assert f"Error: --results-dir {folder}: cannot be used: " in result.output


def test_a_second_run_in_the_same_folder_is_refused_and_touches_nothing(project):
    from kanstudy.study import folder

    with folder.opened(project / "results" / "mine"):
        result = kanstudy("run", "--profile", "mine.toml")
    assert result.exit_code == 2, result.output
    assert "is running a study in it" in re.sub(r"\s+", " ", result.output)
    assert not (project / "results/mine/report.html").exists()


def test_a_notebook_that_lost_a_parameter_cell_is_refused_before_anything_starts(project, make_notebook):
    make_notebook("02_weak_scaling", None, "print(1)", folder=project / "notebooks")
    result = kanstudy("run", "--profile", "mine.toml")
    assert result.exit_code == 2
    assert "0 cells are tagged `parameters`" in result.output
    assert not (project / "results").exists()


def test_status_and_report_of_what_is_there(project):
    assert "nothing measured yet" in kanstudy("status", "--results-dir", "absent").output
    kanstudy("run", "--profile", "mine.toml", "--only", "strong_scaling")
    status = kanstudy("status", "--profile", "mine.toml")
    assert status.exit_code == 0, status.output
    assert re.search(r"strong_scaling +strong_w1_b8-\w+", status.output)
    assert "Points planned: 2 (1 missing, 1 ok)" in status.output
    assert "  missing: weak_scaling/weak_w1_b8-" in status.output
    assert "strong_w1_b8-" in kanstudy("status", "--results-dir", "results/mine").output

    (project / "results/mine/report.html").unlink()
    report = kanstudy("report", "--results-dir", "results/mine", "--figures-dir", "pictures")
    assert report.exit_code == 0, report.output
    assert "measured" not in report.output
    assert report.output.splitlines()[-1] == "Look at results/mine/report.html and pictures"
    assert (project / "results/mine/report.html").exists()


def commands(group: click.Group, *before: str) -> list[tuple[str, ...]]:
    """Every command that does something, as a user writes it."""
    found = []
    for name, command in group.commands.items():
        found += commands(command, *before, name) if isinstance(command, click.Group) else [(*before, name)]
    return found


@pytest.mark.parametrize("command", commands(cli.main), ids=" ".join)
def test_help_teaches_with_an_example_and_the_exit_codes(command):
    result = kanstudy(*command, "--help")
    assert result.exit_code == 0
    assert f"\n    kanstudy {' '.join(command)} " in result.output
    assert "Exit codes:" in result.output


@pytest.mark.parametrize("group", [(), ("bench",)])
def test_the_list_of_commands_is_whole_sentences(group):
    listed = kanstudy(*group, "--help").output.partition("Commands:\n")[2].splitlines()
    assert len(listed) > 3
    assert [line for line in listed if not re.fullmatch(r"  \w+ +\S.*[.?](?<!\.\.\.)", line)] == []


def test_help_begins_with_what_to_do_first():
    assert "kanstudy run --profile smoke" in kanstudy("--help").output


REFERENCE = Path(__file__).resolve().parent.parent / "results" / "reference" / "laptop"


@pytest.mark.parametrize(("error", "said"), [(KeyboardInterrupt, "Interrupted."), (SystemExit(143), "Terminated.")])
def test_what_measures_nothing_keeps_no_rounds_either(monkeypatch, error, said):
    def ended(*_: object) -> None:
        raise error

    monkeypatch.setattr("kanstudy.analysis.results.planned_versus_done", ended)
    result = kanstudy("status", "--results-dir", str(REFERENCE))
    assert result.exit_code == (130 if error is KeyboardInterrupt else 143)
    assert result.output.splitlines()[-1] == said


def to_output(output: int, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that writes to that file, ended."""
    code = "from kanstudy.cli import main; main(prog_name='kanstudy')"
    root = str(Path(cli.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=output, stderr=subprocess.PIPE, timeout=120,
        encoding=environment.get("PYTHONIOENCODING", "utf-8"),
        check=False, env=os.environ | {"PYTHONPATH": root} | environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [["status", "--results-dir", str(REFERENCE)], ["submit", "--profile", "finisterrae3", "--dry-run"]]
)
def test_who_does_not_read_on_is_told_nothing(arguments):
    """As `| head -1`: no traceback, and no message of a file that failed."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = to_output(writes, *arguments)
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_said_in_one_line():
    with open("/dev/full", "wb") as full:
        done = to_output(full.fileno(), "status", "--results-dir", str(REFERENCE))
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


def test_letters_that_a_terminal_does_not_have_are_written_in_others(tmp_path):
    (tmp_path / "é文").mkdir()
    done = to_output(subprocess.PIPE, "status", "--results-dir", str(tmp_path / "é文"), PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/é\\u6587: nothing measured yet\n"


@pytest.mark.faults
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_process_behind(project, make_notebook, sent, code):
    child = """import subprocess, sys
print('begun', flush=True)
subprocess.run([sys.executable, '-c', 'import time; time.sleep(300)'], stderr=subprocess.DEVNULL)
"""
    replace_cell(project, make_notebook, "01_strong_scaling", child)
    code_to_run = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background has it ignored
from pathlib import Path
from kanstudy.study import places
places.project_root = lambda: Path({str(project)!r})
from kanstudy.cli import main
main(prog_name="kanstudy")
"""
    command = [sys.executable, "-c", code_to_run, "run", "--profile", "mine.toml", "--only", "strong_scaling"]
    root = str(Path(cli.__file__).parent.parent)
    process = subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": root},
    )  # fmt: skip
    said = ""
    while "begun" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    end = time.monotonic() + 60
    while len(started := psutil.Process(process.pid).children(recursive=True)) < 2:  # the kernel, and its cell's child
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
    process.send_signal(sent)
    said += process.communicate(timeout=120)[0]
    assert process.returncode == code, said
    assert "Traceback" not in said
    how = {130: "Interrupted", 143: "Terminated"}[code]
    assert said.splitlines()[-1] == f"{how}. Complete rounds are kept; the same command goes on from there."
    assert psutil.wait_procs(started, timeout=60)[1] == []
