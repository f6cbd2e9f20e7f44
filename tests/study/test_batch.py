"""All notebooks in order: each gets what it declares, a failure is told and does not stop the rest."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from kanstudy.record import Arm, Fault, Round, blank_record
from kanstudy.record_files import record_path, write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import PointSpec
from kanstudy.study.batch import Batch, exit_code, point_states, summary
from kanstudy.study.notebooks import NotebookError
from kanstudy.study.series import Machine


@dataclass
class Plan:
    """What `point_states` reads of an experiment's plan."""

    points: tuple[PointSpec, ...]
    rounds: dict[str, int]
    launches: int = 1
    target_width: dict[str, float] = field(default_factory=dict)
    experiment: str = "strong_scaling"
    profile: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(machine=Machine()))


POINTS = tuple(
    PointSpec(
        experiment="strong_scaling", scaling="strong", world_size=size, global_batch_size=8, dataset="synthetic:2:1",
        n_samples=8, layer_widths=(2, 1), arms=("serial_global",),
    )
    for size in (1, 2, 4, 8)
)  # fmt: skip


def write(point: PointSpec, results: Path, status: str, rounds: int = 2) -> None:
    run = RunSpec(
        profile="p", experiment=point.experiment, points=(point,), data_files={data_key(point): "x"},
        results_dir=str(results), progress_file="x", rounds={point.point_id: 2},
    )  # fmt: skip
    record = blank_record(point, run, status)
    blocks = [
        Round(
            launch=0, attempt=1, index=index, order=0, active_ranks=[0], rank_step_times_s=[[0.1]],
            rank_block_times_s=[0.1], reference_kernel_s=[0.1], foreign_cpu_share=[None], minor_faults=[None],
            started_utc="",
        )
        for index in range(rounds)
    ]  # fmt: skip
    record.arms = {"serial_global": Arm(rounds=blocks)}
    record.error = Fault(reason="x") if status not in ("ok", "partial") else None
    write_record(record, results)


def test_every_planned_point_has_a_state(tmp_path):
    plan = Plan(POINTS, {point.point_id: 2 for point in POINTS})
    write(POINTS[0], tmp_path, "ok")
    write(POINTS[1], tmp_path, "ok", rounds=1)
    path = record_path(tmp_path, "strong_scaling", POINTS[2].point_id)
    path.write_text("{")
    states = point_states({"strong_scaling": plan}, tmp_path)
    assert list(states.values()) == ["ok", "partial", "unreadable", "missing"]
    lines = summary(states).splitlines()
    assert lines[0] == "Points planned: 4 (1 missing, 1 ok, 1 partial, 1 unreadable)"
    assert lines[1:] == [f"  {state}: strong_scaling/{point.point_id}" for point, state in
                         zip(POINTS[1:], ["partial", "unreadable", "missing"], strict=True)]  # fmt: skip


def test_an_experiment_that_is_in_one_state_as_a_whole_is_one_line():
    states = {"strong_scaling/a": "missing", "strong_scaling/b": "missing", "weak_scaling/c": "missing"}
    assert summary(states | {"weak_scaling/d": "ok"}).splitlines()[1:] == [
        "  missing: all 2 points of strong_scaling",
        "  missing: weak_scaling/c",
    ]


def test_more_rounds_or_launches_than_recorded_leave_a_point_open(tmp_path):
    write(POINTS[0], tmp_path, "ok")
    for rounds, launches, expected in [(2, 1, "ok"), (1, 1, "ok"), (3, 1, "partial"), (2, 2, "partial")]:
        plan = Plan(POINTS[:1], {POINTS[0].point_id: rounds}, launches)
        assert list(point_states({"strong_scaling": plan}, tmp_path).values()) == [expected]


@pytest.mark.parametrize(
    ("machine", "state"),
    [
        (Machine(device="cpu"), "ok"),
        (Machine(device="auto"), "ok"),
        (Machine(device="cuda"), "missing"),
        (Machine(threads_per_rank=2), "missing"),
    ],
)
def test_a_record_of_other_ranks_is_not_the_points(tmp_path, machine, state):
    write(POINTS[0], tmp_path, "ok")
    plan = Plan(POINTS[:1], {POINTS[0].point_id: 2}, profile=SimpleNamespace(machine=machine))
    assert list(point_states({"strong_scaling": plan}, tmp_path).values()) == [state]


@pytest.mark.parametrize(
    ("states", "failures", "stopped", "code"),
    [
        (["ok", "ok"], [], False, 0),
        (["ok", "ok"], [], True, 0),
        (["ok", "oom"], [], False, 3),
        (["nan", "missing"], [], True, 4),
        (["ok", "partial"], [], True, 4),
        (["ok", "missing"], [], False, 1),
        (["ok", "failed"], [], True, 1),
        (["oom", "timeout"], [], False, 1),
        (["ok", "unreadable"], [], False, 1),
        (["ok"], ["01_strong_scaling"], False, 1),
    ],
)
def test_the_exit_code_says_the_worst(states, failures, stopped, code):
    assert exit_code(dict(enumerate(states)), failures, stopped) == code


