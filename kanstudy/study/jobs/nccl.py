"""What NCCL says of its own choices, from the log that NCCL_DEBUG=INFO makes it write: network, algorithm, channels."""

from __future__ import annotations

import re

from kanstudy.network_words import GROUP_MARK, NCCL_ALGORITHMS, NCCL_PROTOCOLS

SUBSYSTEMS = "INIT,ENV,NET,GRAPH,TUNING"
"""NCCL_DEBUG_SUBSYS of a log that has all that is read here."""
_USED = re.compile(r"\bvia NET/(\w+)")
_CHOSEN = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ([\w-]+)")
_FOUND = re.compile(r"NCCL INFO NET/(\w+) : Using ")
_ALGORITHM = re.compile(r"NCCL INFO (?:AllReduce: )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
_TELLING = ("NCCL version", "NET/", "Using network", "Channel 00/", "Connected all", "Trees [0]", "Bytes -> Algo")


def networks(log: str) -> list[str]:
    """The networks between hosts, such as IB or Socket: those of channels, else what it chose, else what it found."""
    for pattern in (_USED, _CHOSEN, _FOUND):
        if found := set(pattern.findall(log)):
            return sorted(found)
    return []


def algorithms(log: str) -> dict[str, str]:
    """Algorithm and protocol by the bytes of an all-reduce of all ranks, such as {"4": "Tree LL"}.

    NCCL tells them from 2.20 on: at first as numbers and without the collective's name, since 2.24 in words.
    """
    return _choices(log.partition(GROUP_MARK)[0])


def algorithms_of_groups(log: str) -> dict[str, dict[str, str]]:
    """The same for each group that was told apart by `GROUP_MARK`, by its layout, such as {"2x1": {"4": "Ring LL"}}."""
    found = {}
    for part in log.split(GROUP_MARK)[1:]:
        layout, _, rest = part.lstrip().partition("\n")
        if choices := _choices(rest):
            found[layout.strip()] = choices
    return found


def _choices(log: str) -> dict[str, str]:
    return {
        size: f"{_word(algorithm, NCCL_ALGORITHMS)} {_word(protocol, NCCL_PROTOCOLS)}"
        for size, algorithm, protocol in _ALGORITHM.findall(log)
    }


def _word(told: str, words: tuple[str, ...]) -> str:
    """NCCL's number or name, such as 1 or COLLNET_DIRECT, as its environment variables have it."""
    if told.isdigit():
        return words[int(told)] if int(told) < len(words) else told
    return next((word for word in words if word.upper() == told.replace("_", "").upper()), told)


def telling_lines(log: str, most: int = 30) -> list[str]:
    """NCCL's own lines on its choices for all ranks, each once, without the host and the process that wrote them."""
    said = (line.partition("NCCL INFO ")[2] for line in log.partition(GROUP_MARK)[0].splitlines())
    return list(dict.fromkeys(line for line in said if any(word in line for word in _TELLING)))[:most]
