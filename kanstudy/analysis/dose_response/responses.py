"""Does the attribution find what is put in? Recovered against injected, for every cause, and where else it shows.

A cause that lands where it must has a response of 1 in its own factor, and in every other the one that is expected on
paper, which is not quite 0: what is added early in the chain makes the later losses a smaller share. The difference
from the expected is judged by bounds that hold for all causes and factors at once.

The wait for data is seen in one pass of instrumented steps, not in rounds, so that its bounds know nothing of how
passes differ: it is judged where it must show alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kanstudy.analysis import results
from kanstudy.analysis.attribution.chain import factor_name
from kanstudy.analysis.attribution.decomposition import unmeasured
from kanstudy.analysis.dose_response.cause import DATA_WAIT, EFFECTS, Cause
from kanstudy.analysis.rows import columns
from kanstudy.analysis.series import SERIES_KEYS, series_keys
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.blocks import CHAIN, UNTRUSTED_ABOVE
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.statistics.simultaneous import NO_SPREAD, simultaneous
from kanstudy.analysis.tables.layouts import Column
from kanstudy.injection import OWN_FACTOR, parse
from kanstudy.record import Record

EXPERIMENT = "dose_response"
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
    causes: dict[str, list[Record]] = {cause: [] for cause in OWN_FACTOR}
    for record in usable:
        if record.injection:
            causes[parse(record.injection).cause].append(record)
    found = [Cause(plain, group) for group in causes.values() if group and plain is not None]
    confusion = _confusion(found)
    verdicts = [_verdict(cause, confusion[confusion["cause"] == cause.name]) for cause in found]
    return DoseResponse(
        responses=pd.DataFrame([row for cause in found for row in _responses(cause)], columns=_RESPONSES),
        confusion=confusion,
        verdicts=pd.DataFrame(verdicts, columns=_VERDICTS),
        unused=pd.DataFrame(
            [(record.point_id, record.injection, why) for record, why in unused],
            columns=["point_id", "injection", "reason"],
        ),
    )


def _responses(cause: Cause) -> list[dict[str, object]]:
    """A row each dose and effect of a cause."""
    rows = []
    for dose, (record, injection) in enumerate(zip(cause.records, cause.injections, strict=True)):
        arms = PairedArms(record)
        tail = {"n_rounds": arms.n, "n_disturbed": arms.blocks.dropped, "source": record.source}
        for i, effect in enumerate(EFFECTS):
            row: dict[str, object] = {"cause": cause.name, "dose": injection.dose, "effect": effect}
            row |= {"own": i == cause.own, "injected": float(cause.injected[dose, i])}
            rows.append(row | columns("recovered", cause.recovered(dose, i)) | tail | {"point_id": record.point_id})
    return rows


def _confusion(causes: Sequence[Cause]) -> pd.DataFrame:
    """The matrix as rows, with simultaneous bounds over all of them."""
    rows, unexpected = [], []
    for cause in causes:
        for i, effect in enumerate(EFFECTS):
            row: dict[str, object] = {"cause": cause.name, "effect": effect, "own": i == cause.own}
            rows.append(row | {"response": cause.response(i).value, "expected": cause.expected(i)})
            judged = effect != DATA_WAIT or i == cause.own
            unexpected.append(cause.unexpected(i).mapped(np.exp) if judged else intervals.MISSING)
    frame = pd.DataFrame(rows, columns=_CONFUSION).astype({"response": float, "expected": float})
    bounded = np.array([estimate.draws is not None for estimate in unexpected], dtype=bool)
    bounds = np.full((len(rows), 2), np.nan)
    if bounded.any():
        bounds[bounded] = np.log(simultaneous([item for item in unexpected if item.draws is not None]))
    frame["low"], frame["high"] = frame["expected"] + bounds[:, 0], frame["expected"] + bounds[:, 1]
    frame["told"] = (bounds[:, 0] > 0) | (bounds[:, 1] < 0)
    return frame


def _verdict(cause: Cause, rows: pd.DataFrame) -> dict[str, object]:
    table: list[dict[str, Any]] = [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]
    (own,) = (row for row in table if row["own"])
    others = [row for row in table if not row["own"] and row["effect"] != DATA_WAIT]
    largest = max(others, key=lambda row: abs(_apart(row)))
    within = max(abs(row[end] - row["expected"]) for row in others for end in ("low", "high"))
    slope = cause.response(cause.own)
    where = "the data wait" if OWN_FACTOR[cause.name] is None else factor_name(own["effect"])
    leaks = [f"{factor_name(row['effect'])} ({_apart(row):+.2f} of it)" for row in others if row["told"]]
    lands = False
    if not cause.trusted:
        text = f"cannot be told: above {UNTRUSTED_ABOVE:.0%} of the rounds of one of its records were disturbed"
    elif np.isnan(within):
        text = f"cannot be told: fewer than {intervals.BOOTSTRAP_FROM} undisturbed rounds, too few for bounds"
    elif np.isnan(own["low"]):
        text = f"cannot be told: fewer than {intervals.BOOTSTRAP_FROM} instrumented steps, too few for bounds"
    elif own["low"] <= NO_SPREAD:
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
        "n_rounds": min(PairedArms(record).n for record in cause.records),
        "source": ", ".join(sorted({record.source for record in cause.records})),
        "point_id": " ".join(record.point_id for record in cause.records),
    }


def _apart(row: dict[str, Any]) -> float:
    return float(row["response"] - row["expected"])


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
            unused.append((record, results.fault_text(record) or unmeasured(record)))
        elif record.injection and record.injection_step_s is None:
            unused.append((record, "it does not say how long a dose takes"))
        else:
            usable.append(record)
    return usable, unused
