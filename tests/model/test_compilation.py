"""numba's cache among processes: compiled once, by one at a time, and never a reason to fail."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kanstudy.model import compilation
from kanstudy.model.compilation import one_process_at_a_time

USE = """
import sys, time
import torch
from kanstudy.model import KANLayer, kernels
layer, truth = KANLayer(3, 2, operator="fused"), KANLayer(3, 2, operator="reference")
truth.load_state_dict(layer.state_dict())
x = torch.randn(9, 3)
if len(sys.argv) > 1:
    exec(sys.argv[1])
assert torch.allclose(layer(x), truth(x), atol=1e-5)
own = (*kernels._uniform_kernels(3), kernels._locate)
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in own),
      sum(sum(kernel.stats.cache_hits.values()) for kernel in own))
"""


def start(folder: Path | str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", USE, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def misses_and_hits(process: subprocess.Popen[str]) -> tuple[int, int]:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert error == ""
    misses, hits = out.split()
    return int(misses), int(hits)


def test_of_processes_started_together_one_compiles(tmp_path):
    found = [misses_and_hits(process) for process in [start(tmp_path) for _ in range(4)]]
    assert sum(misses > 0 for misses, _ in found) == 1
    assert sorted(found)[:3] == [(0, 2)] * 3  # both kernels were loaded, which contain what they call
    assert max(found)[0] == 3


def test_a_folder_that_cannot_be_made_or_a_full_disk_does_not_stop(tmp_path):
    assert sum(misses_and_hits(start("/dev/null/nowhere"))) >= 2  # numba may know another folder
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    assert misses_and_hits(start(tmp_path, full)) == (3, 0)
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_damaged_cache_is_made_anew(tmp_path, suffix, left):
    assert misses_and_hits(start(tmp_path)) == (3, 0)
    for file in tmp_path.rglob(f"*{suffix}"):
        content = file.read_bytes()
        file.write_bytes(content[: int(left * len(content))])
    assert misses_and_hits(start(tmp_path))[0] >= 2
    assert misses_and_hits(start(tmp_path)) == (0, 2)


def test_without_any_folder_kernels_are_compiled_all_the_same(monkeypatch):
    def no_folder(*_):
        raise RuntimeError("cannot cache function: no locator available")

    def twice(values):  # type: ignore[no-untyped-def]
        for i in range(len(values)):
            values[i] *= 2

    monkeypatch.setattr(compilation, "_Cache", no_folder)
    kernel = compilation.compiled(twice)
    values = np.ones(3)
    with one_process_at_a_time(kernel):
        kernel(values)
    assert values.tolist() == [2, 2, 2]


@pytest.fixture
def kernel(tmp_path):
    """What stands for a kernel whose cache is a new folder."""
    return SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path / "cache")))


@pytest.fixture
def lock_file(tmp_path):
    return tmp_path / "cache" / "kanstudy.lock"


HOLD = """
import fcntl, os, sys, time
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(lock_file):
    """Another process that holds the lock and does not end by itself."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock_file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_stuck_process_is_waited_for_only_so_long(kernel, holder, monkeypatch):
    monkeypatch.setattr(compilation, "LONGEST_WAIT_S", 0.3)
    started = time.monotonic()
    with one_process_at_a_time(kernel):
        waited = time.monotonic() - started
    assert 0.3 <= waited < 10
    assert holder.poll() is None


def test_a_killed_process_releases(kernel, holder):
    holder.send_signal(signal.SIGKILL)
    started = time.monotonic()
    with one_process_at_a_time(kernel):
        assert time.monotonic() - started < 30 < compilation.LONGEST_WAIT_S


def test_inside_nobody_else_is_and_afterwards_anybody_may(kernel, lock_file):
    def is_free():
        with open(lock_file, "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def fails_inside():
        with one_process_at_a_time(kernel):
            assert not is_free()
            raise KeyError

    with pytest.raises(KeyError):
        fails_inside()
    assert is_free()


def test_a_folder_without_locks_is_no_reason_to_wait(monkeypatch, kernel):
    def no_locks(*_):
        raise OSError("No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    entered = False
    with one_process_at_a_time(kernel):
        entered = True
    assert entered
