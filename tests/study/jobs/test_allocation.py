"""The ranks of a job: their command, what they are told, and how it is known that the job is ending."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kanstudy.study.cluster import read_cluster
from kanstudy.study.jobs.allocation import Allocation

VALUES = {"nodes": 1, "ranks_per_node": 2, "time_limit": "01:00:00"}


def allocation(state: str = "RUNNING", **changes) -> Allocation:
    return Allocation(read_cluster(VALUES | changes, "x"), ["srun", "--ntasks=2"], lambda: state)


def test_each_rank_has_logs_of_its_own(tmp_path: Path):
    command = allocation().command(None, Path("run.json"), tmp_path / "50%")
    logs = tmp_path / "50%" / "step" / "attempt_0"
    place = str(logs).replace("%", "%%")
    assert command == [
        *("srun", "--ntasks=2", f"--output={place}/%t/stdout.log", f"--error={place}/%t/stderr.log"),
        *(sys.executable, "-m", "kanstudy.worker", "run.json"),
    ]
    assert (logs / "0").is_dir()
    assert (logs / "1").is_dir()


def test_a_container_stands_before_its_python():
    found = allocation(container=["apptainer", "exec", "x.sif"], python="python3").ranks("-m", "x")
    assert found == ["srun", "--ntasks=2", "apptainer", "exec", "x.sif", "python3", "-m", "x"]


def test_ranks_are_told_once_to_end():
    code = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('told', flush=True))"
    waits = f"{code}\nprint('up', flush=True)\nwhile True: time.sleep(0.05)"
    with subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        found = allocation()
        found.pass_on(process)
        found.ask_to_end(signal.SIGUSR1, None)
        for _ in range(3):
            found.pass_on(process)
        assert process.stdout.readline() == "told\n"
        process.kill()
        assert process.stdout.read() == ""


def test_a_job_is_ending_when_slurm_says_so_and_not_when_it_is_silent():
    assert not allocation("RUNNING").is_ending()
    assert not allocation("").is_ending()
    found = allocation("COMPLETING")
    assert found.is_ending()
    assert found.is_asked_to_end


def test_a_dead_node_is_noticed_by_a_step_that_does_nothing():
    good, bad = allocation(), allocation()
    good.step = ["env"]
    assert (good.broken(), good.is_asked_to_end) == ("", False)
    bad.step = ["sh", "-c", "echo 'srun: error: Task launch failed on node node2' >&2; exit 1"]
    assert bad.broken() == "srun: error: Task launch failed on node node2"
    assert bad.is_asked_to_end
