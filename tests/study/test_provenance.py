from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kanstudy
from kanstudy.study import provenance
from kanstudy.study.provenance import collect, git_state


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit with a package in it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text("ignored/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=True).stdout.strip()


def test_everything_survives_json_and_has_a_meaning_here():
    found = collect()
    assert json.loads(json.dumps(found)) == found
    assert found["kanstudy"] == kanstudy.__version__
    assert found["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert found["packages"]["torch"]
    assert found["packages"]["numpy"]
    assert found["host"]
    assert found["system"]
    assert 1 <= found["physical_cores"] <= found["logical_cores"]
    assert found["cpus"]
    age = datetime.now(UTC) - datetime.fromisoformat(found["utc"])
    assert timedelta(seconds=-2) < age < timedelta(minutes=1)


def test_torch_is_not_imported():
    code = (
        "import sys; from kanstudy.study.provenance import collect, git_state; collect(); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "no-such-package"))
    assert collect()["packages"]["no-such-package"] is None


def test_a_clean_checkout(checkout):
    assert git_state(checkout / "package") == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}


@pytest.mark.parametrize(
    ("file", "is_dirty"),
    [
        ("package/__init__.py", True),
        ("package/new.py", True),
        (".gitignore", True),
        ("package/ignored/x.py", False),
        ("my_profile.toml", False),
    ],
)
def test_what_makes_a_checkout_dirty(checkout, file, is_dirty):
    (checkout / file).parent.mkdir(exist_ok=True)
    with (checkout / file).open("a") as stream:
        stream.write("# more\n")
    assert git_state(checkout / "package")["dirty"] is is_dirty


def test_a_hook_of_another_repository_does_not_answer(checkout, tmp_path, monkeypatch):
    expected = git_state(checkout / "package")
    assert expected is not None
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    assert git_state(checkout / "package") == expected


def test_a_package_installed_inside_somebodys_repository_has_no_commit(checkout):
    installed = checkout / "ignored" / "site-packages" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert git_state(installed) is None


def test_no_repository_no_commit_no_git(tmp_path, checkout, monkeypatch):
    assert git_state(Path("/")) is None
    assert git_state(tmp_path / "missing") is None
    git(tmp_path, "init", "-q", "empty")
    (tmp_path / "empty" / "__init__.py").write_text("")
    git(tmp_path / "empty", "add", ".")
    assert git_state(tmp_path / "empty") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(checkout / "package") is None


def test_a_git_that_hangs_is_not_waited_for(checkout, monkeypatch, tmp_path):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(provenance, "_GIT_TIMEOUT_S", 0.2)
    start = datetime.now(UTC)
    assert git_state(checkout / "package") is None
    assert datetime.now(UTC) - start < timedelta(seconds=10)


def test_settings_and_job_ids_are_kept_but_no_token():
    environ = {
        "OMP_NUM_THREADS": "1",
        "NCCL_DEBUG": "INFO",
        "GLOO_SOCKET_IFNAME": "eth0",
        "MALLOC_MMAP_MAX_": "0",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURM_JOB_ID": "42",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_JOB_NODELIST": "c[1-2]",
        "SLURM_JWT": "secret",
        "SLURM_JOB_USER": "secret",
        "HOME": "/home/me",
        "PATH": "/bin",
    }
    found = collect(environ)
    assert found["job"] == {"SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "42", "SLURM_JOB_NODELIST": "c[1-2]"}
    assert set(found["settings"]) == {
        *("OMP_NUM_THREADS", "NCCL_DEBUG", "GLOO_SOCKET_IFNAME", "MALLOC_MMAP_MAX_", "CUDA_VISIBLE_DEVICES")
    }
    assert "secret" not in json.dumps(found)


def test_what_the_machine_says(tmp_path):
    files = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU: fast  \nflags\t: x\nprocessor\t: 1\nmodel name\t: B\n",
        "proc/meminfo": "MemTotal:       16000 kB\nMemFree: 3 kB\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = collect({}, tmp_path)
    assert found["cpu_model"] == "A CPU: fast"
    assert found["memory_bytes"] == 16000 * 1024
    assert found["cpu_quota"] == 1.5
    assert found["cpu_governor"] == "performance, powersave"


def test_an_odd_control_group_raises_nothing(tmp_path):
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("much 0\n")
    assert collect({}, tmp_path)["cpu_quota"] is None


def test_what_the_machine_does_not_say_is_none(tmp_path):
    found = collect({}, tmp_path)
    for name in ("cpu_model", "memory_bytes", "cpu_quota", "cpu_governor"):
        assert found[name] is None
    assert found["job"] == found["settings"] == {}
    assert found["physical_cores"] >= 1
