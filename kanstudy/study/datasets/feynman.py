"""`feynman:NAME`: formulas of the AI Feynman set (Udrescu & Tegmark 2020, arXiv 1905.11481), named as there.

Names are those of the Feynman Lectures' equations. Every variable is drawn uniformly from the set's own range, which
keeps away from poles and from the edges of a square root's or an arcsine's domain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy import cos, exp, log, pi, sin, sqrt

from kanstudy.study.datasets.rows import DataError, Rows, Source
from kanstudy.study.datasets.synthetic import HOLDOUT_ROWS
from kanstudy.study.strict import allowed

_Range: TypeAlias = tuple[float, float]
_TRAIN, _HOLDOUT = range(2)  # independent streams of one seed


@dataclass(frozen=True)
class Formula:
    """One formula: what it is, the function of its variables, and the range that each variable is drawn from.

    `function` takes one array (n,) a variable, by name, and gives (n,). `ranges` has the other variables' ranges by
    name; those not in it have `default`.
    """

    law: str
    function: Callable[..., np.ndarray]
    default: _Range = (1.0, 5.0)
    ranges: tuple[tuple[str, _Range], ...] = ()

    @property
    def variables(self) -> dict[str, _Range]:
        """The range of each variable, in the order of the function's arguments."""
        own = dict(self.ranges)
        return {name: own.get(name, self.default) for name in inspect.signature(self.function).parameters}

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Variables x (count, variables), uniform in their ranges, and the formula's values y (count, 1)."""
        low, high = np.array(list(self.variables.values())).T
        x = rng.uniform(low, high, (count, len(low)))
        return x, self.function(**dict(zip(self.variables, x.T, strict=True)))[:, None]


