"""Does the attribution find what is put in? Recovered against injected, for every cause, and where else it shows.

    recovered   ln f(dose) - ln f(plain), two records of one launch
    injected    ln f(plain with the dose added on paper) - ln f(plain), see `kanstudy.analysis.on_paper`
    response    of factor f to a cause: sum_d i_d r_fd / sum_d i_d², over its doses d, with i its injected change in the
                cause's own factor and r what is recovered in f: the slope of a line through 0

A cause that lands where it must has a response of 1 in its own factor, and in every other the one that is expected on
paper, which is not quite 0: what is added early in the chain makes the later losses a smaller share. The difference
from the expected is judged by bounds that hold for all causes and factors at once.

A stall of the input has no factor. It must show in the data wait, minus its change in uninjected steps, as if ln f. The
wait is seen in one pass of instrumented steps, not in rounds, so that its bounds know nothing of how passes differ: it
is judged where it must show alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kanstudy.analysis import intervals, results
from kanstudy.analysis.attribution import FACTORS, baseline, factor_name, links
from kanstudy.analysis.blocks import CHAIN, UNTRUSTED_ABOVE
from kanstudy.analysis.intervals import Estimate
from kanstudy.analysis.on_paper import on_paper
from kanstudy.analysis.paired import PairedArms
from kanstudy.analysis.series import SERIES_KEYS, series_keys
from kanstudy.analysis.tables import Column
from kanstudy.analysis.verdict import simultaneous
from kanstudy.injection import OWN_FACTOR, Injection, parse
from kanstudy.record import Record

EXPERIMENT = "dose_response"
DATA_WAIT = "data_wait"
EFFECTS = (*FACTORS, DATA_WAIT)
"""Where a cause may show: the factors in their order, and the wait for data beside them."""
_POWER = 0.5
"""Reach of the bounds, as a share of the response in the own factor, above which `in no other` says nothing."""
VERDICTS = {
    "cause": Column("put in"),
    "effect": Column("must land in"),
    "doses": Column("doses (steps)"),
    "slope": Column("recovered / injected", digits=2),
    "others_within": Column("elsewhere within", digits=2),
    "verdict": Column("verdict"),
    "n_rounds": Column("rounds"),
    "point_id": Column("points"),
}
"""The table of verdicts, for reading."""
_RESPONSES = ["cause", "dose", "effect", "own", "injected", "recovered", "recovered_low", "recovered_high", "n_rounds"]
_RESPONSES += ["n_disturbed", "source", "point_id"]
_CONFUSION = ["cause", "effect", "own", "response", "expected", "low", "high", "told"]
_VERDICTS = ["cause", "effect", "doses", "slope", "slope_low", "slope_high", "other", "other_effect", "others_within"]
_VERDICTS += ["lands", "verdict", "n_rounds", "source", "point_id"]


@dataclass(frozen=True)
class DoseResponse:
    """- `responses`: a row each cause, dose and effect: injected and recovered change of ln f, its interval;
    - `confusion`: a row each cause and effect: response, expected, and the bounds `low` and `high` of the response,
      simultaneous over all rows; `told`: whether they leave out what is expected;
    - `verdicts`: a row each cause: slope (the response in its own factor, its own interval), the largest unexpected
      response elsewhere, within what bounds all others are, whether it `lands`, and the verdict in words;
    - `unused`: a row each record that could not be used, with the reason.
    """

    responses: pd.DataFrame
    confusion: pd.DataFrame
    verdicts: pd.DataFrame
    unused: pd.DataFrame


@dataclass(frozen=True)
class _Effects:
    """ln f (or the negative wait for data, in steps) of one record: values (effects,), draws (effects, RESAMPLES)."""

    values: np.ndarray
    draws: np.ndarray | None


def load(folder: Path | str) -> list[Record]:
    """The records of the experiment below a folder, none where it does not exist."""
    return results.load(folder, EXPERIMENT).records if Path(folder).is_dir() else []


def dose_response(records: Sequence[Record]) -> DoseResponse:
    """Compare every record that has something injected with the one that has nothing."""
    usable, unused = _sorted_out(records)
    plain = next((record for record in usable if not record.injection), None)
    if plain is None:
        unused += [(record, "no record of the same point without an injection") for record in usable]
        usable = []
    rows = pd.DataFrame(
        [(r.point_id, r.injection, why) for r, why in unused], columns=["point_id", "injection", "reason"]
    )
    causes: dict[str, list[Record]] = {cause: [] for cause in OWN_FACTOR}
    for record in usable:
        if record.injection:
            causes[parse(record.injection).cause].append(record)
    found = [_Cause(plain, group) for group in causes.values() if group and plain is not None]
    responses = [row for cause in found for row in cause.responses()]
    confusion = _confusion(found)
    verdicts = [_verdict(cause, confusion[confusion["cause"] == cause.name]) for cause in found]
    return DoseResponse(
        responses=pd.DataFrame(responses, columns=_RESPONSES),
        confusion=confusion,
        verdicts=pd.DataFrame(verdicts, columns=_VERDICTS),
        unused=rows,
    )


class _Cause:
    """One cause at its doses, ascending: `injected`, `recovered` (doses, effects), changes from the plain record."""

    def __init__(self, plain: Record, records: Sequence[Record]) -> None:
        self.records = sorted(records, key=lambda record: parse(record.injection).dose)
        self.injections = [parse(record.injection) for record in self.records]
        self.name = self.injections[0].cause
        self.own = EFFECTS.index(OWN_FACTOR[self.name] or DATA_WAIT)
        self.trusted = all(PairedArms(record).blocks.trusted for record in (plain, *records))
        pairs = list(zip(self.records, self.injections, strict=True))
        base = [_effects(plain, step_s(record)) for record in self.records]
        paper = [_expected(plain, injection, step_s(record)) for record, injection in pairs]
        dosed = [_effects(record, step_s(record)) for record in self.records]
        self.injected = np.array([a.values - b.values for a, b in zip(paper, base, strict=True)])
        self.recovered = np.array([a.values - b.values for a, b in zip(dosed, base, strict=True)])
        self.recovered_draws = _differences(dosed, base)
        self.unexpected_draws = _differences(dosed, paper)

    def response(self, changes: np.ndarray) -> np.ndarray:
        """The slopes of changes (doses, effects, ...) on what is injected into the own factor: (effects, ...)."""
        put_in = self.injected[:, self.own]
        return np.tensordot(put_in, changes, axes=1) / (put_in**2).sum()

    def slope(self) -> Estimate:
        """The response in the own factor."""
        value, n = float(self.response(self.recovered)[self.own]), min(map(_rounds, self.records))
        if self.recovered_draws is None:
            return intervals.no_interval(value, n)
        return intervals.of_draws(value, self.response(self.recovered_draws)[self.own], n)

    def responses(self) -> list[dict[str, object]]:
        rows = []
        for place, (record, injection) in enumerate(zip(self.records, self.injections, strict=True)):
            for i, effect in enumerate(EFFECTS):
                draws = None if self.recovered_draws is None else self.recovered_draws[place, i]
                value, n = float(self.recovered[place, i]), _rounds(record)
                found = intervals.no_interval(value, n) if draws is None else intervals.of_draws(value, draws, n)
                row: dict[str, object] = {"cause": self.name, "dose": injection.dose, "effect": effect}
                row |= {"own": i == self.own, "injected": float(self.injected[place, i]), "recovered": value}
                row |= {"recovered_low": found.low, "recovered_high": found.high, "n_rounds": n}
                row |= {"n_disturbed": PairedArms(record).blocks.dropped, "source": record.source}
                rows.append(row | {"point_id": record.point_id})
        return rows


def step_s(record: Record) -> float:
    """What a dose of 1 is in a record, s."""
    return record.injection_step_s or np.nan


def _confusion(causes: Sequence[_Cause]) -> pd.DataFrame:
    """The matrix as rows, with simultaneous bounds over all of them."""
    rows, unexpected = [], []
    for cause in causes:
        response, expected = cause.response(cause.recovered), cause.response(cause.injected)
        draws = None if cause.unexpected_draws is None else cause.response(cause.unexpected_draws)
        for i, effect in enumerate(EFFECTS):
            row: dict[str, object] = {"cause": cause.name, "effect": effect, "own": i == cause.own}
            rows.append(row | {"response": float(response[i]), "expected": float(expected[i])})
            value, n = np.exp(response[i] - expected[i]), min(map(_rounds, cause.records))
            if draws is None or (effect == DATA_WAIT and i != cause.own):
                unexpected.append(intervals.no_interval(value, n))
            else:  # a scale on which `simultaneous` takes logarithms
                unexpected.append(intervals.of_draws(value, np.exp(draws[i]), n))
    frame = pd.DataFrame(rows, columns=_CONFUSION).astype({"response": float, "expected": float})
    bounded = np.array([estimate.draws is not None for estimate in unexpected], dtype=bool)
    bounds = np.full((len(rows), 2), np.nan)
    if bounded.any():
        bounds[bounded] = np.log(simultaneous([item for item in unexpected if item.draws is not None]))
    frame["low"], frame["high"] = frame["expected"] + bounds[:, 0], frame["expected"] + bounds[:, 1]
    frame["told"] = (bounds[:, 0] > 0) | (bounds[:, 1] < 0)
    return frame


def _verdict(cause: _Cause, rows: pd.DataFrame) -> dict[str, object]:
    table: list[dict[str, Any]] = [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]
    (own,) = (row for row in table if row["own"])
    others = [row for row in table if not row["own"] and row["effect"] != DATA_WAIT]
    largest = max(others, key=lambda row: abs(_apart(row)))
    within = max(abs(row[end] - row["expected"]) for row in others for end in ("low", "high"))
    slope = cause.slope()
    where = "the data wait" if OWN_FACTOR[cause.name] is None else factor_name(own["effect"])
    leaks = [f"{factor_name(row['effect'])} ({_apart(row):+.2f} of it)" for row in others if row["told"]]
    lands = False
    if not cause.trusted:
        text = f"cannot be told: above {UNTRUSTED_ABOVE:.0%} of the rounds of one of its records were disturbed"
    elif np.isnan(within):
        text = f"cannot be told: fewer than {intervals.BOOTSTRAP_FROM} undisturbed rounds, too few for bounds"
    elif own["low"] <= 0:
        text = f"not found in {where}: the bounds of the response hold 0"
    else:
        lands = not own["told"] and not leaks and within <= _POWER
        much = f", but {own['response']:.2f} of it" if own["told"] else ""
        rest = f"and in no other beyond {within:.2f} of it"
        if leaks:
            rest = f"and in {', '.join(leaks)}"
        elif within > _POWER:
            rest = f"; whether in others, too, cannot be told, the bounds reach {within:.2f} of it"
        text = f"lands in {where}{much} {rest}".replace(" ;", ";")
    return {
        "cause": cause.name,
        "effect": own["effect"],
        "doses": ", ".join(f"{injection.dose:g}" for injection in cause.injections),
        "slope": slope.value,
        "slope_low": slope.low,
        "slope_high": slope.high,
        "other": _apart(largest),
        "other_effect": largest["effect"],
        "others_within": within,
        "lands": lands,
        "verdict": text,
        "n_rounds": min(map(_rounds, cause.records)),
        "source": ", ".join(sorted({record.source for record in cause.records})),
        "point_id": " ".join(record.point_id for record in cause.records),
    }


def _apart(row: dict[str, Any]) -> float:
    return float(row["response"] - row["expected"])


def _expected(plain: Record, injection: Injection, step_s: float) -> _Effects:
    """What the plain record's effects become with an injection on paper."""
    effects = _effects(on_paper(plain, injection, step_s), step_s)
    if OWN_FACTOR[injection.cause] is None:  # it is in the instrumented steps, and moves no timed one
        effects.values[-1] -= injection.dose
        if effects.draws is not None:
            effects.draws[-1] -= injection.dose
    return effects


