"""NCCL's own words, as its versions write them."""

from __future__ import annotations

import pytest

from kanstudy.network_words import GROUP_MARK
from kanstudy.study.jobs import nccl

INFINIBAND = """\
0: node1:7:7 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
0: node1:7:19 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.
0: node1:7:19 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB ib0:10.1.2.3<0>
0: node1:7:19 [0] NCCL INFO Using network IB
0: node1:7:19 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0
0: node1:7:19 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
0: node1:7:19 [0] NCCL INFO Connected all rings
0: node1:7:7 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
0: node1:7:7 [0] NCCL INFO AllReduce: 26214400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}
"""
SOCKET = """\
0: node1:7:19 [0] NCCL INFO NET/IB : No device found.
0: node1:7:19 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.2.3<0>
0: node1:7:19 [0] NCCL INFO Using network Socket
0: node1:7:19 [0] NCCL INFO 1048576 Bytes -> Algo 1 proto 2 time 28.6
"""


def test_the_network_is_that_of_the_channels():
    assert nccl.networks(INFINIBAND) == ["IB"]
    assert nccl.networks(SOCKET + INFINIBAND.splitlines()[4]) == ["IB"]


def test_without_channels_between_hosts_it_is_what_was_chosen():
    assert nccl.networks(SOCKET) == ["Socket"]
    assert nccl.networks("x [0] NCCL INFO Assigned NET plugin Libfabric to comm") == ["Libfabric"]
    assert nccl.networks("x [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE") == ["IB"]
    assert nccl.networks("nothing") == []


def test_algorithms_by_size_in_old_and_new_words():
    assert nccl.algorithms(INFINIBAND) == {"4": "Tree LL", "26214400": "Ring Simple"}
    assert nccl.algorithms(SOCKET) == {"1048576": "Ring Simple"}


def test_lines_are_kept_once_and_without_the_process():
    lines = nccl.telling_lines(INFINIBAND + INFINIBAND.replace("node1:7", "node1:8"))
    assert lines[0] == "NCCL version 2.27.5+cuda12.9"
    assert lines.count("Using network IB") == 1
    assert len(nccl.telling_lines(INFINIBAND, most=3)) == 3
    assert nccl.telling_lines(f"{INFINIBAND}0: {GROUP_MARK} 2x1\n{SOCKET}") == nccl.telling_lines(INFINIBAND)


@pytest.mark.parametrize(
    ("line", "choice"),
    [
        ("NCCL INFO 4194304 Bytes -> Algo 0 proto 1 time 51.200001", "Tree LL128"),  # 2.20 to 2.22
        ("NCCL INFO AllReduce: 4194304 Bytes -> Algo 1 proto 0 time 51.200001", "Ring LL"),  # 2.23
        ("NCCL INFO AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}", "Ring Simple"),  # 2.24
        (
            "NCCL INFO AllReduce: 4194304 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}",
            "NVLSTree Simple",
        ),
        (
            "NCCL INFO AllReduce: 4194304 Bytes -> Algo COLLNET_DIRECT proto LL channel{Lo..Hi}={0..1}",
            "CollNetDirect LL",
        ),
        ("NCCL INFO 4194304 Bytes -> Algo 9 proto 7 time 1.0", "9 7"),
        ("NCCL INFO AllReduce: 4194304 Bytes -> Algo NEW proto LL", "NEW LL"),
    ],
)
def test_choices_in_the_words_of_several_versions(line, choice):
    assert nccl.algorithms(f"0: node1:7:7 [0] {line}\n") == {"4194304": choice}


def test_other_collectives_are_not_all_reduces():
    line = "x [0] NCCL INFO Broadcast: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}"
    assert nccl.algorithms(line) == {}


def test_choices_of_groups_by_their_layout():
    line = "0: node1:7:7 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo {} proto LL channel{{Lo..Hi}}={{0..0}}\n"
    log = line.format("TREE") + f"0: {GROUP_MARK} 2x1\n" + "1: other words\n" + line.format("RING")
    log += f"0: {GROUP_MARK} 2+2+1\n" + line.format("TREE") + f"0: {GROUP_MARK} 4x1\n"
    assert nccl.algorithms(log) == {"4096": "Tree LL"}
    assert nccl.algorithms_of_groups(log) == {"2x1": {"4096": "Ring LL"}, "2+2+1": {"4096": "Tree LL"}}
    assert nccl.algorithms_of_groups(INFINIBAND) == {}
