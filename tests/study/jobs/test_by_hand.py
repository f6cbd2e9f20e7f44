"""Several machines without Slurm: two launchers on this one stand for them."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from profiles_for_tests import STRONG, write

from kanstudy import cli
from kanstudy.record_files import read_record
from kanstudy.study.jobs import by_hand

ROOT = Path(__file__).resolve().parents[3]
MACHINE = '[machine]\ndevice = "cpu"\nworld_sizes = [1, 2]\nallow_oversubscription = true\n'
CLUSTER = (
    '[cluster]\nnodes = 2\nranks_per_node = 1\ntime_limit = "01:00:00"\nenvironment = { GLOO_SOCKET_IFNAME = "lo" }\n'
)
QUICK = "rounds = 2\nblock_s = 0.01\nwarmup_s = 0.0\nwarmup_steps = 1\nphase_steps = 1\ntrain_steps = 2\n"


def submit(folder: Path):
    path = write(folder, STRONG, MACHINE, CLUSTER, study=QUICK)
    arguments = ["submit", "--profile", str(path), "--results-dir", str(folder / "r"), "--launches", "2", "--by-hand"]
    return CliRunner().invoke(cli.main, arguments)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measure(run: Path, port: int) -> list[int]:
    """Both machines at once; their exit codes."""
    machines = [
        subprocess.Popen(
            [str(ROOT / "slurm" / "torchrun.sh"), str(run), str(number), "127.0.0.1", str(port)],
            env=os.environ | {"SLURMD_NODENAME": f"machine{number}"},
        )
        for number in range(2)
    ]
    return [machine.wait(240) for machine in machines]


@pytest.mark.slow
def test_two_machines_measure_one_study_and_go_on(tmp_path):
    done = submit(tmp_path)
    assert done.exit_code == 0, done.output
    (run,) = (tmp_path / "r" / "jobs").iterdir()
    assert f"torchrun.sh {run} K ADDRESS" in done.output
    assert measure(run, free_port()) == [0, 0]
    records = [read_record(path) for path in sorted((tmp_path / "r" / "strong_scaling").glob("*.json"))]
    assert [record.provenance["conditions"]["hosts"] for record in records] == [["machine0"], ["machine0", "machine1"]]
    for record in records:
        assert record.status == "ok"
        assert [record.rounds_of_launch(launch) for launch in range(2)] == [2, 2]
    assert "Every planned point has its final record" in submit(tmp_path).output


def test_its_plans_wait_in_the_run_folder(tmp_path):
    assert submit(tmp_path).exit_code == 0
    (run,) = (tmp_path / "r" / "jobs").iterdir()
    assert [path.name for path in sorted((run / "plans").glob("*.json"))] == [
        "000-strong_scaling-0.json",
        "001-strong_scaling-1.json",
    ]
    assert "export KANSTUDY_MACHINES=2\n" in (run / "environment.sh").read_text()
    collected = CliRunner().invoke(cli.main, ["collect", "--results-dir", str(tmp_path / "r")])
    assert "Points planned: 2 (2 missing)" in collected.output


def test_without_a_checkout_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(by_hand, "project_root", lambda: tmp_path)
    done = submit(tmp_path)
    assert done.exit_code == 2, done.output
    assert "torchrun.sh: not there: submit from a checkout of the project" in done.output
    assert not (tmp_path / "r").exists()
