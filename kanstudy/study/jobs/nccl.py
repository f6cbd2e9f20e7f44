"""What NCCL says of its own choices, from the log that NCCL_DEBUG=INFO makes it write: network, algorithm, channels."""

from __future__ import annotations

import re

SUBSYSTEMS = "INIT,ENV,NET,GRAPH,TUNING"
"""NCCL_DEBUG_SUBSYS of a log that has all that is read here."""
_USED = re.compile(r"\bvia NET/(\w+)")
_CHOSEN = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ([\w-]+)")
_FOUND = re.compile(r"NCCL INFO NET/(\w+) : Using ")
_ALGORITHM = re.compile(r"NCCL INFO (?:AllReduce: )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
_NUMBERED = ({"0": "tree", "1": "ring"}, {"0": "ll", "1": "ll128", "2": "simple"})
_TELLING = ("NCCL version", "NET/", "Using network", "Channel 00/", "Connected all", "Trees [0]", "Bytes -> Algo")


def networks(log: str) -> list[str]:
    """The networks between hosts, such as IB or Socket: those of channels, else what it chose, else what it found."""
    for pattern in (_USED, _CHOSEN, _FOUND):
        if found := set(pattern.findall(log)):
            return sorted(found)
    return []


def algorithms(log: str) -> dict[str, str]:
    """Algorithm and protocol by the bytes of an all-reduce, such as {"4": "tree ll"}."""
    names, protocols = _NUMBERED
    return {
        size: f"{names.get(name, name.lower())} {protocols.get(protocol, protocol.lower())}"
        for size, name, protocol in _ALGORITHM.findall(log)
    }


def telling_lines(log: str, most: int = 30) -> list[str]:
    """NCCL's own lines on its choices, each once, without the host and the process that wrote them."""
    said = (line.partition("NCCL INFO ")[2] for line in log.splitlines())
    return list(dict.fromkeys(line for line in said if any(word in line for word in _TELLING)))[:most]
