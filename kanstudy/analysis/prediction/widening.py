"""How much wider bands are made, as held-out settings of the same machine showed to be needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from kanstudy.analysis.statistics.intervals import LEVEL

_NUMBERS = ("conformal", "level", "settings")
_LIKE = {"speedup": "parallel_efficiency", "throughput": "step_time_s", "overhead": "exposed_s"}
"""Quantities that are another in other words."""


class WideningError(ValueError):
    """A table that tells no factors; the message says what is wrong with it."""


@dataclass(frozen=True)
class Widening:
    """Factors on the half-widths of bands, by quantity, 1 for others, and the `level` at which they then cover a new
    launch of a new setting; `settings` were held out. Without any, bands are as they were computed."""

    factors: Mapping[str, float] = field(default_factory=dict)
    level: float = LEVEL
    settings: int = 0

    def factor(self, quantity: str) -> float:
        """That of a quantity."""
        return self.factors.get(_LIKE.get(quantity, quantity), 1.0)


def read(path: Path | str) -> Widening:
    """The factors in a table of coverage that `kanstudy bench prediction` wrote, of settings that were measured as the
    ranks lie.

    Raises `WideningError` where it is none, or where too few settings were held out for any factor.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise WideningError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    missing = [name for name in ("source", "quantity", *_NUMBERS) if name not in table]
    if missing:
        raise WideningError(
            f"{path}: has no column {missing[0]!r}: must be a coverage table of kanstudy bench prediction"
        )
    numbers = table[[*_NUMBERS]].apply(pd.to_numeric, errors="coerce")  # blank where too few were held out
    told = (numbers > 0).all(axis=1) & np.isfinite(numbers).all(axis=1) & (numbers["level"] < 1)
    known = told & (table["source"] == "measured")
    if not known.any():
        raise WideningError(f"{path}: too few settings were held out to tell how wide bands must be")
    factors = dict(zip(table["quantity"][known].astype(str), numbers["conformal"][known], strict=True))
    return Widening(factors, float(numbers["level"][known].min()), int(numbers["settings"][known].min()))
