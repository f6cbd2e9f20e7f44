"""The points of a scaling table: rates of work, their ratios to a baseline, and what is odd about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.external.columns import Columns
from kanstudy.analysis.external.rows import Key, Row
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate

_SAME = 1e-9
"""Ratios so near 1 are 1: decimals of the table and of floating point."""


@dataclass
class Point:
    """The usable rows of one key and world size.

    `value` is the median of what was measured. `rate` is of work, up to a factor that all points of a table share;
    `base` the point that it is compared with, None where there is none: then there are no ratios either.
    """

    key: Key
    world_size: int
    rows: list[Row]
    value: float
    rate: Estimate
    base: Point | None = None
    speedup: Estimate = intervals.MISSING
    efficiency: Estimate = intervals.MISSING

    def relate(self, base: Point | None) -> None:
        """Take `base` as the baseline: S = R/R(base), E = S p0/p."""
        self.base = base
        if base is None:
            return
        share = base.world_size / self.world_size
        n = len(self.rows)
        self.speedup = intervals.no_interval(1.0, n) if base is self else _ratio(self.rate, base.rate)
        self.efficiency = self.speedup.mapped(lambda ratio: ratio * share)


def point(key: Key, world_size: int, rows: list[Row], is_rate: bool, scaling: str) -> Point:
    """A point of its rows. A time T is a rate of 1/T, or p/T where the work grows with the ranks (weak scaling)."""
    values = np.array([row.value for row in rows])
    measured = intervals.median(values, intervals.seed_of(f"{key} {world_size}"))
    work = world_size if scaling == "weak" else 1
    rate = measured if is_rate else measured.mapped(lambda time: work / time)
    return Point(key, world_size, rows, measured.value, rate)


def flags(point: Point, before: Point | None, columns: Columns, is_rate: bool, scaling: str) -> list[str]:
    """What is odd about a point beside its neighbour `before` at the next smaller world size: more ranks that do less
    work, an efficiency above 1, an efficiency that rises again. Each says whether an interval supports it."""
    found = []
    if point.efficiency.value > 1 + _SAME:
        found.append(f"efficiency above 1 (superlinear){_certainty(point.efficiency)}")
    if before is None:
        return found
    step = _ratio(point.rate, before.rate)
    at = f"at {ranks(before.world_size)}"
    if step.value < 1 - _SAME:
        if is_rate or scaling == "weak":
            told = f"throughput falls with the world size: {step.value:.3g} of that {at}"
        else:
            unit = " s" if columns.unit_s else ""
            told = f"time rises with the world size: {point.value:.4g}{unit}, {before.value:.4g}{unit} {at}"
        found.append(told + _certainty(step))
    gain = step.mapped(lambda ratio: ratio * before.world_size / point.world_size)
    if point.base is not None and before is not point.base and gain.value > 1 + _SAME:
        here, there = point.efficiency.value, before.efficiency.value
        found.append(f"efficiency is not monotone: {here:.4f} here, {there:.4f} {at}{_certainty(gain)}")
    return found


def ranks(world_size: int) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{world_size} rank{'' if world_size == 1 else 's'}"


def by_series(points: Sequence[Point]) -> dict[Key, list[Point]]:
    """Points by key, each series by world size."""
    series: dict[Key, list[Point]] = {}
    for found in sorted(points, key=lambda point: point.world_size):
        series.setdefault(found.key, []).append(found)
    order = list(dict.fromkeys(found.key for found in points))
    return {key: series[key] for key in order}


def _ratio(above: Estimate, below: Estimate) -> Estimate:
    return above.times(below.mapped(lambda rate: 1 / rate))


def _certainty(ratio: Estimate) -> str:
    if not ratio.has_interval:
        return " (no interval to tell it from noise)"
    return " (its interval includes 1)" if ratio.includes(1) else ""
