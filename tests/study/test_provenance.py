from __future__ import annotations

import json
import os
import subprocess

import numpy
import pytest

from kanstudy.study.provenance import collect, git_state


@pytest.fixture
def checkout(tmp_path):
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=own).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    return tmp_path, git


def test_the_commit_and_whether_it_is_what_ran(checkout):
    folder, git = checkout
    assert git_state(folder) == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (folder / "untracked").write_text("results")
    assert git_state(folder)["dirty"] is False
    (folder / "file").write_text("b")
    assert git_state(folder)["dirty"] is True


def test_no_checkout_has_no_commit(checkout, tmp_path):
    folder, _ = checkout
    (folder / "below").mkdir()
    assert git_state(folder / "below") is None
    assert git_state(tmp_path / "absent") is None


def test_settings_that_matter_are_kept_and_nothing_else_of_the_environment():
    found = collect({"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring", "SECRET": "x", "SLURM_JOB_ID": "7"})
    assert found["settings"] == {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "1", "SLURM_JOB_ID": "7"}
    assert found["packages"]["numpy"] == numpy.__version__
    assert found["cpus"]
    assert json.loads(json.dumps(found)) == found
