"""The shell scripts: their syntax, what shellcheck says, and how they answer without what they need."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    *sorted((ROOT / "slurm").glob("*.s*")),
    *sorted((ROOT / "tests" / "slurm").glob("*.sh")),
    ROOT / ".ci" / "run",
]
IDS = [str(path.relative_to(ROOT)) for path in SCRIPTS]


def test_there_are_scripts():
    assert {"slurm/study.sbatch", "slurm/report.sbatch", "tests/slurm/up.sh"} <= set(IDS)


@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_bash_understands_it(path):
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_shellcheck_finds_nothing(path):
    done = subprocess.run(["shellcheck", "--shell=bash", str(path)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["study.sbatch", "report.sbatch"])
def test_a_job_without_its_folder_says_how_to_call_it(name):
    done = subprocess.run(["bash", str(ROOT / "slurm" / name)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: sbatch OPTIONS" in done.stderr


@pytest.mark.parametrize("name", ["study.sbatch", "report.sbatch"])
def test_options_of_a_centre_are_not_in_the_scripts(name):
    options = [line for line in (ROOT / "slurm" / name).read_text().splitlines() if line.startswith("#SBATCH")]
    assert not any(
        word in line for line in options for word in ("partition", "account", "gres", "gpus", "qos", "time=")
    )


def environment_of_ranks(folder: Path, node: str) -> str:
    """What the job starts and with which address, where scontrol tells `node` of the first node."""
    run, commands = folder / "a run", folder / "bin"
    run.mkdir()
    commands.mkdir()
    (commands / "scontrol").write_text(f'#!/bin/sh\n[ "$2" = hostnames ] && echo node7 && exit\n{node}\n')
    (commands / "python").write_text('#!/bin/sh\necho "$MASTER_ADDR:$MASTER_PORT"\nprintf "%s\\n" "$@"\n')
    for path in commands.iterdir():
        path.chmod(0o755)
    (run / "setup.sh").write_text(f"KANSTUDY_PYTHON='{commands / 'python'}'\n")
    job = {"SLURM_JOB_ID": "71234", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_NUM_NODES": "2"}
    variables = job | {"SLURM_NTASKS_PER_NODE": "2", "PATH": f"{commands}:/usr/bin:/bin"}
    command = ["bash", str(ROOT / "slurm" / "study.sbatch"), str(run)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout


def test_variables_reach_the_ranks_whatever_sbatch_was_told_to_export(tmp_path):
    words = environment_of_ranks(tmp_path, 'echo "NodeName=node7 NodeAddr=10.0.0.7 State=UP "').splitlines()
    assert words[0] == "10.0.0.7:21234"
    assert words[3:5] == [str(tmp_path / "a run"), "--"]
    assert "--export=ALL" in words[words.index("srun") :]
    assert "--ntasks=4" in words


def test_rank_0_is_found_by_name_where_nodes_are_private(tmp_path):
    assert environment_of_ranks(tmp_path, "exit 1").startswith("node7:21234\n")


def test_nccl_is_held_to_each_choice_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "kanstudy").write_text('#!/bin/sh\nprintf "%s " "$@"\necho\n')
    (tmp_path / "kanstudy").chmod(0o755)

    def calls(**variables: str) -> list[str]:
        command = ["bash", str(ROOT / "slurm" / "force_nccl.sh"), "my profile", "a folder", "--launches", "5"]
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"} | variables
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("submit")]

    own, *held = calls()
    assert own.startswith("submit --profile my profile --results-dir a folder/own --only strong_scaling ")
    assert "--env" not in own
    assert len(held) == len({line.split("--env")[0] for line in held}) == 4
    assert "a folder/Tree-LL " in held[2]
    assert "--env NCCL_ALGO=allreduce:Tree --env NCCL_PROTO=allreduce:LL --launches 5" in held[2]
    assert "--env NCCL_ALGO=Tree --env NCCL_PROTO=LL --launches 5" in calls(NCCL_ONLY="")[3]


def test_holding_nccl_needs_a_profile_and_a_folder():
    done = subprocess.run(
        ["bash", str(ROOT / "slurm" / "force_nccl.sh"), "p"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "usage: slurm/force_nccl.sh PROFILE FOLDER" in done.stderr
