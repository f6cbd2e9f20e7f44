"""How far apart two independent estimates are, from their intervals alone.

MOVER, the method of variance estimates recovery (Zou & Donner 2008, Construction of confidence limits about effect
measures: a general approach): each end of an interval tells the variance in its direction, and variances add up,

    low = (b - a) - √((b - b_low)² + (a_high - a)²),    high = (b - a) + √((b_high - b)² + (a - a_low)²).

It takes intervals that are not symmetric, of whatever method. A ratio is the difference of logarithms. What has no
interval gives none.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Bounded(NamedTuple):
    """A value with the ends of its interval, NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


MISSING = Bounded(math.nan)


def difference(b: Bounded, a: Bounded) -> Bounded:
    """b - a."""
    between = b.value - a.value
    below, above = math.hypot(b.value - b.low, a.high - a.value), math.hypot(b.high - b.value, a.value - a.low)
    return Bounded(between, between - below, between + above)


def ratio(b: Bounded, a: Bounded) -> Bounded:
    """b / a of values above 0; NaN where one is not, and without an interval where an end of its interval is not."""
    logs = (Bounded(*(math.log(part) if part > 0 else math.nan for part in item)) for item in (b, a))
    return Bounded(*(math.exp(part) for part in difference(*logs)))
