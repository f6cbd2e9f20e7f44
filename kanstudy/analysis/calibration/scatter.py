"""What measured settings deviate from the fit: each part's standard deviation, and from how many it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import f

from kanstudy.analysis.calibration.fitting import Observed
from kanstudy.analysis.calibration.readings import Reading
from kanstudy.spec import ARMS


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """A standard deviation known with so many degrees of freedom; 0 of them: not known, nothing is drawn.

    Of few degrees of freedom the prior says something, too: as much as one more observation of what was found (the
    unit-information prior of Kass & Wasserman 1995).
    """

    sd: float = 0.0
    freedom: int = 0

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Deviations (count,) from Student's t distribution of this scale."""
        if self.freedom == 0 or self.sd == 0:
            return np.zeros(count)
        return self.sd * rng.standard_t(self.freedom + 1, count)


@dataclass(frozen=True, kw_only=True)
class Scatters:
    """Of a new launch, setting by setting, all of logarithms: `arm`, what each arm varies by itself, so that neighbours
    of the chain share it; beyond that the fit's own errors, which all later arms inherit: of `compute`, `contention`,
    `ddp` (the step with it) and of what is `exposed` of communication."""

    arm: Scatter
    compute: Scatter
    contention: Scatter
    ddp: Scatter
    exposed: Scatter


def scatters_of(
    alone: Sequence[Reading],
    node: Sequence[Reading],
    observed: Observed,
    fitted: Observed,
    noop_s: np.ndarray,
    n_constants: int,
) -> tuple[Scatters, Scatter]:
    """The scatter about a fit, of a single new launch, and what a launch gives to all settings alike. The step of one
    rank has `n_constants` that are not 0.

    An arm varies as little as the least of the three parts says; what another has more is the fit's error there.
    Deviations of means over L launches lack (1 - 1/L) of the variance that a launch gives to each arm of each setting
    by itself, which is added again.
    """
    launches = len(alone[0].log_times)
    own, common = _between_launches([*alone, *node])
    lacking = (1 - 1 / launches) * own
    parts = {
        "compute": (_variance(np.log(observed.steps.time_s / fitted.steps.time_s), n_constants, lacking), 1),
        "contention": (_variance(observed.contention - fitted.contention, 1, 2 * lacking), 2),
        "ddp": (_variance((observed.ddp_s - fitted.ddp_s) / noop_s, 2, 2 * lacking), 2),
    }
    known = {name: (variance / arms, freedom) for name, ((variance, freedom), arms) in parts.items() if freedom}
    arm = Scatter(
        sd=float(np.sqrt(min(variance for variance, _ in known.values()))),
        freedom=sum(freedom for _, freedom in known.values()),
    )
    errors = {
        name: Scatter(sd=float(np.sqrt(max(0.0, variance - arms * arm.sd**2))), freedom=freedom)
        for name, ((variance, freedom), arms) in parts.items()
    }
    exposed = _misfit(observed.exposed_s, fitted.exposed_s, noop_s, arm)
    shared = Scatter(sd=float(np.sqrt(common)), freedom=launches - 1)
    return Scatters(arm=arm, **errors, exposed=exposed), shared


def _variance(deviations: np.ndarray, parameters: int, lacking: float) -> tuple[float, int]:
    """The variance of deviations from a fit of so many parameters, and its degrees of freedom; 0 of none."""
    known = deviations[np.isfinite(deviations)]
    if not len(known):
        return 0.0, 0
    freedom = max(1, len(known) - parameters)
    return float((known**2).sum()) / freedom + lacking, freedom


def _misfit(observed_s: np.ndarray, fitted_s: np.ndarray, noop_s: np.ndarray, arm: Scatter) -> Scatter:
    """How far exposed communication lies beside the fit beyond the noise of the two arms whose difference it is; none
    where that noise explains the deviations (F test at 5 %)."""
    known = np.isfinite(observed_s)
    freedom = int(known.sum()) - 2
    if freedom < 1 or arm.freedom == 0:
        return Scatter()
    left, step_s = (observed_s - fitted_s)[known], (noop_s + observed_s)[known]
    squares = float((left**2).sum()) * known.sum() / freedom
    explained = 2 * arm.sd**2 * float((step_s**2).sum())
    if squares <= explained * f.ppf(0.95, freedom, arm.freedom):
        return Scatter()
    return Scatter(sd=float(np.sqrt((squares - explained) / (fitted_s[known] ** 2).sum())), freedom=freedom)


def _between_launches(readings: Sequence[Reading]) -> tuple[float, float]:
    """Variance of logarithms between launches: each arm's of each setting by itself, and what all share (0 of one)."""
    logs = np.concatenate(
        [reading.log_times[:, [c in ARMS for c in reading.columns]] for reading in readings], axis=1
    )  # (launches, arms of all settings)
    launches, items = logs.shape
    if launches == 1:
        return 0.0, 0.0
    deviations = logs - logs.mean(axis=0)
    shared = deviations.mean(axis=1)
    own = float(((deviations - shared[:, None]) ** 2).sum() / ((launches - 1) * (items - 1)))
    # the mean's own error of the launches is added to their variance
    return own, max(0.0, float((shared**2).sum() / (launches - 1)) - own / items) * (1 + 1 / launches)
