"""Adaptive rounds: when a point of a launch has enough of them.

After 20, 30, 45, 68 and 100 complete rounds rank 0 looks at the interval of the efficiency E, and stops the point when
it is narrow enough. Looking again and again favours samples that look narrow by luck, so that there are few looks and
none early. The interval that stops is that of order statistics (the sign test's, e.g. David & Nagaraja 2003, section
7.1) of the rounds' log ratios, ln T_base - ln T_ddp: it takes no resampling, and the worker needs no more than a sort.
The interval that is reported is the analysis' own, a bootstrap over undisturbed rounds, and may be a little wider.

What was decided stands in the record, `provenance["stopping"]`: target_width, and for each launch the rounds at the
last look, the half_width found, and why it ended. Standard library only: the worker decides, the analysis reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanstudy.record import Record

LOOKS = (20, 30, 45, 68, 100)
"""Complete rounds of a launch after which it is decided whether to go on; the last is the most there will be."""
LEVEL = 0.95
RULE = "half the order-statistic interval of the rounds' log ratios at most half of target_width"
NARROW, MOST, TIME, ON = "narrow enough", "the most rounds", "the time is spent", "going on"


@cache
def _rank(n: int) -> int:
    """The largest k for which [k-th smallest, k-th largest] of n covers the median with at least LEVEL; 0: none."""
    k, below = 0, 0.0
    while k < n:
        below += math.comb(n, k) / 2**n  # P(Binomial(n, 1/2) <= k)
        if 1 - 2 * below < LEVEL:
            break
        k += 1
    return k


def half_width(log_ratios: Sequence[float]) -> float:
    """Half of the 95 % interval of the median, in logarithms: 0.025 is ±2.5 %. Infinite below 6 rounds."""
    n = len(log_ratios)
    k = _rank(n)
    if k == 0 or not all(map(math.isfinite, log_ratios)):
        return math.inf
    ordered = sorted(log_ratios)
    return (ordered[n - k] - ordered[k - 1]) / 2


def log_ratios(record: Record, launch: int) -> list[float]:
    """ln T_base - ln T_ddp of each complete round of a launch: the rounds' log efficiency, but for a constant.

    The base is the point's first arm: the serial one, or DDP without communication where there is no other. T is the
    slowest rank's mean time a step, of the ranks alone with their local batch their mean. Raises `ValueError` where
    the record has no arm `ddp`, or no other.
    """
    first = next(iter(record.arms))
    if "ddp" not in record.arms or first == "ddp":
        raise ValueError(f"arms = {list(record.arms)!r}: rounds are adaptive where `ddp` comes after another arm")
    over_ranks = fmean if first == "serial_local" else max
    base = {item.index: over_ranks(map(fmean, item.rank_step_times_s)) for item in _rounds(record, first, launch)}
    ddp = {item.index: max(map(fmean, item.rank_step_times_s)) for item in _rounds(record, "ddp", launch)}
    return [math.log(base[index] / ddp[index]) for index in sorted(ddp)]


def look(record: Record, launch: int, target_width: float, most: int = LOOKS[-1]) -> bool:
    """Decide at a look whether the launch has enough rounds of the point, and write it into the record."""
    ratios = log_ratios(record, launch)
    half = half_width(ratios)
    why = NARROW if half <= target_width / 2 else MOST if len(ratios) >= most else ON
    _write(record, launch, target_width, len(ratios), half, why)
    return why != ON


def out_of_time(record: Record, launch: int, target_width: float) -> None:
    """Write into the record that the time was spent before the launch had enough rounds of the point."""
    ratios = log_ratios(record, launch)
    _write(record, launch, target_width, len(ratios), half_width(ratios), TIME)


def is_narrow(record: Record, launch: int, target_width: float) -> bool:
    """Whether the rounds that a launch has of the point were found enough for this width."""
    found = decision(record, launch)
    return found["why"] != TIME and found["half_width"] is not None and found["half_width"] <= target_width / 2


def decision(record: Record, launch: int) -> dict[str, Any]:
    """The last look at what a launch has of the point: rounds, half_width (None: no interval), why.

    `why` is empty where nobody looked at these rounds.
    """
    launches = (record.provenance.get("stopping") or {}).get("launches", {})
    found = launches.get(str(launch), {})
    if found.get("rounds") != record.rounds_of_launch(launch):
        return {"rounds": None, "half_width": None, "why": ""}
    return found


def decisions(record: Record) -> str:
    """Why each launch of an adaptive record ended, in words; empty where rounds were not adaptive."""
    texts = []
    for launch in record.launch_numbers:
        found = decision(record, launch)
        if found["why"]:
            width = "no interval" if found["half_width"] is None else f"±{found['half_width']:.1%}"
            where = f"launch {launch}: " if record.launches_planned > 1 else ""
            texts.append(f"{where}{found['why']} at {found['rounds']} rounds, {width}")
    if not texts:
        return ""
    return f"{'; '.join(texts)} (wanted: ±{record.provenance['stopping']['target_width'] / 2:.1%})"


def _rounds(record: Record, arm: str, launch: int) -> list[Any]:
    return [item for item in record.arms[arm].rounds if item.launch == launch]


def _write(record: Record, launch: int, target_width: float, rounds: int, half: float, why: str) -> None:
    launches = (record.provenance.get("stopping") or {}).get("launches", {})
    found = {"rounds": rounds, "half_width": half if math.isfinite(half) else None, "why": why}
    record.provenance["stopping"] = {
        "rule": RULE,
        "target_width": target_width,
        "launches": launches | {str(launch): found},
    }
