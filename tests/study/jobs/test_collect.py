"""How far jobs are: from the folder and the queue, and from the folder alone once Slurm has forgotten them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from profiles_for_tests import STRONG, write
from test_submit import CLUSTER, MACHINE, finish, plans_of

from kanstudy import cli
from kanstudy.record import Fault
from kanstudy.record_files import read_record, record_path, write_record
from kanstudy.study.jobs import collect, submission
from kanstudy.study.profile import Profile, load_profile


class Folder:
    """A results folder into which job 42 was submitted, and its report, job 43."""

    def __init__(self, root: Path) -> None:
        self.root, self.results = root, root / "r"
        self.profile: Profile = load_profile(write(root, STRONG, MACHINE, CLUSTER, study="rounds = 1"))
        self.plan = plans_of(self.profile)["strong_scaling"]
        written = submission.write({"strong_scaling": self.plan}, self.profile, self.results, root / "f", "the plan")
        submission.write_jobs(written.folder, {"study": "42", "report": "43"})
        self.run = written.folder

    def queue(self, answer: str) -> None:
        """What squeue is to say."""
        (self.root / "squeue.answer").write_text(answer)

    def launch(self, *events: dict) -> None:
        """A launch of job 42 with all points that has told these events."""
        log = self.results / "logs" / "strong_scaling" / "20260101T000000.000000"
        log.mkdir(parents=True)
        rounds = {point.point_id: 1 for point in self.plan.points}
        (log / "run.json").write_text(json.dumps({"provenance": {"job": {"SLURM_JOB_ID": "42"}}, "rounds": rounds}))
        (log / "progress.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"half')

    def collect(self, *arguments: str):
        return CliRunner().invoke(cli.main, ["collect", *(arguments or ("--results-dir", str(self.results)))])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Folder:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    squeue = binaries / "squeue"  # a reason is asked for with %r
    squeue.write_text(f'#!/bin/sh\ncase "$*" in *%r*) echo Priority;; *) cat "{tmp_path}/squeue.answer";; esac\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    found = Folder(tmp_path)
    found.queue("")
    return found


def test_a_job_that_waits(folder):
    folder.queue("42 PENDING\n43 PENDING\n")
    result = folder.collect()
    assert result.exit_code == 4
    assert "Job 42, which measures: pending (Priority)" in result.output
    assert "Points planned: 3 (3 missing)" in result.output


def test_a_job_that_runs(folder):
    finish(folder.plan, folder.results, 0)
    point = folder.plan.points[1].point_id
    folder.launch({"event": "started"}, {"event": "block", "point_id": point, "arm": "ddp", "done": 3, "total": 9})
    folder.queue("42 RUNNING\n43 PENDING\n")
    result = folder.collect()
    assert result.exit_code == 4
    assert f"Last heard of strong_scaling: block 3 of 9: {point} ddp" in result.output
    assert "Points planned: 3 (1 ok, 2 running)" in result.output


@pytest.mark.parametrize("end", [{"event": "finished"}, None])
def test_what_is_over_does_not_run(folder, end):
    folder.launch({"event": "started"}, *([end] if end else []))
    folder.queue("42 RUNNING\n" if end else "42 FAILED\n")
    assert "3 missing" in folder.collect().output


def test_once_slurm_has_forgotten_the_folder_still_tells(folder, monkeypatch):
    finish(folder.plan, folder.results, 0)
    finish(folder.plan, folder.results, 1, "failed")
    path = record_path(folder.results, "strong_scaling", folder.plan.points[1].point_id)
    record = read_record(path)
    record.error = Fault(reason="node node2 failed", rank=3)
    write_record(record, folder.results)
    (folder.run / "job-42.out").write_text("job 42, start 1, on node[1-2]\nthe last words\n")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = folder.collect()
    assert result.exit_code == 1
    assert "Job 42, which measures: Slurm does not know it any more" in result.output
    assert "  | the last words" in result.output
    assert "(1 failed, 1 missing, 1 ok)" in result.output
    assert f"strong_scaling/{record.point_id}: failed: rank 3: node node2 failed" in result.output


def test_all_is_measured(folder):
    for number in range(3):
        finish(folder.plan, folder.results, number)
    (folder.results / "report.html").write_text("")
    folder.queue("42 COMPLETED\n43 COMPLETED\n")
    result = folder.collect("--profile", str(folder.profile.path), "--results-dir", str(folder.results))
    assert result.exit_code == 0
    assert "Points planned: 3 (3 ok)" in result.output
    assert f"Report: {folder.results / 'report.html'}" in result.output


def test_an_earlier_job_is_told_of_while_it_lives(folder):
    again = submission.write({"strong_scaling": folder.plan}, folder.profile, folder.results, folder.root, "the plan")
    submission.write_jobs(again.folder, {"study": "50"})
    folder.queue("42 RUNNING\n43 FAILED\n50 PENDING\n")
    lines = collect.job_lines(collect.queue(folder.results))
    assert [line.split(",")[0] for line in lines] == ["Job 42", "Submitted 2 times", "Job 50"]


def test_a_flag_of_a_measured_point_is_told(folder):
    finish(folder.plan, folder.results, 0)
    record = read_record(record_path(folder.results, "strong_scaling", folder.plan.points[0].point_id))
    record.provenance["preflight"] = {"flag": "NCCL went over NET/Socket although there is InfiniBand"}
    write_record(record, folder.results)
    assert f"{record.point_id}: NCCL went over NET/Socket" in folder.collect().output


def test_status_tells_of_jobs_too(folder):
    folder.queue("42 RUNNING\n43 PENDING\n")
    output = CliRunner().invoke(cli.main, ["status", "--results-dir", str(folder.results)]).output
    assert "Job 42, which measures: running" in output
    assert "Job 43, which makes the report: pending (Priority)" in output


def test_a_profile_alone_tells_what_is_planned(folder, tmp_path):
    result = folder.collect("--profile", str(folder.profile.path), "--results-dir", str(tmp_path / "empty"))
    assert "Points planned: 3 (3 missing)" in result.output
    assert folder.collect("--results-dir", str(tmp_path / "empty")).exit_code == 2


def test_it_is_quick_on_a_login_node(folder):
    code = (
        f"import sys; sys.argv = ['kanstudy', 'collect', '--results-dir', {str(folder.results)!r}]\n"
        "from kanstudy import cli\n"
        "try: cli.main()\n"
        "finally: print('loaded:', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(done.stdout.partition("loaded:")[2].split())
    assert "click" in loaded
    assert not loaded & {"torch", "numpy", "pandas", "matplotlib", "papermill", "scipy"}


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("PartitionTimeLimit", "time_limit"),
        ("QOSMaxWallDurationPerJobLimit", "time_limit"),
        ("PartitionNodeLimit", "nodes (or some are down: sinfo)"),
        ("QOSMaxNodePerJobLimit", "nodes, GPUs, cores"),
        ("InvalidAccount", "account or qos"),
        ("BadConstraints", "no nodes of the partition"),
        ("Resources", ""),
        ("ReqNodeNotAvail", ""),
        ("QOSMaxJobsPerUserLimit", ""),
    ],
)
def test_a_job_that_will_never_start_is_told_with_what_to_change(folder, reason, what):
    squeue = folder.root / "bin" / "squeue"
    squeue.write_text(squeue.read_text().replace("Priority", reason))
    folder.queue("42 PENDING\n")
    output = folder.collect().output
    assert f"pending ({reason})" in output
    assert ("it does not start: [cluster]" in output or "it does not start: no nodes" in output) == bool(what)
    assert what in output


def test_a_job_that_could_not_write_its_output_points_at_the_folder(folder):
    folder.queue("42 FAILED\n")
    assert f"it printed nothing: do its nodes see {folder.run}?" in folder.collect().output
    folder.queue("42 CANCELLED\n")  # before it began
    assert "printed nothing" not in folder.collect().output


def test_the_last_words_of_a_report_that_failed_are_shown(folder):
    (folder.run / "job-42.out").write_text("all is measured\n")
    (folder.run / "report-43.out").write_text("no kernel\n")
    folder.queue("42 COMPLETED\n43 FAILED\n")
    assert "  | no kernel" in folder.collect().output
    folder.queue("42 COMPLETED\n43 COMPLETED\n")
    output = folder.collect().output
    assert "  | all is measured" in output
    assert "no kernel" not in output


def test_a_name_that_no_job_has_is_passed_over(folder):
    submission.write_jobs(folder.run, {"study": "42", "other": "44"})
    result = folder.collect()
    assert "Job 42" in result.output
    assert "44" not in result.output
