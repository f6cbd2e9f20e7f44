from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from profiles_for_tests import MACHINE, STRONG, profile_of

from kanstudy.analysis.results import planned_versus_done
from kanstudy.record_files import read_record
from kanstudy.run_spec import RunSpec
from kanstudy.study import launch
from kanstudy.study.cluster import read_cluster
from kanstudy.study.experiments import plan
from kanstudy.study.folder import FolderError
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.launch import LaunchError, run, torchrun
from kanstudy.study.profile import ProfileError

STUB = Path(__file__).with_name("stub_worker.py")


def stub(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    return [sys.executable, str(STUB), str(plan_file)]


def stub_by_torchrun(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    command = torchrun(run, plan_file, log_dir)
    return [*command[: command.index("kanstudy.worker") - 1], str(STUB), str(plan_file)]


class Study:
    """One experiment of two points, measured by the stub into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()
        self.plan = self.planned()

    def planned(self, machine: str = MACHINE, rounds: int = 2, launches: int = 1):
        return plan(profile_of(self.folder, STRONG, machine=machine), "strong_scaling", rounds, launches)

    @property
    def ids(self) -> list[str]:
        return [point.point_id for point in self.plan.points]

    def fault(self, **faults: str) -> None:
        (self.results / "stub.json").write_text(json.dumps(faults))

    def run(self, planned=None, command=stub, **options):
        return run(planned or self.plan, self.results, _command=command, **options)

    def record(self, number: int):
        return read_record(self.results / "strong_scaling" / f"{self.ids[number]}.json")

    @property
    def starts(self) -> int:
        path = self.results / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def is_gone(pid_file: Path) -> bool:
    """Whether the process whose number a file holds has ended."""
    try:
        return psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_plan_is_measured_and_measured_only_once(study, capsys):
    outcome = study.run()
    assert outcome.statuses == dict.fromkeys(study.ids, "ok")
    assert outcome.left == []
    said = capsys.readouterr().out
    assert "2 of 2 points to measure on up to 2 ranks" in said
    assert f"{study.ids[0]}: ok (1 of 2)" in said
    assert study.record(0).rounds_of_launch(0) == 2
    assert study.run().left == []
    assert study.starts == 1
    assert "all 2 points are measured already" in capsys.readouterr().out


def test_a_record_of_other_threads_is_not_passed_off_as_measured(study):
    study.run()
    study.run(study.planned(machine=MACHINE + "threads_per_rank = 2\n"))
    assert study.starts == 2
    assert study.record(0).threads_per_rank == 2
    assert study.record(0).status == "ok"


def test_the_results_folder_explains_itself(study):
    study.run()
    kept = json.loads((study.results / "plans" / "strong_scaling.json").read_text())
    assert kept["profile"] == "tiny"
    assert kept["rounds"] == dict.fromkeys(study.ids, 2)
    assert list(kept["points"]) == study.ids
    assert kept["points"][study.ids[1]]["world_size"] == 2


def test_the_launch_is_what_the_profile_says(study):
    machine = MACHINE + "threads_per_rank = 2\npin = false\ncollective_timeout_s = 33"
    study.run(study.planned(machine))
    (written,) = study.results.glob("logs/strong_scaling/*/run.json")
    spec = json.loads(written.read_text())
    assert (spec["threads_per_rank"], spec["pin"], spec["collective_timeout_s"]) == (2, False, 33)
    assert (spec["device"], spec["backend"], spec["launch"], spec["launches"]) == ("cpu", "gloo", 0, 1)
    assert all(Path(file).exists() for file in spec["data_files"].values())


def test_every_world_size_gets_the_same_threads_and_allocator(study, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "5")
    code = "import os, sys; print(dict(os.environ)); sys.exit(1)"
    with pytest.raises(LaunchError):
        study.run(study.planned(MACHINE + "threads_per_rank = 2"), lambda *_: [sys.executable, "-c", code])
    seen = ast.literal_eval(study.record(0).error.log_tail)
    assert seen["OMP_NUM_THREADS"] == seen["MKL_NUM_THREADS"] == "2"
    assert (seen["MALLOC_MMAP_MAX_"], seen["MALLOC_TRIM_THRESHOLD_"]) == ("0", "8589934592")
    assert study.record(0).provenance["settings"]["OMP_NUM_THREADS"] == "2", "the record says so"


def test_more_rounds_continue_what_is_there(study):
    study.run()
    study.run(study.planned(rounds=3))
    assert study.record(0).rounds_of_launch(0) == 3
    assert study.starts == 2


def test_separate_launches_each_have_all_rounds(study):
    planned = study.planned(launches=3)
    assert study.run(planned).left == []
    assert study.starts == 3
    assert [study.record(1).rounds_of_launch(index) for index in range(3)] == [2, 2, 2]
    study.run(planned)
    assert study.starts == 3


def test_one_failing_point_becomes_a_record_and_the_rest_is_measured(study, capsys):
    study.fault(**{study.ids[0]: "raise"})
    with pytest.raises(LaunchError) as raised:
        study.run()
    assert "1 of 2 points failed" in str(raised.value)
    assert f"{study.ids[0]}: failed: " in str(raised.value)
    assert "the stub was told to fail" in str(raised.value)
    assert "launcher.log" in str(raised.value)
    failed = study.record(0)
    assert (failed.status, failed.error.arm) == ("failed", "ddp")
    assert "RuntimeError: the stub was told to fail" in failed.error.log_tail
    assert failed.rounds_of_launch(0) == 1, "the complete round is kept"
    assert study.record(1).status == "ok"
    assert study.starts == 2

    study.fault()
    assert study.run().left == []
    assert study.record(0).status == "ok"
    assert study.starts == 3


def test_a_failed_point_is_not_tried_again_in_the_next_launch_of_the_same_run(study):
    study.fault(**{study.ids[0]: "raise"})
    with pytest.raises(LaunchError):
        study.run(study.planned(launches=2))
    assert [study.record(0).rounds_of_launch(index) for index in range(2)] == [1, 0]
    assert study.record(1).status == "ok"


def test_a_collective_that_timed_out_is_a_timeout(study):
    study.fault(**{study.ids[1]: "timeout"})
    with pytest.raises(LaunchError, match=r"timeout: .*Timed out waiting 2000ms"):
        study.run()
    assert study.record(1).status == "timeout"


def test_a_hanging_launch_is_ended_and_leaves_no_process(study, monkeypatch):
    monkeypatch.setattr("kanstudy.study.processes.GRACE_S", 0.2)
    study.fault(**{study.ids[0]: "hang"})
    with pytest.raises(LaunchError, match="no progress for"):
        study.run(study.planned(MACHINE + "stall_timeout_s = 6"))
    assert study.record(0).status == "timeout"
    assert "no progress" in study.record(0).error.reason
    assert study.record(1).status == "ok"
    assert is_gone(study.results / "hanging")


def test_a_worker_that_leaves_early_with_success_has_failed(study):
    study.fault(**{study.ids[1]: "leave"})
    with pytest.raises(LaunchError, match="the worker ended early"):
        study.run()
    assert study.record(1).status == "failed"


def test_a_start_that_fails_fails_all_points_at_once(study):
    study.fault(start="raise")
    with pytest.raises(LaunchError, match="2 of 2 points failed"):
        study.run()
    assert study.starts == 1
    assert [study.record(index).status for index in range(2)] == ["failed", "failed"]
    assert study.record(0).error.arm is None


def test_a_taken_port_is_tried_once_more(study):
    study.fault(start="port")
    with pytest.raises(LaunchError, match="EADDRINUSE"):
        study.run()
    assert study.starts == 2


def test_ranks_of_a_job_then_meet_at_another_port(study, monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "20007")
    study.fault(start="port")
    with pytest.raises(LaunchError, match="EADDRINUSE"):
        study.run(command=None, allocation=Job("RUNNING"))
    assert (study.results / "ports").read_text().split() == ["20007", "20008"]


def test_a_command_that_cannot_be_run_is_a_failure(study):
    with pytest.raises(LaunchError, match="No module named"):
        study.run(command=lambda *_: [sys.executable, "-m", "kanstudy.no_such_worker"])
    assert study.record(0).status == "failed"


def test_oom_is_a_result(study, capsys):
    study.fault(**{study.ids[0]: "oom"})
    outcome = study.run()
    assert outcome.statuses == {study.ids[0]: "oom", study.ids[1]: "ok"}
    assert outcome.left == []
    capsys.readouterr()
    study.run()
    assert study.starts == 1, "it would be the same again"
    assert f"{study.ids[0]}: oom" in capsys.readouterr().out, "but it is said every time"


def test_time_over_is_no_failure_and_the_next_run_goes_on(study, capsys):
    study.fault(slow="yes")
    outcome = study.run(max_minutes=1)
    assert outcome.statuses == dict.fromkeys(study.ids, "partial")
    assert outcome.left == study.ids
    assert "2 of 2 points are not measured yet" in capsys.readouterr().out
    assert study.run().left == []
    assert study.record(0).rounds_of_launch(0) == 2


def test_no_launch_begins_after_the_time(study):
    assert study.run(max_minutes=1e-9).left == study.ids
    assert study.starts == 0


def test_none_launches_nothing_and_writes_nothing(study):
    outcome = study.run(launcher="none")
    assert outcome.statuses == dict.fromkeys(study.ids, "missing")
    assert list(study.results.iterdir()) == []
    study.run()
    assert study.run(launcher="none").statuses == dict.fromkeys(study.ids, "ok")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launcher": "pbs"}, "launcher = 'pbs': must be one of local, slurm, none"),
        ({"max_minutes": -1}, "max_minutes = -1"),
        ({"max_minutes": float("nan")}, "max_minutes = nan"),
        ({"max_minutes": "x"}, "max_minutes = 'x': must be a number >= 0"),
    ],
)
def test_bad_arguments(study, options, message):
    with pytest.raises(ValueError, match=message):
        study.run(**options)
    assert study.starts == 0


def test_a_folder_that_papermill_took_for_a_number_is_refused(study):
    with pytest.raises(ValueError, match="results_dir = 7: must be a folder's path, as text"):
        run(study.plan, 7)


class Job(Allocation):
    """Ranks of a job, of which the stub is one; `state` is what Slurm says."""

    def __init__(self, state: str) -> None:
        values = {"nodes": 1, "ranks_per_node": 2, "time_limit": "01:00:00"}
        super().__init__(read_cluster(values, "x"), [], lambda: state, {"flag": None})

    def command(self, run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
        return stub(run, plan_file, log_dir)


def test_ranks_that_die_while_slurm_takes_the_nodes_away_have_not_failed(study):
    study.fault(**{study.ids[1]: "raise"})
    outcome = study.run(command=None, allocation=Job("COMPLETING"))
    assert outcome.statuses == dict(zip(study.ids, ("ok", "partial"), strict=True))
    assert study.starts == 1, "no other launch is begun on nodes that go away"


def test_ranks_that_die_in_a_job_that_goes_on_have_failed(study):
    study.fault(**{study.ids[1]: "raise"})
    with pytest.raises(LaunchError, match="1 of 2 points failed"):
        study.run(command=None, allocation=Job("RUNNING"))
    assert [study.record(index).status for index in range(2)] == ["ok", "failed"]
    assert study.record(0).provenance["preflight"] == {"flag": None}


def test_points_have_not_failed_where_a_node_is_dead(study, capsys):
    study.fault(**{study.ids[1]: "raise"})
    job = Job("RUNNING")
    job.step = ["sh", "-c", "echo node2 is dead >&2; exit 1"]
    statuses = study.run(command=None, allocation=job).statuses
    assert statuses == dict(zip(study.ids, ("ok", "partial"), strict=True))
    assert study.starts == 1
    assert "not all nodes answer any more, so nothing else is measured: node2 is dead" in capsys.readouterr().out


def test_a_job_that_is_asked_to_end_begins_nothing_more(study):
    job = Job("RUNNING")
    job.ask_to_end(signal.SIGUSR1, None)
    assert study.run(command=None, allocation=job).left == study.ids
    assert study.starts == 0


def test_launches_that_were_measured_on_other_nodes_are_measured_anew(study):
    study.run(study.planned(launches=1))
    (study.results / "nodes").write_text("other")
    assert study.run(study.planned(launches=2)).left == []
    assert [study.record(0).rounds_of_launch(index) for index in range(2)] == [2, 2]
    assert study.starts == 3


def test_a_plan_made_for_another_machine_is_not_run_here(study, monkeypatch):
    monkeypatch.setattr("kanstudy.study.profile.usable_cores", lambda: 1)
    profile = profile_of(study.folder, STRONG, machine=MACHINE.replace("true", "false"))
    with pytest.raises(ProfileError, match="2 ranks x 1 threads_per_rank"):
        study.run(plan(profile, "strong_scaling", launcher="none"))


def test_a_plan_without_points_says_why(study, capsys):
    outcome = run(plan(study.plan.profile, "weak_scaling"), study.results, _command=stub)
    assert outcome.statuses == {}
    assert "no series [[study.weak_scaling]]" in capsys.readouterr().out


def test_two_studies_in_one_folder_are_refused(study):
    with launch.folder.opened(study.results), pytest.raises(FolderError, match=f"process {os.getpid()} on .* running"):
        study.run()
    assert study.run().left == []


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path, study):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match=r"results folder .*file/results: cannot be written: Not a directory"):
        run(study.plan, tmp_path / "file" / "results", _command=stub)
    (study.results / "plans").write_text("")
    with pytest.raises(FolderError, match="cannot be written: File exists"):
        study.run()


def test_an_unreadable_record_is_measured_again(study):
    study.run()
    path = study.results / "strong_scaling" / f"{study.ids[0]}.json"
    path.write_text("{")
    assert study.run(launcher="none").statuses[study.ids[0]] == "unreadable"
    with pytest.raises(LaunchError):  # the real worker sets it aside, the stub stumbles
        study.run()
    assert study.starts == 2
    assert study.record(0).status == "failed"


def test_an_interrupt_ends_all_ranks(study, monkeypatch):
    study.fault(**{study.ids[0]: "hang"})
    monkeypatch.setattr("kanstudy.study.processes.GRACE_S", 0.2)

    def interrupt(progress) -> None:
        if (study.results / "hanging").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("kanstudy.study.launches.Progress.poll", interrupt)
    with pytest.raises(KeyboardInterrupt):
        study.run()
    monkeypatch.undo()
    assert is_gone(study.results / "hanging")
    assert study.record(0).status == "partial", "nothing measured is lost"
    study.fault()
    assert study.run().left == [], "the lock is free again"


def test_ranks_end_when_the_launcher_is_killed(study):
    study.fault(**{study.ids[0]: "sleep"})
    code = (
        "import sys; from pathlib import Path; import test_launch as t\n"
        "study = t.Study.__new__(t.Study); study.folder = Path(sys.argv[1]); study.results = study.folder / 'results'\n"
        "study.plan = study.planned(); study.run()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(STUB.parent), os.environ.get("PYTHONPATH", "")])}
    launcher = subprocess.Popen([sys.executable, "-c", code, str(study.folder)], env=environment)
    hanging = study.results / "hanging"
    _wait_for(lambda: hanging.exists() and hanging.read_text())
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    _wait_for(lambda: is_gone(hanging))


def _wait_for(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_torchrun_starts_the_ranks_and_a_killed_one_is_named(study):
    study.fault(rank1="kill")
    with pytest.raises(LaunchError) as raised:
        study.run(command=stub_by_torchrun)
    assert "rank 1: killed by SIGKILL (possibly out of memory)" in str(raised.value), "not rank 0, which only noticed"
    failed = next(record for record in map(study.record, range(2)) if record.error and record.error.rank == 1)
    assert failed.status == "failed"


def test_adaptive_rounds_stop_where_the_interval_is_narrow_and_are_not_measured_again(study, capsys):
    tables = STRONG + "rounds = 0\ntarget_width = 0.1\n"
    planned = plan(profile_of(study.folder, tables, machine=MACHINE), "strong_scaling", launches=2)
    assert planned.target_width == dict.fromkeys(study.ids, 0.1)
    assert planned.rounds == dict.fromkeys(study.ids, 100)
    assert set(planned.table()["target_width"]) == {0.1}

    outcome = study.run(planned)
    assert outcome.statuses == dict.fromkeys(study.ids, "ok")
    assert [study.record(1).rounds_of_launch(index) for index in range(2)] == [20, 20]
    said = capsys.readouterr().out
    assert "nothing is known yet of the width that can be reached at any of 2 points" in said
    assert "at most about" in said
    starts = study.starts
    assert study.run(planned).left == []
    assert study.starts == starts, "nothing was lacking"
    assert f"{study.ids[0]}, ±5.0% wanted: ±0.0% after 20, ±0.0% after 20 rounds; about 20" in capsys.readouterr().out
    table = planned_versus_done(study.results)
    assert set(table["status"]) == {"ok"}
    assert table["reason"].str.contains("launch 1: narrow enough at 20 rounds").all()

    fixed = study.planned(rounds=21, launches=2)
    assert not fixed.target_width
    assert study.run(fixed).left == []
    assert study.record(1).rounds_of_launch(0) == 21


def test_a_plan_of_fixed_rounds_has_no_target(study):
    assert not study.plan.target_width
    assert "target_width" not in study.plan.table()
