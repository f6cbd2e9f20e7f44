from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kanstudy import machine


def two_sockets(root: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    return root


def cgroup(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_one_cpu_of_each_core_comes_first(tmp_path: Path) -> None:
    root = two_sockets(tmp_path, {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"})
    assert machine.core_order(list(range(8)), root) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert machine.core_order([4, 5, 0], root) == [4, 5, 0]
    assert machine.usable_cores(list(range(8)), root) == 4
    assert machine.usable_cores([0, 4], root) == 1


def test_neighbouring_hyper_threads_are_told_apart(tmp_path: Path) -> None:
    root = two_sockets(tmp_path, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    assert machine.core_order([0, 1, 2, 3], root) == [0, 2, 1, 3]
    assert machine.physical_cores([0, 1, 2, 3], root) == 2


def test_without_topology_every_cpu_is_a_core(tmp_path: Path) -> None:
    assert machine.usable_cores([0, 1, 2], tmp_path) == 3
    assert machine.cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "quota", "usable"),
    [
        ({"cpu_DOT_max": "150000 100000"}, 1.5, 1),
        ({"cpu_DOT_max": "50000 100000"}, 0.5, 1),
        ({"cpu_DOT_max": "300000 100000"}, 3.0, 3),
        ({"cpu_DOT_max": "max 100000"}, None, 4),
        ({"cpu__cpu_DOT_cfs_quota_us": "200000", "cpu__cpu_DOT_cfs_period_us": "100000"}, 2.0, 2),
        ({"cpu__cpu_DOT_cfs_quota_us": "-1", "cpu__cpu_DOT_cfs_period_us": "100000"}, None, 4),
    ],
)
def test_the_control_group_limits_the_ranks(
    tmp_path: Path, files: dict[str, str], quota: float | None, usable: int
) -> None:
    root = cgroup(tmp_path, **files)
    assert machine.cpu_quota(root) == quota
    assert machine.usable_cores([0, 1, 2, 3], root) == usable


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/user/job", "sys/fs/cgroup/user/job/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/user/job",
                "sys/fs/cgroup/user/job/cpu.max": "max 100000",
                "sys/fs/cgroup/user/cpu.max": "200000 100000",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "0::/user/job",
                "sys/fs/cgroup/user/job/cpu.max": "300000 100000",
                "sys/fs/cgroup/user/cpu.max": "200000 100000",
                "sys/fs/cgroup/user/other/cpu.max": "100000 100000",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "7:memory:/other\n4:cpu,cpuacct:/job\n0::/",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu/other/cpu.cfs_quota_us": "100000",
                "sys/fs/cgroup/cpu/other/cpu.cfs_period_us": "100000",
            },
            2.5,
        ),
        (  # a container: its own group is the mount, /proc has the host's path
            {"proc/self/cgroup": "0::/docker/1f", "sys/fs/cgroup/cpu.max": "100000 100000"},
            1.0,
        ),
        ({"proc/self/cgroup": "5:cpuacct:/job", "sys/fs/cgroup/cpuacct/job/cpu.max": "100000 100000"}, None),
    ],
    ids=["own", "above", "least", "version 1", "container", "accounting alone"],
)
def test_the_process_own_group_and_those_above_it_limit_it(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    assert machine.cpu_quota(tree(tmp_path, files)) == quota


@pytest.mark.parametrize("text", ["", "a b", "100000", "100000 0", "0 100000", "1 2 3"])
def test_a_limit_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert machine.cpu_quota(cgroup(tmp_path, cpu_DOT_max=text)) is None
    files = {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": text, "sys/fs/cgroup/cpu/cpu.cfs_period_us": "0"}
    assert machine.cpu_quota(tree(tmp_path / "version1", files)) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
def test_the_affinity_mask_counts() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert machine.affinity() == [min(before)]
        assert machine.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        *((None, 2), ("0", 1), ("", 0), ("-1", 0), ("0,1,2,3", 2), (" 1 , 0 ", 2)),
        *(("0,7", 1), ("0,-1,1", 1), ("7,0", 0), ("0,0", 0), ("NoDevFiles", 0)),
        *(("GPU-2", 1), ("GPU-2,GPU-1", 2), ("GPU-9", 0), ("GPU-1,GPU-9,GPU-2", 1), ("MIG-x", 1)),
    ],
)
def test_gpus_are_counted_without_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\necho '  MIG 1g (UUID: MIG-x)'\necho 'GPU 1: A (UUID: GPU-2)'\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpu_count() == count


def test_no_driver_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpu_count() == 0