def _effects(record: Record, step_s: float) -> _Effects:
    """All effects of a record, whose waits are in steps of `step_s`; without draws where one has none."""
    arms = PairedArms(record)
    scale = baseline(record, arms)[1]
    factors = [arms.ratio(*pair, scale=scale if name == "batch" else 1.0) for name, pair in links(record).items()]
    found = [factor.mapped(np.log) for factor in factors] + [_wait(record, step_s)]
    draws = [item.draws for item in found if item.draws is not None]
    return _Effects(np.array([item.value for item in found]), np.array(draws) if len(draws) == len(found) else None)


def _wait(record: Record, step_s: float) -> Estimate:
    """Minus the slowest rank's wait for its batch in DDP, in steps: the median over the instrumented steps."""
    waits = record.arms["ddp"].data_wait_s
    if not waits:
        return intervals.MISSING
    slowest = np.array(waits, dtype=float).max(axis=0)
    return intervals.median(-slowest / step_s, intervals.seed_of(record.point_id))


def _differences(of: Sequence[_Effects], less: Sequence[_Effects]) -> np.ndarray | None:
    """Draws of changes (doses, effects, RESAMPLES); None where one of them has no draws."""
    pairs = [(a.draws, b.draws) for a, b in zip(of, less, strict=True)]
    found = [a - b for a, b in pairs if a is not None and b is not None]
    return np.array(found) if len(found) == len(pairs) else None


def _rounds(record: Record) -> int:
    return PairedArms(record).n


def _sorted_out(records: Sequence[Record]) -> tuple[list[Record], list[tuple[Record, str]]]:
    """Records of one size and machine that have the whole chain, and the others with the reason."""
    usable, unused = [], []
    places = [place for place, name in enumerate(SERIES_KEYS) if name not in ("injection", "source")]
    keys = [tuple(key[place] for place in places) for key in series_keys(records)]
    ((commonest, _),) = Counter(keys).most_common(1) or [((), 0)]
    for record, key in zip(records, keys, strict=True):
        if key != commonest:
            unused.append((record, "of another size or machine than most records here"))
        elif not PairedArms(record).has(*CHAIN):
            unused.append((record, results.fault_text(record) or "an arm of the chain was not measured"))
        elif record.injection and record.injection_step_s is None:
            unused.append((record, "it does not say how long a dose takes"))
        else:
            usable.append(record)
    return usable, unused
