"""The study on a real Slurm: two nodes with two ranks each, gloo over the loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from throwaway import Sandbox

from kanstudy import cli
from kanstudy.analysis import nodes
from kanstudy.analysis.network import forced
from kanstudy.record import Record
from kanstudy.record_files import read_record
from kanstudy.strict_json import RecordError
from kanstudy.study.jobs import slurm, submission

pytestmark = pytest.mark.slurm
PROFILE = Path(__file__).parents[1] / "profiles" / "slurm_sandbox.toml"
ROUNDS = 14


def kanstudy(*arguments: str):
    return CliRunner().invoke(cli.main, list(arguments))


class Study:
    """One profile measured into one folder, by as many jobs as it takes."""

    def __init__(self, folder: Path, profile: Path = PROFILE) -> None:
        self.results, self.profile = folder / "results", profile

    def submit(self, *options: str) -> str:
        """Submit; the number of the job that measures."""
        done = self.call("submit", *options)
        assert done.exit_code == 0, done.output
        return self.jobs[-1]["study"]

    def call(self, command: str, *options: str):
        return kanstudy(command, "--profile", str(self.profile), "--results-dir", str(self.results), *options)

    @property
    def jobs(self) -> list[dict[str, str]]:
        return list(submission.read_jobs(self.results).values())

    @property
    def records(self) -> list[Record]:
        return [read_record(path) for path in sorted(self.results.glob("strong_scaling/*.json"))]

    @property
    def rounds(self) -> list[tuple[int, int, str]]:
        """Index, attempt and time of each round of the only point; also while it is measured."""
        try:
            (record,) = self.records
        except (ValueError, RecordError):
            return []
        return [(item.index, item.attempt, item.started_utc) for item in record.arms["ddp"].rounds]

    def output(self, job: str) -> str:
        return next(self.results.glob(f"jobs/*/job-{job}.out")).read_text()


def trimmed(folder: Path, name: str, **changes: str) -> Path:
    """The sandbox's profile with one point on four ranks; `changes` replace one text by another."""
    text = PROFILE.read_text().replace("world_sizes = [1, 2, 4]", "world_sizes = [4]")
    text = text.replace('placements = ["packed", "spread"]', 'placements = ["packed"]')
    text = text.replace("rounds = 2", f"rounds = {ROUNDS}")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_from_submission_to_the_report(sandbox: Sandbox, tmp_path: Path) -> None:
    study = Study(tmp_path)
    job = study.submit("--only", "strong_scaling")
    sandbox.until(lambda: "running" in study.call("collect").output.partition("Points planned")[2])
    assert study.call("collect").exit_code == 4
    assert sandbox.over(job) == "COMPLETED", study.output(job)
    found = {(record.world_size, record.placement): record for record in study.records}
    hosts = {key: record.provenance["conditions"]["hosts"] for key, record in found.items()}
    assert hosts == {
        (1, "packed"): ["node1"],
        (2, "packed"): ["node1", "node1"],
        (2, "spread"): ["node1", "node2"],
        (4, "packed"): ["node1", "node1", "node2", "node2"],
    }
    assert [(found[2, name].nodes, found[2, name].ranks_per_node) for name in ("packed", "spread")] == [(1, 2), (2, 1)]
    for record in found.values():
        assert (record.status, record.rounds_of_launch(0)) == ("ok", 2)
        assert record.provenance["job"]["SLURM_JOB_ID"] == job
        assert record.provenance["node_set"] == ["node1", "node2"]
        places = [(rank["node"], rank["local_rank"]) for rank in record.provenance["preflight"]["ranks"]]
        assert places == [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)]
    (log,) = study.results.glob("logs/strong_scaling/*")
    assert sorted(path.parent.name for path in log.glob("step/attempt_0/*/stderr.log")) == ["0", "1", "2", "3"]

    again = study.call("submit", "--only", "strong_scaling")
    assert "nothing is submitted" in again.output
    assert len(study.jobs) == 1
    assert sandbox.over(study.jobs[0]["report"], 240) == "COMPLETED"
    assert (study.results / "report.html").exists()
    assert (study.results / "notebooks" / "90_figures_and_tables.ipynb").exists()
    assert study.call("collect").exit_code == 0


