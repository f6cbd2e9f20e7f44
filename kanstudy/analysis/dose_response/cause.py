"""One cause at its doses: what it must do to every effect, and what it does.

    recovered   ln f(dose) - ln f(plain), two records of one launch
    injected    ln f(plain with the dose added on paper) - ln f(plain), see `on_paper`
    response    of factor f to a cause: sum_d i_d r_fd / sum_d i_d², over its doses d, with i its injected change in the
                cause's own factor and r what is recovered in f: the slope of a line through 0

A stall of the input has no factor. It must show in the data wait, minus its change in uninjected steps, as if ln f.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kanstudy.analysis.attribution.chain import FACTORS, baseline, links
from kanstudy.analysis.dose_response.on_paper import on_paper
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.injection import OWN_FACTOR, Injection, parse
from kanstudy.record import Record

DATA_WAIT = "data_wait"
EFFECTS = (*FACTORS, DATA_WAIT)
"""Where a cause may show: the factors in their order, and the wait for data beside them."""
_Effects = list[Estimate]
"""ln f of one record by effect, and minus its wait for data, in steps."""


class Cause:
    """One cause: its `records`, by dose ascending, and their `injections`; `own`, the place in `EFFECTS` where it must
    land; `injected` (doses, effects); `trusted`, whether few of the rounds were disturbed."""

    def __init__(self, plain: Record, records: Sequence[Record]) -> None:
        self.records = sorted(records, key=lambda record: parse(record.injection).dose)
        self.injections = [parse(record.injection) for record in self.records]
        self.name = self.injections[0].cause
        self.own = EFFECTS.index(OWN_FACTOR[self.name] or DATA_WAIT)
        self.trusted = all(PairedArms(record).blocks.trusted for record in (plain, *records))
        steps_s = [record.injection_step_s or np.nan for record in self.records]
        self._plain = [_effects(plain, step_s) for step_s in steps_s]
        self._paper = [_on_paper(plain, *pair) for pair in zip(self.injections, steps_s, strict=True)]
        self._dosed = [_effects(record, step_s) for record, step_s in zip(self.records, steps_s, strict=True)]
        self.injected = _values(self._paper) - _values(self._plain)
        put_in = self.injected[:, self.own]
        self._weights = put_in / (put_in**2).sum()

    def recovered(self, dose: int, effect: int) -> Estimate:
        """What one dose changes, both by their places."""
        return _sum([(1.0, self._dosed[dose][effect]), (-1.0, self._plain[dose][effect])])

    def response(self, effect: int) -> Estimate:
        """What is recovered in an effect, as a share of what is injected into the cause's own."""
        return self._slope(self._dosed, self._plain, effect)

    def expected(self, effect: int) -> float:
        """The response on paper."""
        return float(self._weights @ self.injected[:, effect])

    def unexpected(self, effect: int) -> Estimate:
        """The response less the expected one."""
        return self._slope(self._dosed, self._paper, effect)

    def _slope(self, of: Sequence[_Effects], less: Sequence[_Effects], effect: int) -> Estimate:
        terms = [(weight, found[effect]) for weight, found in zip(self._weights, of, strict=True)]
        return _sum(terms + [(-weight, found[effect]) for weight, found in zip(self._weights, less, strict=True)])


def _effects(record: Record, step_s: float) -> _Effects:
    """All effects of a record, whose waits are in steps of `step_s`."""
    arms = PairedArms(record)
    scale = baseline(record, arms)[1]
    factors = [arms.ratio(*pair, scale=scale if name == "batch" else 1.0) for name, pair in links(record).items()]
    return [*(factor.mapped(np.log) for factor in factors), _wait(record, step_s)]


def _on_paper(plain: Record, injection: Injection, step_s: float) -> _Effects:
    """What the plain record's effects become with an injection on paper."""
    *factors, wait = _effects(on_paper(plain, injection, step_s), step_s)
    if OWN_FACTOR[injection.cause] is None:  # it is in the instrumented steps, and moves no timed one
        wait = wait.mapped(lambda steps: steps - injection.dose)
    return [*factors, wait]


def _wait(record: Record, step_s: float) -> Estimate:
    """Minus the slowest rank's wait for its batch in DDP, in steps: the median over the instrumented steps."""
    waits = record.arms["ddp"].data_wait_s
    if not waits:
        return MISSING
    slowest = np.array(waits, dtype=float).max(axis=0)
    return intervals.median(-slowest / step_s, intervals.seed_of(record.point_id))


def _values(found: Sequence[_Effects]) -> np.ndarray:
    return np.array([[effect.value for effect in effects] for effects in found])


def _sum(terms: Sequence[tuple[float, Estimate]]) -> Estimate:
    """Σ w x, from the draws of the x; without an interval where one has none, or where some are over rounds and others
    over launches."""
    value = sum(weight * term.value for weight, term in terms)
    n, methods = min(term.n for _, term in terms), {term.method for _, term in terms}
    draws = [weight * term.draws for weight, term in terms if term.draws is not None]
    if len(draws) < len(terms) or len(methods) > 1:
        return intervals.no_interval(value, n)
    return intervals.of_draws(value, np.sum(draws, axis=0), n, methods.pop())
