"""One law fitted to one set of points, or the reason why it is not.

Least squares of logarithms: noise of times and speed-ups is relative, so that a point counts as much at 64 ranks as at
one, and messages of a kilobyte as much as those of 16 MiB. Points are not weighted by their own intervals: what a
smooth law misses at one world size (a node's edge, a tile that does not fit) is larger than those and is not in them.

Intervals are t intervals from the linearised model (Bates & Watts 1988, Nonlinear Regression Analysis, section 2.3),
with n - k degrees of freedom; bands are those of a new point (ibid., with the residual's variance added). Models are
compared by AICc, the residual's variance counted as a parameter (Burnham & Anderson 2002, section 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.stats import t

from kanstudy.analysis.scaling_laws.models import Model
from kanstudy.analysis.statistics.intervals import LEVEL, Estimate, no_interval

CONDITION_LIMIT = 30.0
"""Of the Jacobian with its columns scaled to length 1: above it parameters stand in for each other (Belsley, Kuh &
Welsch 1980, section 3.2)."""
SPARE_POINTS = 2
"""Distinct places x that a fit needs beyond its parameters: with one to spare, the t interval is 13 times the error."""
METHOD = "t, least squares of logarithms"
_SMALLEST_VARIANCE = 1e-24
"""Of logarithms that differ from the law by rounding alone."""


@dataclass(frozen=True)
class Fit:
    """A law with what points x (n,), y (n,) make of it; refused, and without numbers, where `reason` says why.

    `values` are the parameters, `covariance` that of the parameters as they are fitted (scales as logarithms),
    `residuals` (n,) the logarithms of measured over fitted, `condition` the scaled Jacobian's condition number.
    """

    model: Model
    x: np.ndarray
    y: np.ndarray
    reason: str = ""
    values: np.ndarray | None = None
    covariance: np.ndarray | None = None
    residuals: np.ndarray | None = None
    condition: float = np.nan

    @property
    def refused(self) -> bool:
        """Whether there are no numbers."""
        return self.values is None

    @property
    def parameters(self) -> dict[str, Estimate]:
        """Each parameter by name, with its interval; NaN where the fit is refused."""
        if self.values is None or self.covariance is None:
            return {item.name: no_interval(np.nan, len(self.x)) for item in self.model.parameters}
        found = {}
        reaches = self._t * np.sqrt(np.diag(self.covariance))
        for item, value, reach in zip(self.model.parameters, self.values, reaches, strict=True):
            ends = value * np.exp([-reach, reach]) if item.scale else value + np.array([-reach, reach])
            found[item.name] = Estimate(float(value), float(ends[0]), float(ends[1]), len(self.x), METHOD, LEVEL)
        return found

    @property
    def residual_sd(self) -> float:
        """The standard deviation of the relative deviations from the law; NaN where the fit is refused."""
        return float(np.sqrt(self._variance))

    @property
    def aicc(self) -> float:
        """n ln(RSS/n) + 2k + 2k(k+1)/(n-k-1); NaN where the fit is refused or n has no point to spare for it."""
        n, k = len(self.x), len(self.model.parameters) + 1
        if self.residuals is None or n <= k + 1:
            return np.nan
        mean_square = max(float((self.residuals**2).mean()), _SMALLEST_VARIANCE)
        return float(n * np.log(mean_square) + 2 * k + 2 * k * (k + 1) / (n - k - 1))

    def predicted(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The law at x (m,), and the ends of the band that a new point lies in; raises `ValueError` if refused."""
        if self.values is None or self.covariance is None:
            raise ValueError(f"{self.model.name} was not fitted: {self.reason}")
        gradient = _jacobian(self.model, _as_fitted(self.model, self.values), x)
        spread = np.sqrt(self._variance + np.einsum("ij,jk,ik->i", gradient, self.covariance, gradient))
        value = self.model.curve(self.values, x)
        return value, value * np.exp(-self._t * spread), value * np.exp(self._t * spread)

    @property
    def _t(self) -> float:
        return float(t.ppf((1 + LEVEL) / 2, len(self.x) - len(self.model.parameters)))

    @property
    def _variance(self) -> float:
        return np.nan if self.residuals is None else _variance(self.residuals, len(self.model.parameters))