@pytest.fixture
def work(make_notebook, tmp_path):
    """A batch of two small experiments and a final notebook in `tmp_path`, its lines kept in `.said`."""
    folder = tmp_path / "notebooks"
    make_notebook("01_a", "results_dir: str = ''\nrounds: int = 0", "print(rounds, results_dir)", folder=folder)
    make_notebook("02_b", "max_minutes: float = 0.0", "print(max_minutes)", folder=folder)
    make_notebook("90_figures_and_tables", "figures_dir: str = ''", "print('final', figures_dir)", folder=folder)
    said: list[str] = []
    work = Batch(folder, tmp_path / "results", tmp_path / "figures", {"rounds": 7, "profile": "p"}, say=said.append)
    work.said = said
    return work


def test_each_notebook_gets_what_it_declares(work, capsys):
    work.check(["01_a", "02_b"])
    work.run(["01_a", "02_b"], "title")
    assert work.failures == []
    assert capsys.readouterr().out.splitlines() == [f"7 {work.results}", "0.0", f"final {work.figures}"]
    assert work.said == ["[1/3] 01_a", "[2/3] 02_b", "[3/3] 90_figures_and_tables"]
    executed = sorted(path.name for path in (work.results / "notebooks").iterdir())
    assert executed == ["01_a.ipynb", "02_b.ipynb", "90_figures_and_tables.ipynb"]
    assert f"final {work.figures}" in (work.results / "report.html").read_text(encoding="utf-8")


def test_a_failure_is_told_and_the_others_still_run(work, make_notebook, capsys):
    make_notebook("01_a", "rounds: int = 0", "raise ValueError('rank 1 died')", folder=work.notebooks)
    work.run(["01_a", "02_b"], "title")
    assert work.failures == ["01_a"]
    assert any("01_a.ipynb: cell 2 raised ValueError: rank 1 died" in line for line in work.said)
    assert capsys.readouterr().out.splitlines()[0] == "0.0"
    assert (work.results / "report.html").exists()


def test_a_page_that_cannot_be_replaced_is_told_in_one_line(work):
    (work.results / "report.html").mkdir(parents=True)
    work.run(["02_b"], "title")
    assert work.failures == ["90_figures_and_tables"]
    assert work.said[-1] == f"{work.results / 'report.html'}: cannot be written: Is a directory"


def test_who_does_not_read_on_ends_the_run(work, monkeypatch):
    def write(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("kanstudy.study.notebooks.run_notebook", write)
    with pytest.raises(BrokenPipeError):
        work.run(["01_a", "02_b"], "title")


def test_when_the_time_is_over_the_rest_is_not_begun_and_the_report_still_made(work, make_notebook, monkeypatch):
    work.max_minutes = 5.0
    left = iter([4.5, 4.0])  # when the first notebook begins and gets the time that is left; then it is over
    monkeypatch.setattr(Batch, "minutes_left", property(lambda _: next(left, 0.0)))
    make_notebook("01_a", "max_minutes: float = 0.0", "raise ValueError(max_minutes)", folder=work.notebooks)
    work.run(["01_a", "02_b"], "title")
    assert any("ValueError: 4.0" in line for line in work.said)
    assert work.failures == ["01_a"]
    assert exit_code({"a": "missing"}, work.failures, stopped=True) == 4  # it could not show what was not measured
    assert exit_code({"a": "ok"}, work.failures, stopped=True) == 1  # nothing was left to measure: it failed
    assert "[2/3] 02_b: not begun, the 5 minutes are over" in work.said
    assert (work.results / "report.html").exists()


def test_the_minutes_that_are_left_run_down_to_zero(tmp_path):
    def left(max_minutes: float, passed: float) -> float:
        work = Batch(tmp_path, tmp_path, tmp_path, {}, max_minutes)
        work._started -= 60 * passed
        return work.minutes_left

    assert left(5.0, 2.0) == pytest.approx(3.0, abs=0.1)
    assert left(5.0, 6.0) == 0.0
    assert left(0.0, 1e6) == float("inf")


def test_a_notebook_that_cannot_take_its_parameters_is_found_before_anything_runs(work, make_notebook):
    make_notebook("90_figures_and_tables", "profile: int = 0", folder=work.notebooks)
    with pytest.raises(NotebookError, match="parameter profile = 'p'"):
        work.check(["01_a"])
    (work.notebooks / "90_figures_and_tables.ipynb").unlink()
    with pytest.raises(NotebookError, match="90_figures_and_tables"):
        work.check(["01_a"])
