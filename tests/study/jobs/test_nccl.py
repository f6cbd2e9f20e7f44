"""NCCL's own words, as its versions write them."""

from __future__ import annotations

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
    assert nccl.algorithms(INFINIBAND) == {"4": "tree ll", "26214400": "ring simple"}
    assert nccl.algorithms(SOCKET) == {"1048576": "ring simple"}


def test_lines_are_kept_once_and_without_the_process():
    lines = nccl.telling_lines(INFINIBAND + INFINIBAND.replace("node1:7", "node1:8"))
    assert lines[0] == "NCCL version 2.27.5+cuda12.9"
    assert lines.count("Using network IB") == 1
    assert len(nccl.telling_lines(INFINIBAND, most=3)) == 3
