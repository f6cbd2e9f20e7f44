"""What a rank reports before anything is measured."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from kanstudy.network_words import GROUP_MARK
from kanstudy.worker import preflight
from kanstudy.worker.preflight import look_around


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(
    rank: int, port: int, folder: Path, results: Path, ranks: int = 2, groups: tuple[str, ...] = (), node: str = ""
) -> subprocess.Popen[str]:
    environment = {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "SLURMD_NODENAME": node,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "kanstudy.worker.preflight", str(folder), str(results), "cpu", *groups],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_two_ranks_meet(tmp_path):
    port = free_port()
    ranks = [start(rank, port, tmp_path, tmp_path) for rank in range(2)]
    assert [process.wait(240) for process in ranks] == [0, 0]
    reports = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert [report["rank"] for report in reports] == [0, 1]
    assert all(report["meeting_s"] > 0 and report["address"] == "127.0.0.1" for report in reports)
    assert not list(tmp_path.glob(".probe*"))


@pytest.mark.slow
def test_groups_are_told_apart_by_their_first_rank(tmp_path):
    port, nodes = free_port(), ("a", "a", "b")
    groups = ("2:packed", "2:spread", "3:packed")
    ranks = [start(rank, port, tmp_path, tmp_path, 3, groups, node) for rank, node in enumerate(nodes)]
    printed = [process.communicate(timeout=240)[0] for process in ranks]
    marks = [[line for line in text.splitlines() if line.startswith(GROUP_MARK)] for text in printed]
    assert marks == [[f"{GROUP_MARK} {layout}" for layout in ("1x2", "2x1", "2+1")], [], []]
    reports = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert [report.get("error") for report in reports] == [None] * 3


@pytest.mark.slow
def test_one_that_cannot_write_prints(tmp_path):
    (tmp_path / "file").write_text("")
    process = start(0, free_port(), tmp_path / "file", tmp_path / "file", ranks=1)
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    report = json.loads(printed.splitlines()[0])
    assert (report["rank"], report["results_error"]) == (0, "Not a directory")


def test_it_looks_around_without_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "no.such.host.invalid")
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    report = look_around(tmp_path)
    assert (report["node"], report["address"], report["results_error"]) == ("node7", None, None)
    assert report["cores"] == sorted(os.sched_getaffinity(0))
    assert "lo" in report["interfaces"]


def test_a_rank_waits_for_one_that_imports_slowly_and_not_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "MEET_BY_S", 60.0)
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path), str(tmp_path), "cpu"])
    waits: list[float] = []
    monkeypatch.setattr(preflight, "look_with_torch", lambda device: time.sleep(0.3) or {})
    monkeypatch.setattr(preflight, "meet", lambda device, wait_s: waits.append(wait_s) or 0.1)
    monkeypatch.setattr(preflight, "reduce_in_groups", lambda *arguments: None)
    monkeypatch.setattr(preflight.os, "_exit", lambda code: None)
    preflight.main()
    assert preflight._LEAST_WAIT_S < waits[0] <= 59.7


def test_without_a_gpu_torchs_own_words_say_why():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(RuntimeError, match=r"^torch sees no GPU: .*(CUDA|NVIDIA).* \(torch .*, CUDA_VISIBLE_DEVICES="):
        preflight.look_with_torch("cuda")
