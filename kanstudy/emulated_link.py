"""A link between nodes that are not there: written `RATE:LATENCY`, such as `100mbit:1ms`.

`kanstudy.study.emulation` makes one, between network namespaces of this machine.

Standard library only: both the planner and the worker import this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"(\d+(?:\.\d+)?)mbit:(\d+(?:\.\d+)?)ms")
_MBIT = 1e6 / 8
SLOWEST_MBIT, FASTEST_MBIT, LONGEST_MS = 1.0, 10_000.0, 1000.0


@dataclass(frozen=True)
class EmulatedLink:
    """What a rank sends leaves it at `bytes_per_s`, and arrives `latency_s` after its last byte left (one way)."""

    bytes_per_s: float
    latency_s: float

    def __str__(self) -> str:
        return f"{self.bytes_per_s / _MBIT:.12g}mbit:{self.latency_s * 1e3:.12g}ms"


def parse(text: str) -> EmulatedLink:
    """The link that is written so; `ValueError` says what is allowed."""
    match = _TEXT.fullmatch(text)
    if match and SLOWEST_MBIT <= float(match[1]) <= FASTEST_MBIT and float(match[2]) <= LONGEST_MS:
        return EmulatedLink(bytes_per_s=float(match[1]) * _MBIT, latency_s=float(match[2]) / 1e3)
    raise ValueError(
        f"RATEmbit:LATENCYms, such as 100mbit:1ms, at {SLOWEST_MBIT:g} to {FASTEST_MBIT:g} Mbit/s and 0 to "
        f"{LONGEST_MS:g} ms one way"
    )
