"""`synthetic:IN:OUT`: a smooth random regression target of any dimensions, without noise."""

from __future__ import annotations

import numpy as np

from kanstudy.study.datasets.rows import DataError, Rows, Source

HOLDOUT_ROWS = 4096
"""Hold-out rows of data that are drawn from a formula."""

_FUNCTION, _TRAIN, _HOLDOUT = range(3)  # independent streams of one seed
_WIDEST = 4096  # inputs or outputs
_CHUNK = 65536  # rows whose waves are in memory at once


def source(dataset: str) -> Source:
    """The source of `synthetic:IN:OUT`; `DataError` unless both are whole numbers from 1 to 4096."""
    sizes = dataset.split(":")[1:]
    if len(sizes) != 2 or not all(size.isascii() and size.isdigit() and 0 < int(size) <= _WIDEST for size in sizes):
        raise DataError(f"dataset {dataset!r}: must be synthetic:IN:OUT with whole numbers from 1 to {_WIDEST}")
    n_features, n_targets = map(int, sizes)
    return Source(
        name=f"synthetic:{n_features}:{n_targets}",
        n_features=n_features,
        n_targets=n_targets,
        n_holdout=HOLDOUT_ROWS,
        n_available=None,
        rows=lambda n_samples, seed: _draw(n_features, n_targets, n_samples, seed),
    )


def _draw(n_features: int, n_targets: int, n_samples: int, seed: int) -> Rows:
    """Draw the target function, then training and hold-out rows, each from its own stream of the seed.

    y_k(x) = sum_j a_jk / f_j · sin(f_j u_j · x + b_j) over 16 + OUT waves that all targets share, x uniform in
    [-1, 1]^IN; directions u_j uniform on the unit sphere, frequencies f_j uniform in [1, 2π], phases b_j uniform in
    [0, 2π], amplitudes a_jk standard normal.
    """
    waves = 16 + n_targets
    rng = np.random.default_rng((seed, _FUNCTION))
    directions = rng.standard_normal((n_features, waves))
    directions /= np.linalg.norm(directions, axis=0)
    frequencies = rng.uniform(1.0, 2 * np.pi, waves)
    phases = rng.uniform(0.0, 2 * np.pi, waves)
    amplitudes = rng.standard_normal((waves, n_targets)) / frequencies[:, None]

    def rows(count: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.random.default_rng((seed, stream)).uniform(-1.0, 1.0, (count, n_features))
        y = np.empty((count, n_targets))
        for start in range(0, count, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            y[chunk] = np.sin(x[chunk] @ (directions * frequencies) + phases) @ amplitudes
        return x, y

    x_train, y_train = rows(n_samples, _TRAIN)
    x_holdout, y_holdout = rows(HOLDOUT_ROWS, _HOLDOUT)
    return Rows(
        x_train=x_train,
        y_train=y_train,
        x_holdout=x_holdout,
        y_holdout=y_holdout,
        feature_names=tuple(f"x{number}" for number in range(1, n_features + 1)),
        target_names=tuple(f"y{number}" for number in range(1, n_targets + 1)),
        origin=f"{waves} random plane waves over [-1, 1]^{n_features}, frequencies 1 to 2 pi, without noise",
    )