def test_interruptions_lose_no_round_and_measure_none_twice(sandbox: Sandbox, tmp_path: Path) -> None:
    slow = {"block_s = 0.02": "block_s = 0.1"}  # so that no machine is done before it is interrupted
    study = Study(tmp_path, trimmed(tmp_path, "interrupted", **slow))
    rounds: list[tuple[int, int, str]] = []

    def measures_more(than: int = 1) -> None:
        """Wait for more rounds of a job, and see that those before are as they were."""
        sandbox.until(lambda: len(study.rounds) >= len(rounds) + than)
        check()

    def check() -> None:
        assert study.rounds[: len(rounds)] == rounds
        rounds[:] = study.rounds

    def submit() -> str:
        job = study.submit("--only", "strong_scaling")
        sandbox.ask("scancel", study.jobs[-1]["report"])
        return job

    job = submit()  # told that its time is nearly over
    measures_more()
    sandbox.ask("scancel", "--signal=USR1", "--batch", job)
    assert sandbox.over(job) == "FAILED"  # exit code 4: something is left
    check()
    assert "1 partial" in study.output(job)
    assert study.call("collect").exit_code == 4

    job = submit()  # preempted, begins again by itself
    measures_more()
    urgent = sandbox.ask(
        *("sbatch", "--parsable", "--partition=high", "--nodes=2", "--gres=gpu:2", "--output=/dev/null", "--wrap=true")
    )
    assert sandbox.over(urgent) == "COMPLETED"
    sandbox.start_again_now(job)
    check()
    measures_more()

    sandbox.ask("scancel", job)  # in mid-run
    assert sandbox.over(job) == "CANCELLED"
    check()
    assert study.records[0].status == "partial"

    job = submit()  # a node dies
    measures_more()
    sandbox.kill_node("node2")
    sandbox.until(lambda: slurm.state(job) == "PENDING")
    check()
    assert study.records[0].status in ("partial", "failed")
    sandbox.revive_node("node2")
    sandbox.start_again_now(job)
    assert sandbox.over(job) == "COMPLETED", study.output(job)
    check()
    (record,) = study.records
    assert record.status == "ok"
    for arm in record.arms.values():
        assert [item.index for item in arm.rounds] == list(range(ROUNDS))
    assert len({attempt for _, attempt, _ in rounds}) >= 5
    assert len(list(study.results.glob("logs/strong_scaling/*/step/attempt_0/0/stderr.log"))) >= 5
    assert not list(study.results.glob("strong_scaling/aside/*"))


def test_other_nodes_start_a_point_anew(sandbox: Sandbox, tmp_path: Path) -> None:
    narrow = {"nodes = 2": "nodes = 1", "world_sizes = [4]": "world_sizes = [2]", "block_s = 0.02": "block_s = 0.1"}
    study = Study(tmp_path, trimmed(tmp_path, "elsewhere", **narrow))
    job = study.submit("--only", "strong_scaling")
    sandbox.ask("scancel", study.jobs[-1]["report"])
    sandbox.until(lambda: len(study.rounds) >= 1)
    sandbox.ask("scancel", "--signal=USR1", "--batch", job)
    sandbox.over(job)
    first = study.rounds
    assert len(first) < ROUNDS
    (here,) = study.records[0].provenance["node_set"]
    (there,) = {"node1", "node2"} - {here}
    run = next(iter(submission.read_jobs(study.results)))
    options = ["--nodes=1", "--ntasks-per-node=2", "--gres=gpu:a100:2", f"--nodelist={there}", "--time=10"]
    script = Path(__file__).parents[2] / "slurm" / "study.sbatch"
    output = f"--output={run}/job-%j.out"
    by_hand = sandbox.ask("sbatch", "--parsable", *options, output, str(script), str(run))
    assert sandbox.over(by_hand) == "COMPLETED", study.output(by_hand)
    (record,) = study.records
    assert record.provenance["node_set"] == [there]
    assert [index for index, *_ in study.rounds] == list(range(ROUNDS))
    (aside,) = study.results.glob("strong_scaling/aside/*.json")
    assert all(time in aside.read_text() for *_, time in first)