def fit(model: Model, x: np.ndarray, y: np.ndarray) -> Fit:
    """The law's parameters at points x (n,), y (n,), both positive; refused where they do not determine them.

    That is where fewer than k + 2 x are distinct, where the search finds no minimum, where the scaled Jacobian's
    condition number is above `CONDITION_LIMIT`, or where a parameter's value means nothing (a serial fraction of 0 or
    less). No parameter is held to its limits while fitting: an interval that stops there would be too short.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    needed = len(model.parameters) + SPARE_POINTS
    if (distinct := len(np.unique(x))) < needed:
        few = f"{distinct or 'no'} {model.places}{'s' * (distinct != 1)}"
        return Fit(model, x, y, f"{few}: {len(model.parameters)} parameters need at least {needed}")
    start = model.start(x, y)
    for item, value in zip(model.parameters, start, strict=True):
        if item.scale and item.says(value):
            return Fit(model, x, y, item.says(value))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if not (model.curve(start, x) > 0).all():
            return Fit(model, x, y, "no curve of this law comes near these points")
        fitted, converged = _search(model, start, x, y)
    values, jacobian = _as_values(model, fitted), _jacobian(model, fitted, x)
    lengths = np.linalg.norm(jacobian, axis=0)
    condition = float(np.linalg.cond(jacobian / lengths)) if (lengths > 0).all() else np.inf
    if reason := _refusal(model, values, condition, converged):
        return Fit(model, x, y, reason, condition=condition)
    residuals = np.log(y / model.curve(values, x))
    covariance = _variance(residuals, len(values)) * np.linalg.inv(jacobian.T @ jacobian)
    return Fit(model, x, y, "", values, covariance, residuals, condition)


def _search(model: Model, start: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, bool]:
    """The parameters, as they are fitted, with the least squares, and whether that is a minimum."""

    def deviations(fitted: np.ndarray) -> np.ndarray:
        logs: np.ndarray = np.log(model.curve(_as_values(model, fitted), x) / y)
        return logs

    def derivatives(fitted: np.ndarray) -> np.ndarray:
        return _jacobian(model, fitted, x)

    found = optimize.least_squares(
        deviations, _as_fitted(model, start), jac=derivatives, x_scale="jac", xtol=1e-12, ftol=1e-12, gtol=1e-12
    )
    return found.x, bool(found.success)


def _refusal(model: Model, values: np.ndarray, condition: float, converged: bool) -> str:
    if not converged:
        return "the search for the least squares found no minimum"
    meaningless = [item.says(value) for item, value in zip(model.parameters, values, strict=True)]
    if any(meaningless):
        return "; ".join(filter(None, meaningless))
    if not condition <= CONDITION_LIMIT:
        return f"ill-conditioned: condition number {condition:.0f}, above {CONDITION_LIMIT:.0f}"
    return ""


def _variance(residuals: np.ndarray, k: int) -> float:
    return max(float(residuals @ residuals) / (len(residuals) - k), _SMALLEST_VARIANCE)


def _as_fitted(model: Model, values: np.ndarray) -> np.ndarray:
    return np.array([np.log(v) if item.scale else v for item, v in zip(model.parameters, values, strict=True)])


def _as_values(model: Model, fitted: np.ndarray) -> np.ndarray:
    return np.array([np.exp(v) if item.scale else v for item, v in zip(model.parameters, fitted, strict=True)])


def _jacobian(model: Model, fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Derivatives of the logarithm of the law by the parameters as fitted (len(x), k), by central differences."""
    steps = np.diag(1e-6 * np.maximum(np.abs(fitted), 1e-3))
    above, below = (
        [np.log(model.curve(_as_values(model, fitted + sign * step), x)) for step in steps] for sign in (1, -1)
    )
    return np.stack([(a - b) / (2 * step.sum()) for a, b, step in zip(above, below, steps, strict=True)], axis=1)
