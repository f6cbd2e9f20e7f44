"""The Makefile's own decisions: which Python it takes, when it installs, what it removes. pip is a stand-in here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

PYTHON = """#!/bin/sh
# a Python that makes environments of its own kind: it says its version, and logs what is installed
case "$*" in
  -c*print*) echo {version} ;;
  -c*) ;;
  "-m venv .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/pip; cp "$0" .venv/bin/kanstudy ;;
  "-m pip install"*) echo "$*" >> installs ;;
  *) echo "$*" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    folder = tmp_path / "a check out"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(repository / name, folder)
    return folder


def make(checkout: Path, *arguments: str, version: str = "3.12") -> subprocess.CompletedProcess[str]:
    python = checkout / f"python{version}"
    python.write_text(PYTHON.format(version=version))
    python.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def installs(checkout: Path) -> list[str]:
    log = checkout / "installs"
    return log.read_text().splitlines() if log.exists() else []


def test_a_python_that_is_too_old_or_absent_is_named_and_nothing_is_made(checkout):
    for python in ("./python3.10", "./absent"):
        result = make(checkout, "study", f"PYTHON={python}", version="3.10")
        assert result.returncode == 2
        assert "kanstudy needs 3.11 to 3.13" in result.stderr
        assert python in result.stderr
        assert not (checkout / ".venv").exists()


def test_study_installs_once_and_again_only_when_the_requirements_change(checkout):
    first = make(checkout, "study", "PYTHON=./python3.12", "PROFILE=my own.toml")
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == "run --profile my own.toml"
    assert len(installs(checkout)) == 1
    assert "-c constraints.txt -e ." in installs(checkout)[0]
    assert make(checkout, "study").stdout == "run --profile laptop\n"  # the environment's own Python from now on
    assert len(installs(checkout)) == 1
    os.utime(checkout / "constraints.txt", (2e9, 2e9))
    make(checkout, "study")
    assert len(installs(checkout)) == 2


def test_another_python_than_the_environments_is_refused(checkout):
    make(checkout, "study", "PYTHON=./python3.12")
    python = checkout / ".venv/bin/python"
    python.write_text("#!/bin/sh\nexit 1\n")  # says that its version is not the one asked for
    result = make(checkout, "study", "PYTHON=./python3.13", version="3.13")
    assert result.returncode == 2
    assert "run make clean first" in result.stderr
    assert len(installs(checkout)) == 1


def test_clean_keeps_what_was_measured(checkout):
    make(checkout, "study", "PYTHON=./python3.12")
    for name in ("results/laptop/record.json", "figures/laptop/a.pdf", "kanstudy/__pycache__/a.pyc", "tests/a.py"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    assert make(checkout, "clean", "PYTHON=./python3.12").returncode == 0
    left = {path.name for path in checkout.rglob("*") if path.is_file()}
    assert {"record.json", "a.pdf", "a.py"} <= left
    assert "a.pyc" not in left
    assert not (checkout / ".venv").exists()
