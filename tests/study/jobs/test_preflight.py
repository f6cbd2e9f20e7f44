"""What is said of nodes that do not fit together: one message, of the cause, with the node's name."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from profiles_for_tests import STRONG, write
from test_nccl import INFINIBAND, SOCKET

from kanstudy.network_words import GROUP_MARK
from kanstudy.study.jobs import preflight
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.jobs.preflight import PreflightError, judge, summary
from kanstudy.study.profile import Profile, load_profile

CLUSTER = '[cluster]\nnodes = 2\nranks_per_node = 2\ntime_limit = "01:00:00"\ncpus_per_task = 2\n'
MACHINE = '[machine]\ndevice = "cpu"\nworld_sizes = [1, 2, 4]\nthreads_per_rank = 2\n'


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return load_profile(write(tmp_path, STRONG, MACHINE, CLUSTER))


def reports(**changes: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Four ranks on two nodes with which all is well, but for `rank2={...}` and the like."""
    found: list[dict[str, Any] | None] = []
    for rank in range(4):
        node = f"node{1 + rank // 2}"
        report = {
            "rank": rank,
            "local_rank": rank % 2,
            "node": node,
            "host": node,
            "cores": [2 * (rank % 2), 2 * (rank % 2) + 1],
            "python": "3.11.2",
            "kanstudy": "0.1.0",
            "master": "10.0.0.1",
            "address": f"10.0.0.{1 + rank // 2}",
            "interfaces": ["lo", "eth0", "ib0"],
            "infiniband": ["mlx5_0"],
            "results_error": None,
            "torch": "2.9",
            "cuda": None,
            "nccl": None,
            "meeting_s": 0.001,
        }
        found.append(report | changes.get(f"rank{rank}", {}))
    return found


def lacking(rank: int, *names: str, **changes: Any) -> list[dict[str, Any] | None]:
    found = reports(**{f"rank{rank}": changes})
    for name in names:
        found[rank].pop(name)
    return found


def test_nothing_is_said_where_all_is_well(profile):
    assert judge(reports(), profile, {}) is None


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            reports(rank2={"results_error": "No space left on device"}),
            "node2: rank 2: the results cannot be written: No",
        ),
        (
            lacking(2, "torch", "meeting_s", error="ModuleNotFoundError: No module named 'torch'"),
            "node2: rank 2: Module",
        ),
        (lacking(3, "torch", "meeting_s"), "node2: rank 3: torch was not imported in time"),
        (
            lacking(3, "torch", "meeting_s", error="RuntimeError: torch sees no GPU: Found no NVIDIA driver"),
            "node2: rank 3: RuntimeError: torch",
        ),
        (
            reports(rank3={"torch": "2.6"}),
            "node2: rank 3 has torch 2.6, rank 0 on node1 has 2.9: all must have the same",
        ),
        (reports(rank1={"gpu": "H100"}), "node1: rank 1 has gpu H100, rank 0 on node1 has None"),
        (reports(rank2={"gpu_uuid": "A"}, rank3={"gpu_uuid": "A"}), "node2: ranks 2 and 3 have the same GPU, A"),
        (reports(rank1={"cores": [0]}), "node1: rank 1 may use 1 cores, not its threads_per_rank = 2"),
        (
            reports(rank2={"address": "127.0.0.1"}),
            "node2: rank 0's address '10.0.0.1' is a loopback there, but 2 hosts",
        ),
        (reports(rank2={"address": None}), "node2: rank 2: rank 0's address '10.0.0.1' leads nowhere"),
        (
            lacking(2, "meeting_s", error="DistNetworkError: timed out"),
            "node2: rank 2: did not meet the other ranks: Dist",
        ),
        (lacking(3, "meeting_s"), "node2: rank 3: did not meet the others: it waited in vain"),
        ([*reports()[:2], None, None], "ranks 2, 3 did not report; heard of 2 ranks on node1"),
        ([None] * 4, "ranks 0, 1, 2, 3 did not report; no rank was heard of"),
    ],
)
def test_the_cause_and_the_node_are_named(profile, found, message):
    assert judge(found, profile, {}).startswith(message)


def test_the_same_gpu_number_on_two_nodes_is_two_gpus(profile):
    assert judge(reports(rank0={"gpu_uuid": "A"}, rank2={"gpu_uuid": "A"}), profile, {}) is None


def test_on_one_host_a_loopback_will_do(profile):
    local = {"host": "here", "address": "127.0.0.1"}
    assert judge(reports(rank0=local, rank1=local, rank2=local, rank3=local), profile, {}) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GLOO_SOCKET_IFNAME": "ib1"}, "node1: GLOO_SOCKET_IFNAME = ib1: no such interface, there are lo, eth0, ib0"),
        ({"NCCL_SOCKET_IFNAME": "hsn,ens"}, "node1: NCCL_SOCKET_IFNAME = hsn,ens: no such interface"),
        ({"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib"}, None),
        ({"NCCL_SOCKET_IFNAME": "^docker0,lo"}, None),
    ],
)
def test_interfaces_that_variables_name_must_be_there(profile, variables, message):
    found = judge(reports(), profile, variables)
    assert found is None if message is None else found.startswith(message)


