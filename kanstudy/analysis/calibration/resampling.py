"""How sure fitted constants are: refits to resampled residuals (Efron & Tibshirani 1993, section 9.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kanstudy.analysis.calibration import compute, fitting
from kanstudy.analysis.calibration.constants import Constants
from kanstudy.analysis.calibration.fitting import Node, Observed
from kanstudy.analysis.calibration.links import Links

DRAWS = 100


def refits(
    observed: Observed, fitted: Observed, node: Node, constants: Constants, links: Links, rng: np.random.Generator
) -> tuple[Constants, ...]:
    """Constants refitted to what the estimate gives with resampled residuals; links from their own fit."""
    place = compute.EXPONENTS.index(constants.launch_exponent)
    near = compute.EXPONENTS[max(0, place - 1) : place + 2]
    n = len(observed.steps.rows)
    found = []
    for network in links.draws:
        log_residuals = np.log(observed.steps.time_s / fitted.steps.time_s)
        time_s = fitted.steps.time_s * np.exp(_resampled(log_residuals, constants.curve.n_costs, rng))
        which = rng.integers(n, size=n)
        steps = replace(observed.steps, time_s=time_s, shares=_reshared(observed.steps.shares, which))
        again = Observed(
            steps=steps,
            contention=fitted.contention + _resampled(observed.contention - fitted.contention, 1, rng),
            ddp_s=fitted.ddp_s + node.noop_s * _resampled((observed.ddp_s - fitted.ddp_s) / node.noop_s, 2, rng),
            exposed_s=fitted.exposed_s
            + node.noop_s * _resampled((observed.exposed_s - fitted.exposed_s) / node.noop_s, 2, rng),
        )
        drawn = replace(node, machine=replace(node.machine, network=network))
        found.append(fitting.estimate(again, drawn, near).with_links(network, links.tiers))
    return tuple(found)


def _resampled(residuals: np.ndarray, parameters: int, rng: np.random.Generator) -> np.ndarray:
    """Residuals drawn with replacement, as wide as those of so many fitted parameters should be; NaN stays."""
    known = residuals[np.isfinite(residuals)]
    if not len(known):
        return residuals
    wider = np.sqrt(len(known) / max(1, len(known) - parameters))
    drawn = wider * rng.choice(known - known.mean(), len(residuals))
    return np.where(np.isfinite(residuals), drawn, np.nan)


def _reshared(shares: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Phases' shares whose backward's part of forward and backward is another point's; the optimizer's stays."""
    rest = shares[:, 0] + shares[:, 1]
    backward = (shares[:, 1] / rest)[which]
    return np.stack([rest * (1 - backward), rest * backward, shares[:, 2]], axis=1)
