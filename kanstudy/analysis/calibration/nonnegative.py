"""Least squares of relative deviations with coefficients that are costs, so never below 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

_ITERATIONS = 30
_CONVERGED = 1e-7


def linear(design: np.ndarray, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Coefficients >= 0 (k,) with the least sum of ((design @ coefficients - y) / scale)^2; design (n, k).

    Lawson & Hanson 1974, Solving Least Squares Problems, chapter 23.
    """
    weighted = design / scale[:, None]
    lengths = np.linalg.norm(weighted, axis=0)
    lengths[lengths == 0] = 1.0
    found, _ = nnls(weighted / lengths, y / scale)
    coefficients: np.ndarray = found / lengths
    return coefficients


def homogeneous(
    curve: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    y: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """The same for a curve that doubles when all its coefficients double: Gauss-Newton, each step of which is linear.

    By Euler's theorem such a curve is its Jacobian (n, k) times its coefficients, so that its linearisation has no
    constant. Steps are halved until the deviations fall.
    """
    best, deviation = start, _deviation(curve(start), y, scale)
    for _ in range(_ITERATIONS):
        step = linear(jacobian(best), y, scale) - best
        length = 1.0
        while length > 1e-3:
            tried = best + length * step
            found = _deviation(curve(tried), y, scale)
            if found < deviation:
                break
            length /= 2
        else:
            break
        gained, best, deviation = deviation - found, tried, found
        if gained <= _CONVERGED * deviation:
            break
    return best


def _deviation(fitted: np.ndarray, y: np.ndarray, scale: np.ndarray) -> float:
    return float((((fitted - y) / scale) ** 2).sum())
