"""Where a study may find itself: odd folders, no home, no git, commas in numbers, a clock that jumps, one core."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pytest
from papermill_run import Batch
from profiles_for_tests import MACHINE
from trial import Trial

pytestmark = pytest.mark.faults


@pytest.fixture
def no_home(tmp_path):
    """Variables of someone whose home cannot be written, not even by root."""
    home = tmp_path / "home"
    home.write_text("a file")
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}


@pytest.fixture
def german(tmp_path):
    """Variables of someone who writes 0,5; none where this machine has no such language."""
    compiler, folder = shutil.which("localedef"), tmp_path / "locales"
    folder.mkdir()
    if compiler is None:
        return {}
    subprocess.run([compiler, "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, check=False)
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"} if any(folder.iterdir()) else {}


def test_an_odd_path_without_home_or_git_where_numbers_have_commas(tmp_path, no_home, german):
    trial = Trial(tmp_path / 'it\'s a "größe" $HOME; of 文 {x} %d', "ranks")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("gcc", "cc", "ld", "as"):  # what git is beside
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    with trial.started(PATH=str(programs), **no_home, **german) as study:
        said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    assert "Traceback" not in said
    assert all(record.provenance["git"] is None for record in trial.records().values())
    trial.is_whole_after_another_run()


def test_notebooks_run_without_a_home(tmp_path, make_notebook, no_home, german):
    trial = Trial(tmp_path / 'it\'s a "größe" $HOME; of 文 {x} %d')
    batch = Batch(trial, make_notebook, **no_home, **german)
    said = batch.end()
    assert batch.process.returncode == 0, said
    assert "Traceback" not in said
    trial.is_whole_after_another_run()


def test_the_clock_is_set_back(tmp_path):
    trial = Trial(tmp_path, "ranks")
    trial.fault("clock", rank=0)
    assert trial.run(max_minutes=60).left == []
    rounds = trial.record(trial.last).arms["ddp"].rounds
    assert [item.index for item in rounds] == [0, 1, 2]
    assert all(time > 0 for item in rounds for times in item.rank_step_times_s for time in times)
    trial.is_whole_after_another_run()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or shutil.which("taskset") is None, reason="needs taskset")
def test_a_machine_of_one_core(tmp_path):
    core = str(min(os.sched_getaffinity(0)))
    many = Trial(tmp_path / "many", "ranks")
    many.profile.write_text(many.profile.read_text().replace("allow_oversubscription = true", ""))
    with many.started("taskset", "-c", core) as study:
        said, _ = study.communicate(timeout=300)
    assert study.returncode == 1
    assert "2 ranks x 1 threads_per_rank are more than the 1 cores that are usable here" in said
    assert "Traceback" not in said
    assert not many.records()

    one = Trial(tmp_path / "one", "ranks")
    one.profile.write_text(one.profile.read_text().replace(MACHINE.strip(), '[machine]\ndevice = "cpu"'))
    with one.started("taskset", "-c", core) as study:
        said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    assert [record.world_size for record in one.records().values()] == [1, 1]
    assert {record.status for record in one.records().values()} == {"ok"}


def test_a_quota_of_one_core(tmp_path):
    root = Path("/sys/fs/cgroup")
    version_1 = (root / "cpu" / "cpu.cfs_period_us").exists() or (root / "cpu" / "tasks").exists()
    group = (root / "cpu" if version_1 else root) / f"kanstudy-{uuid.uuid4().hex}"
    try:
        group.mkdir()
        if version_1:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("100000")
        else:
            (group / "cpu.max").write_text("100000 100000")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    code = (
        "import sys, os, json; open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "from kanstudy.machine import usable_cores\n"
        "from kanstudy.study.profile import load_profile\n"
        "print(json.dumps([usable_cores(), load_profile('laptop').world_sizes]))"
    )
    try:
        command = [sys.executable, "-c", code, str(group / "cgroup.procs")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert json.loads(done.stdout) == [1, [1]]
    finally:
        group.rmdir()


def test_an_installed_wheel_in_place_of_a_checkout(tmp_path, repository):
    source = tmp_path / "source"
    shutil.copytree(repository / "kanstudy", source / "kanstudy", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    subprocess.run(wheel, cwd=source, check=True, capture_output=True, timeout=300)
    (built,) = tmp_path.glob("*.whl")
    installed, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    zipfile.ZipFile(built).extractall(installed)
    elsewhere.mkdir()

    def kanstudy(*arguments: str) -> tuple[int, str]:
        code = "from kanstudy.cli import main; main(prog_name='kanstudy')"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=elsewhere,
            env=os.environ | {"PYTHONPATH": str(installed)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert "Traceback" not in done.stdout
        return done.returncode, done.stdout

    assert kanstudy("status", "--profile", "smoke")[0] == 0
    code, said = kanstudy("run", "--profile", "smoke")
    assert code == 2
    assert f"{elsewhere}/notebooks: no such folder: kanstudy runs the notebooks of a checkout" in said
    assert not list(elsewhere.iterdir())
    trial = Trial(tmp_path / "trial", "ranks")
    with trial.started(package=installed) as study:
        said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    assert all(record.provenance["git"] is None for record in trial.records().values()), "it was not the checkout"
    trial.is_whole_after_another_run()
