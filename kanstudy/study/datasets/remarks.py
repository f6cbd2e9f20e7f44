"""What is odd about a user's own rows though they can be trained on; a KAN's grid makes some of it matter."""

from __future__ import annotations

import numpy as np

from kanstudy.study.datasets.rows import Rows, listed

_TAIL = 100
"""One row of so many, at least one, may lie far out at either end."""
_NARROW = 0.05
"""Of a column's range: a quarter of an interval of a grid of 5, within which a spline has one shape."""


def remarks(rows: Rows) -> tuple[str, ...]:
    """A sentence for each kind of oddity: features that say nothing, and columns of which a few rows make up the range.

    Features are scaled by their range and targets by their standard deviation, so that one huge value leaves all others
    nearly equal. A column whose rows are equal but for those few, such as a rare 0 or 1, is not meant.
    """
    found = []
    if constant := [name for name, column in zip(rows.feature_names, rows.x_train.T, strict=True) if _is_one(column)]:
        is_one = "is" if len(constant) == 1 else "are each"
        found.append(f"{listed(constant)} {is_one} the same in every training row: take out what says nothing")
    for kind, names in (("x", rows.feature_names), ("y", rows.target_names)):
        parts = [getattr(rows, f"{kind}_{part}") for part in ("train", "holdout")]
        narrow = {name: words for place, name in enumerate(names) if (words := _narrow(parts, place))}
        if narrow:
            first, *others = narrow
            so = f", and likewise {listed(others)}" if others else ""
            effect = (
                "a grid over that range hardly tells them apart"
                if kind == "x"
                else "the loss is that of the few others"
            )
            found.append(f"of {first!r} {narrow[first]}{so}: {effect}; clip such values, or take logarithms")
    return tuple(found)


def _narrow(parts: list[np.ndarray], place: int) -> str:
    """How narrow most rows of a column lie, in words; empty where they do not."""
    column = np.concatenate([part[:, place] for part in parts])
    tail = max(1, len(column) // _TAIL)
    ends = [0, tail, len(column) - 1 - tail, len(column) - 1]
    lowest, low, high, highest = np.partition(column, ends)[ends]
    if not 0 < high - low < _NARROW * (highest - lowest):
        return ""
    share = (high - low) / (highest - lowest)
    return (
        f"{len(column) - 2 * tail} of {len(column)} rows lie in {100 * share:.2g} % of the range from {lowest:g} to"
        f" {highest:g}"
    )


def _is_one(column: np.ndarray) -> bool:
    return bool(np.ptp(column) == 0)
