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