def test_a_variable_of_the_submission_reaches_the_ranks_and_the_record(sandbox: Sandbox, tmp_path: Path) -> None:
    study = Study(tmp_path, trimmed(tmp_path, "held"))
    job = study.submit("--only", "strong_scaling", "--env", "NCCL_ALGO=allreduce:Ring")
    sandbox.ask("scancel", study.jobs[-1]["report"])
    assert sandbox.over(job) == "COMPLETED", study.output(job)
    (record,) = study.records
    assert record.provenance["conditions"]["nccl"] == {"NCCL_ALGO": "allreduce:Ring"}  # as rank 0 has it
    assert forced.choice_of(record) == "Ring"
    assert nodes.layout(record) == (2, 2)


@pytest.mark.parametrize("script", ["study.sbatch", "report.sbatch"])
def test_a_job_has_the_limits_of_its_node_not_those_of_the_shell_that_submits(
    sandbox: Sandbox, tmp_path: Path, script: str
) -> None:
    (tmp_path / "setup.sh").write_text("ulimit -S -n\nexit 0\n")
    path = Path(__file__).parents[2] / "slurm" / script
    command = f"sbatch --parsable --ntasks=1 --time=1 --output={tmp_path}/out {path} {tmp_path}"
    job = sandbox.ask("bash", "-c", f"ulimit -S -n 123; {command}")
    assert sandbox.over(job) == "COMPLETED"
    assert int((tmp_path / "out").read_text()) > 123


def test_slurms_own_words_are_shown(sandbox: Sandbox, tmp_path: Path) -> None:
    wrong = trimmed(tmp_path, "wrong", **{'time_limit = "00:10:00"': 'time_limit = "00:10:00"\npartition = "nowhere"'})
    done = Study(tmp_path, wrong).call("submit")
    assert done.exit_code == 2
    assert "invalid partition specified: nowhere" in done.output
    assert sandbox.ask("squeue", "--noheader") == ""


def test_nodes_that_do_not_fit_are_named_before_anything_is_measured(sandbox: Sandbox, tmp_path: Path) -> None:
    study = Study(tmp_path, trimmed(tmp_path, "preflight", **{'IFNAME = "lo"': 'IFNAME = "ib7"'}))
    job = study.submit("--only", "strong_scaling")
    sandbox.ask("scancel", study.jobs[-1]["report"])
    assert sandbox.over(job) == "FAILED"
    assert "before measuring: node1: GLOO_SOCKET_IFNAME = ib7: no such interface" in study.output(job)
    assert study.records == []
    collected = study.call("collect")
    assert collected.exit_code == 4
    assert "no such interface" in collected.output


def test_a_notebook_kernel_is_not_blocked_on_the_queue(sandbox: Sandbox, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom kanstudy.study import experiments, launch, profile\n"
        "loaded = profile.load_profile(sys.argv[1])\n"
        "todo = experiments.plan(loaded, 'strong_scaling', launcher='slurm')\n"
        "print(launch.run(todo, sys.argv[2], 'slurm').statuses)"
    )
    sandbox.ask("scontrol", "update", "PartitionName=low", "State=DOWN")  # the job will wait
    try:
        said = sandbox.ask(sys.executable, "-c", code, str(PROFILE), str(tmp_path / "results"))
        assert "Submitted job" in said
        assert "'missing'" in said.splitlines()[-1]
        (jobs,) = submission.read_jobs(tmp_path / "results").values()
        subprocess.run(["scancel", *jobs.values()], check=True)
    finally:
        sandbox.ask("scontrol", "update", "PartitionName=low", "State=UP")
