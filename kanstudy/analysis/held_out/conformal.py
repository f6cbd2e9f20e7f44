"""How much wider bands must be to cover a new launch of a new setting, whatever the distribution.

Conformal prediction with settings as groups that are exchangeable, and launches that are within each (Lee, Barber &
Willett 2023, Distribution-free inference with hierarchical data; with one launch each it is split conformal, Vovk,
Gammerman & Shafer 2005): the quantile of all distances, every setting with weight 1/(n + 1), its launches with equal
parts of it, the rest of the weight at infinity. A level needs n/(n + 1) >= level; the highest of `LEVELS` that the
settings carry is taken and stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVELS = (0.95, 0.9, 0.8)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Conformal:
    """The `factor` at a `level`, from so many `settings`, and `coverage_left_out`: the share of launches covered where
    each setting is left out of finding the factor. NaN where there are too few settings for any level."""

    factor: float
    level: float
    coverage_left_out: float
    settings: int


def conformal(distances: Sequence[np.ndarray]) -> Conformal:
    """The factor that held-out settings give; of each how far its launches (launches,) lie from the prediction, in
    half-widths of the band."""
    n = len(distances)
    level = next((level for level in LEVELS if n - 1 >= level * n - _ROUNDING), math.nan)  # also with one left out
    if math.isnan(level):
        return Conformal(math.nan, math.nan, math.nan, n)
    covered = []
    for left, own in enumerate(distances):
        factor = _quantile([other for place, other in enumerate(distances) if place != left], level)
        covered.append(float(np.mean(own <= factor)))
    return Conformal(_quantile(distances, level), level, float(np.mean(covered)), n)


def _quantile(distances: Sequence[np.ndarray], level: float) -> float:
    weights = np.concatenate([np.full(len(own), 1 / (len(distances) + 1) / len(own)) for own in distances])
    values = np.concatenate(list(distances))
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level - _ROUNDING
    return float(values[order][reached.argmax()])
