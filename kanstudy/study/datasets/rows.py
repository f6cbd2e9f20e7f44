"""Rows of a data set: where they come from, as they are there, and standardised for a KAN's grid."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LARGEST = 1e100
"""Larger values are refused: the squares of their differences overflow."""
_SMALLEST = 1e-100
"""What varies less counts as constant: its square underflows."""


class DataError(ValueError):
    """A data set that cannot be used; one line that names it and the column, row or value, and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Training rows x_train (n, features), y_train (n, targets) and hold-out rows, in the units of their source.

    `origin` is the formula or the file and how it was split. `dropped` counts the rows that were left out, by reason.
    `remarks` are sentences on what is odd about them.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_holdout: np.ndarray
    y_holdout: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    origin: str
    dropped: dict[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def sample(self, n_samples: int, seed: int) -> Rows:
        """The same with `n_samples` of the training rows, chosen by the seed; the hold-out rows stay."""
        if n_samples == len(self.x_train):
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.x_train), n_samples, replace=False))
        return Rows(**(vars(self) | {"x_train": self.x_train[chosen], "y_train": self.y_train[chosen]}))


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a data set string stands for, known before any row is standardised.

    `name` goes into a point's identity. `n_available` rows can be trained on (None: they are drawn, as many as asked
    for). `rows(n_samples, seed)` brings them.
    """

    name: str
    n_features: int
    n_targets: int
    n_holdout: int
    n_available: int | None
    rows: Callable[[int, int], Rows]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of_table(cls, name: str, rows: Rows) -> Source:
        """The source of rows that are there: what is asked for is chosen among them."""
        return cls(
            name=name,
            n_features=rows.x_train.shape[1],
            n_targets=rows.y_train.shape[1],
            n_holdout=len(rows.x_holdout),
            n_available=len(rows.x_train),
            rows=rows.sample,
            remarks=rows.remarks,
        )


def listed(names: Collection[str], most: int = 8) -> str:
    """Names in quotes, and how many more there are."""
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def standardise(rows: Rows, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The four arrays, float32 in C order, and their scales; all statistics are of the training rows.

    Features: `2 (x - low) / width - 1` with the training minimum and maximum - minimum, so training values fill
    [-1, 1] exactly; hold-out values may lie outside and stay there. A constant feature has width 1 and becomes -1.
    Targets: `(y - mean) / scale` with the training mean and standard deviation.

    Raises `DataError` on a target that is constant in the training rows, on values that are not finite or too large.
    """
    for part, names in (("x", rows.feature_names), ("y", rows.target_names)):
        for where in ("train", "holdout"):
            _check_size(getattr(rows, f"{part}_{where}"), names, name)
    low, high = rows.x_train.min(axis=0), rows.x_train.max(axis=0)
    is_constant = high - low < _SMALLEST
    width = np.where(is_constant, 1.0, high - low)
    mean, scale = rows.y_train.mean(axis=0), rows.y_train.std(axis=0)
    check_targets_vary(rows, name)
    arrays = {}
    for part in ("train", "holdout"):
        x, y = getattr(rows, f"x_{part}"), getattr(rows, f"y_{part}")
        arrays[f"x_{part}"] = _single((x - low) / width * 2 - 1, rows.feature_names, name)
        arrays[f"y_{part}"] = _single((y - mean) / scale, rows.target_names, name)
    scales = {
        "feature_low": low.tolist(),
        "feature_width": width.tolist(),
        "constant_features": [rows.feature_names[column] for column in np.flatnonzero(is_constant)],
        "target_mean": mean.tolist(),
        "target_scale": scale.tolist(),
    }
    return arrays, scales


def check_targets_vary(rows: Rows, name: str) -> None:
    """Raise `DataError` on a target that is constant in the training rows: it has no scale."""
    for column, target in enumerate(rows.target_names):
        values = rows.y_train[:, column]
        if np.ptp(values) == 0 or values.std() < _SMALLEST:
            raise DataError(f"{name}: target {target!r} is {values[0]:g} in every training row: must vary")


def _check_size(values: np.ndarray, names: tuple[str, ...], dataset: str) -> None:
    wrong = np.argwhere(~(np.abs(values) <= LARGEST))
    if len(wrong):
        row, column = wrong[0]
        value = float(values[row, column])
        raise DataError(f"{dataset}: {names[column]!r} has the value {value:g}: must be finite, at most {LARGEST:g}")


def _single(values: np.ndarray, names: tuple[str, ...], dataset: str) -> np.ndarray:
    """float32 in C order; a hold-out value so far outside the training range that it overflows is an error."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    wrong = np.argwhere(~np.isfinite(single))
    if len(wrong):
        raise DataError(
            f"{dataset}: a hold-out value of {names[wrong[0][1]]!r} lies further outside its training range "
            "than float32 can say: must be of about the same size"
        )
    return single
