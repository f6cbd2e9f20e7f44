"""The step of one rank alone, fitted over rows, operations, activations and parameters.

The step's forward and backward are (launch^k + work^k)^(1/k), work = rows · (FLOP · c1 + activation bytes · c2), its
optimizer o0 + o1 · parameters (see `kanstudy.analysis.machine_model.model`): launch-bound at few rows, bound by
throughput at many. Phases, measured apart and slower for it, only tell which share of a step is whose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.calibration import nonnegative
from kanstudy.analysis.machine_model.work import activation_bytes_per_sample, flops_per_sample, n_parameters
from kanstudy.spec import PointSpec

EXPONENTS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""Of the launches' join to the work that are tried: 1 is a sum, 8 all but the longer of the two."""


@dataclass(frozen=True)
class Steps:
    """What is fitted: of n points of one rank alone `rows` a step, `flops` and `activation_bytes` a row, `parameters`,
    and `time_s` a step on the nominal device; `shares` (n, 3) of forward, backward and optimizer. All (n,)."""

    rows: np.ndarray
    flops: np.ndarray
    activation_bytes: np.ndarray
    parameters: np.ndarray
    time_s: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, points: list[PointSpec], time_s: np.ndarray, phases_s: np.ndarray) -> Steps:
        """Points with their times (n,) and instrumented phases (n, 3)."""
        columns = [[point.global_batch_size for point in points]]
        columns += [[count(point) for point in points] for count in (flops_per_sample, activation_bytes_per_sample)]
        columns.append([n_parameters(point) for point in points])
        rows, flops, activation, parameters = (np.array(column, dtype=float) for column in columns)
        shares = phases_s / phases_s.sum(axis=1, keepdims=True)
        return cls(rows, flops, activation, parameters, time_s, shares)


@dataclass(frozen=True)
class Curve:
    """The fitted step: launch, seconds a FLOP and an activation byte, exponent, optimizer, backward's share."""

    launch_s: float
    s_per_flop: float
    s_per_activation_byte: float
    launch_exponent: float
    optimizer_s: float
    optimizer_s_per_parameter: float
    backward_share: float

    @property
    def n_costs(self) -> int:
        """Costs that are not 0."""
        costs = (self.launch_s, self.s_per_flop, self.s_per_activation_byte)
        return sum(cost > 0 for cost in (*costs, self.optimizer_s, self.optimizer_s_per_parameter))

    def time_s(self, steps: Steps) -> np.ndarray:
        """Time of a step of each point (n,), s."""
        coefficients = np.array([self.launch_s, self.s_per_flop, self.s_per_activation_byte])
        return _joined(coefficients, steps, self.launch_exponent) + self._optimizer_s(steps)

    def _optimizer_s(self, steps: Steps) -> np.ndarray:
        return self.optimizer_s + self.optimizer_s_per_parameter * steps.parameters


def fit(steps: Steps, exponents: tuple[float, ...] = EXPONENTS) -> Curve:
    """The curve with the least relative deviations, all costs >= 0; of equally good exponents the smallest."""
    optimizer = nonnegative.linear(
        np.stack([np.ones_like(steps.parameters), steps.parameters], axis=1),
        steps.shares[:, 2] * steps.time_s,
        steps.time_s,
    )
    optimizer_s = optimizer[0] + optimizer[1] * steps.parameters
    both_s = np.maximum(steps.time_s - optimizer_s, 1e-3 * steps.time_s)  # phases of a noisy step may exceed it
    best: tuple[float, float, np.ndarray] | None = None
    start = nonnegative.linear(_design(steps), both_s, steps.time_s)
    start = np.maximum(start, 1e-6 * both_s.min() / np.maximum(_design(steps).max(axis=0), 1e-300))
    for exponent in exponents:
        found = nonnegative.homogeneous(
            lambda values, k=exponent: _joined(values, steps, k),  # type: ignore[misc]  # bound now, not later
            lambda values, k=exponent: _jacobian(values, steps, k),  # type: ignore[misc]
            start,
            both_s,
            steps.time_s,
        )
        deviation = float((((_joined(found, steps, exponent) - both_s) / steps.time_s) ** 2).sum())
        if best is None or deviation < best[0] * (1 - 1e-6):
            best = deviation, exponent, found
    assert best is not None
    _, exponent, (launch_s, per_flop, per_byte) = best
    backward = steps.shares[:, 1] / (steps.shares[:, 0] + steps.shares[:, 1])
    return Curve(
        float(launch_s),
        float(per_flop),
        float(per_byte),
        exponent,
        float(optimizer[0]),
        float(optimizer[1]),
        float(np.median(backward)),
    )


def _design(steps: Steps) -> np.ndarray:
    work = [steps.rows * steps.flops, steps.rows * steps.activation_bytes]
    return np.stack([np.ones_like(steps.rows), *work], axis=1)


def _joined(values: np.ndarray, steps: Steps, exponent: float) -> np.ndarray:
    launch = np.full_like(steps.rows, values[0])
    work = _design(steps)[:, 1:] @ values[1:]
    longer = np.maximum(np.maximum(launch, work), 1e-300)
    joined: np.ndarray = longer * ((launch / longer) ** exponent + (work / longer) ** exponent) ** (1 / exponent)
    return joined


def _jacobian(values: np.ndarray, steps: Steps, exponent: float) -> np.ndarray:
    design = _design(steps)
    joined = np.maximum(_joined(values, steps, exponent), 1e-300)
    launch = (values[0] / joined) ** (exponent - 1)
    work = (design[:, 1:] @ values[1:] / joined) ** (exponent - 1)
    return design * np.stack([launch, work, work], axis=1)