def test_a_slow_network_beside_infiniband_is_flagged():
    assert summary(reports(), SOCKET)["flag"] == "NCCL went over NET/Socket although there is InfiniBand"
    assert summary(reports(), INFINIBAND)["flag"] is None
    without = {f"rank{rank}": {"infiniband": []} for rank in range(4)}
    assert summary(reports(**without), SOCKET)["flag"] is None
    kept = summary(reports(), INFINIBAND)
    assert (kept["nccl_networks"], kept["nccl_algorithms"]["4"], kept["master"]) == (["IB"], "Tree LL", "10.0.0.1")
    assert [rank["node"] for rank in kept["ranks"]] == ["node1", "node1", "node2", "node2"]


def test_choices_of_groups_are_kept_apart_from_those_of_all_ranks():
    line = "0: x [0] NCCL INFO AllReduce: 26214400 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}\n"
    kept = summary(reports(), f"{INFINIBAND}0: {GROUP_MARK} 2x1\n{line}")
    assert kept["nccl_algorithms"]["26214400"] == "Ring Simple"
    assert kept["nccl_algorithms_of_groups"] == {"2x1": {"26214400": "Tree Simple"}}


def test_nccl_is_asked_about_every_group_that_is_measured(tmp_path):
    cluster = CLUSTER.replace("nodes = 2", "nodes = 4") + 'placements = ["packed", "spread"]\n'
    machine = '[machine]\ndevice = "{}"\nworld_sizes = [1, 2, 4, 8]\nthreads_per_rank = 2\n'
    on_gpus = load_profile(write(tmp_path, STRONG, machine.format("cuda"), cluster))
    assert preflight.groups(on_gpus) == ["2:packed", "2:spread", "4:packed", "4:spread", "8:packed"]
    assert preflight.groups(load_profile(write(tmp_path, STRONG, machine.format("cpu"), cluster))) == []


def step(code: str) -> list[str]:
    """A stand-in for srun: runs Python `code`, which finds `FOLDER RESULTS DEVICE` in the last three arguments."""
    return [sys.executable, "-c", code]


def check(profile: Profile, folder: Path, code: str) -> preflight.Report:
    allocation = Allocation(profile.cluster, step(code), lambda: "RUNNING")
    return preflight.check(allocation, profile, folder / "r", folder / "found", {})


def telling(folder: Path, ranks: int, printed: str = "") -> str:
    """Code of a step of which so many ranks write good reports, and that prints a line."""
    good = folder / "good.json"
    good.write_text(json.dumps(reports()[:ranks]))
    return (
        f"import json, pathlib, sys; print({printed!r})\n"
        f"for report in json.loads(pathlib.Path({str(good)!r}).read_text()):\n"
        "    pathlib.Path(sys.argv[-3], str(report['rank']) + '.json').write_text(json.dumps(report))"
    )


def test_reports_come_from_files(profile, tmp_path):
    assert check(profile, tmp_path, telling(tmp_path, 4))["meeting_s"] == 0.001


def test_a_rank_that_cannot_write_is_heard_all_the_same(profile, tmp_path):
    printed = '3: {"rank": 3, "node": "node2", "results_error": "No space left on device"}'
    with pytest.raises(
        PreflightError, match="before measuring: node2: rank 3: the results cannot be written: No space"
    ):
        check(profile, tmp_path, telling(tmp_path, 3, printed))


def test_the_words_of_a_step_that_did_not_start_are_shown(profile, tmp_path):
    code = "import sys; sys.exit('srun: error: Unable to create step for job 4: Invalid generic resource')"
    with pytest.raises(PreflightError, match="no rank was heard of; it said: srun: error: Unable to create step"):
        check(profile, tmp_path, code)


def test_it_ends_in_time(profile, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "LIMIT_S", 0.3)
    start = time.monotonic()
    with pytest.raises(PreflightError, match="did not report"):
        check(profile, tmp_path, "import time; time.sleep(600)")
    assert time.monotonic() - start < 30


def test_words_of_nccl_are_heard_though_a_profile_sends_them_to_a_file(profile, tmp_path):
    code = "import os; assert 'NCCL_DEBUG_FILE' not in os.environ\n" + telling(tmp_path, 4)
    allocation = Allocation(profile.cluster, step(code), lambda: "RUNNING")
    environment = {"NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p"}
    preflight.check(allocation, profile, tmp_path / "r", tmp_path / "found", environment)