FORMULAS: dict[str, Formula] = {
    "I.6.2": Formula(
        "Gaussian of width sigma",
        lambda sigma, theta: exp(-((theta / sigma) ** 2) / 2) / (sqrt(2 * pi) * sigma),
        default=(1, 3),
    ),
    "I.6.2b": Formula(
        "Gaussian of width sigma around theta1",
        lambda sigma, theta, theta1: exp(-(((theta - theta1) / sigma) ** 2) / 2) / (sqrt(2 * pi) * sigma),
        default=(1, 3),
    ),
    "I.8.14": Formula("distance in a plane", lambda x1, x2, y1, y2: sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2)),
    "I.9.18": Formula(
        "gravitation in space",
        lambda m1, m2, G, x1, x2, y1, y2, z1, z2: G * m1 * m2 / ((x2 - x1) ** 2 + (y2 - y1) ** 2 + (z2 - z1) ** 2),
        default=(1, 2),
        ranges=(("x1", (3, 4)), ("y1", (3, 4)), ("z1", (3, 4))),
    ),
    "I.10.7": Formula(
        "relativistic mass",
        lambda m_0, v, c: m_0 / sqrt(1 - v**2 / c**2),
        ranges=(("v", (1, 2)), ("c", (3, 10))),
    ),
    "I.12.11": Formula("Lorentz force", lambda q, Ef, B, v, theta: q * (Ef + B * v * sin(theta))),
    "I.13.12": Formula("gravitational energy", lambda m1, m2, r1, r2, G: G * m1 * m2 * (1 / r2 - 1 / r1)),
    "I.15.3x": Formula(
        "Lorentz transformation of a place",
        lambda x, u, c, t: (x - u * t) / sqrt(1 - u**2 / c**2),
        ranges=(("x", (5, 10)), ("u", (1, 2)), ("c", (3, 20)), ("t", (1, 2))),
    ),
    "I.16.6": Formula("addition of relativistic velocities", lambda c, v, u: (u + v) / (1 + u * v / c**2)),
    "I.18.4": Formula("centre of mass", lambda m1, m2, r1, r2: (m1 * r1 + m2 * r2) / (m1 + m2)),
    "I.27.6": Formula("thin lens", lambda d1, d2, n: 1 / (1 / d1 + n / d2)),
    "I.29.16": Formula(
        "superposition of two waves",
        lambda x1, x2, theta1, theta2: sqrt(x1**2 + x2**2 - 2 * x1 * x2 * cos(theta1 - theta2)),
    ),
    "I.30.3": Formula(
        "diffraction grating",
        lambda Int_0, theta, n: Int_0 * sin(n * theta / 2) ** 2 / sin(theta / 2) ** 2,
    ),
    "I.37.4": Formula("interference of two sources", lambda I1, I2, delta: I1 + I2 + 2 * sqrt(I1 * I2) * cos(delta)),
    "I.40.1": Formula("barometric formula", lambda n_0, m, x, T, g, kb: n_0 * exp(-m * g * x / (kb * T))),
    "I.44.4": Formula("isothermal expansion", lambda n, kb, T, V1, V2: n * kb * T * log(V2 / V1)),
    "I.50.26": Formula(
        "anharmonic oscillation",
        lambda x1, omega, t, alpha: x1 * (cos(omega * t) + alpha * cos(omega * t) ** 2),
        default=(1, 3),
    ),
    "II.2.42": Formula("heat conduction", lambda kappa, T1, T2, A, d: kappa * (T2 - T1) * A / d),
    "II.6.15a": Formula(
        "dipole field",
        lambda epsilon, p_d, r, x, y, z: p_d / (4 * pi * epsilon) * 3 * z / r**5 * sqrt(x**2 + y**2),
        default=(1, 3),
    ),
    "II.11.27": Formula(
        "Clausius-Mossotti polarisation",
        lambda n, alpha, epsilon, Ef: n * alpha / (1 - n * alpha / 3) * epsilon * Ef,
        default=(1, 2),
        ranges=(("n", (0, 1)), ("alpha", (0, 1))),
    ),
    "II.24.17": Formula(
        "wave guide",
        lambda omega, c, d: sqrt(omega**2 / c**2 - pi**2 / d**2),
        ranges=(("omega", (4, 6)), ("c", (1, 2)), ("d", (2, 4))),
    ),
    "II.35.18": Formula(
        "paramagnet's lower level",
        lambda n_0, kb, T, mom, B: n_0 / (exp(mom * B / (kb * T)) + exp(-mom * B / (kb * T))),
        default=(1, 3),
    ),
    "III.9.52": Formula(
        "transition in an oscillating field",  # (sin z / z)^2 with its limit 1 at z = 0
        lambda p_d, Ef, t, h, omega, omega_0: (
            p_d * Ef * t / (h / (2 * pi)) * np.sinc((omega - omega_0) * t / (2 * pi)) ** 2
        ),
        default=(1, 3),
        ranges=(("omega", (1, 5)), ("omega_0", (1, 5))),
    ),
    "III.10.19": Formula("energy of a magnetic moment", lambda mom, Bx, By, Bz: mom * sqrt(Bx**2 + By**2 + Bz**2)),
    "III.17.37": Formula("scattered amplitude", lambda beta, alpha, theta: beta * (1 + alpha * cos(theta))),
}
"""The formulas by name; the sampler reads each one's variables off its function."""


def source(dataset: str) -> Source:
    """The source of `feynman:NAME`; `DataError` on an unknown name, with those that there are."""
    name = dataset.partition(":")[2]
    if name not in FORMULAS:
        raise DataError(f"dataset {dataset!r}: formula {name!r}: must be {allowed(name, FORMULAS)}")
    return Source(
        name=f"feynman:{name}",
        n_features=len(FORMULAS[name].variables),
        n_targets=1,
        n_holdout=HOLDOUT_ROWS,
        n_available=None,
        rows=lambda n_samples, seed: _draw(name, n_samples, seed),
    )


def _draw(name: str, n_samples: int, seed: int) -> Rows:
    formula = FORMULAS[name]
    x_train, y_train = formula.draw(n_samples, np.random.default_rng((seed, _TRAIN)))
    x_holdout, y_holdout = formula.draw(HOLDOUT_ROWS, np.random.default_rng((seed, _HOLDOUT)))
    return Rows(
        x_train=x_train,
        y_train=y_train,
        x_holdout=x_holdout,
        y_holdout=y_holdout,
        feature_names=tuple(formula.variables),
        target_names=("f",),
        origin=f"AI Feynman {name}: {formula.law}, variables {formula.variables}",
    )
