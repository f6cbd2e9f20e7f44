"""The parallel efficiency of a record as the product of its factors, and all factors of all records as one frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import POP, baseline, factor_name, links
from kanstudy.analysis.attribution.fixed_part import fixed_parts
from kanstudy.analysis.rows import columns, joined, quality
from kanstudy.analysis.series import series_labels
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate
from kanstudy.analysis.statistics.paired_arms import WITHIN, PairedArms
from kanstudy.record import Record


@dataclass(frozen=True)
class Efficiency:
    """The parallel efficiency of one record and its factors; `reason` says why something is missing or doubtful.

    `value` has the plain module on one rank as its baseline, `of_means` is the same from mean times, `all_rounds`
    keeps the disturbed rounds. `factors` is empty where an arm is missing.
    """

    value: Estimate
    of_means: Estimate
    all_rounds: Estimate
    factors: dict[str, Estimate]
    n_rounds: int
    n_disturbed: int
    trusted: bool
    reason: str

    def log_share(self, factor: str) -> Estimate:
        """ln f / ln E: the factor's share of the loss; missing where E cannot be told from 1."""
        part, whole = self.factors[factor], self.value
        if whole.includes(1):
            return intervals.no_interval(np.nan, whole.n)
        share = float(np.log(part.value) / np.log(whole.value))
        if part.draws is None or whole.draws is None:
            return intervals.no_interval(share, whole.n)
        with np.errstate(divide="ignore", invalid="ignore"):
            return intervals.of_draws(share, np.log(part.draws) / np.log(whole.draws), whole.n, whole.method)


def efficiency(record: Record) -> Efficiency:
    """The efficiency of a record with all that belongs to it, over its undisturbed rounds."""
    arms, everything = PairedArms(record), PairedArms(record, all_rounds=True)
    base, scale = baseline(record, everything)
    pairs = links(record)
    complete = all(arms.has(*pair) for pair in pairs.values())
    factors = {name: arms.ratio(*pair, scale=scale if name == "batch" else 1.0) for name, pair in pairs.items()}
    value = arms.ratio(base, "ddp", scale)
    notes = [quality(record, arms)]
    if arms.n and not arms.has("ddp"):
        notes.append("the arm ddp was not measured")
    elif arms.n and not arms.has(base):
        notes.append(f"no baseline: the arm {base.removesuffix('_mean')} was not measured")
    elif arms.n and np.isnan(value.value):
        notes.append("a step time is missing")
    elif complete and (unknown := [factor_name(name) for name, factor in factors.items() if np.isnan(factor.value)]):
        why = "a step time is missing, or ranks hold different numbers of steps"
        notes.append(f"{' and '.join(unknown)} cannot be told: {why}")
    if value.value > 1:
        notes.append("efficiency above 1")
    return Efficiency(
        value=value,
        of_means=arms.ratio_of_means(base, "ddp", scale),
        all_rounds=everything.ratio(base, "ddp", scale),
        factors=factors if complete else {},
        n_rounds=arms.n,
        n_disturbed=arms.blocks.dropped,
        trusted=arms.blocks.trusted,
        reason=joined(*notes),
    )


def unmeasured(record: Record) -> str:
    """Which arms of the chain a record has no rounds of, in words."""
    chain = dict.fromkeys(WITHIN.get(column, column) for pair in links(record).values() for column in pair)
    names = [arm for arm in chain if arm not in record.arms or not record.arms[arm].rounds]
    return f"the chain's {' and '.join(names)} {'was' if len(names) == 1 else 'were'} not measured"


def attribution(records: Sequence[Record]) -> pd.DataFrame:
    """One row a factor of each record, then one for the efficiency itself.

    Columns: point_id, source, series, world_size, scaling, factor, pop (POP's metric closest to it), value, fixed (of
    the batch factor: what the step's part that does not shrink would alone make it), log_share (ln f / ln E), points
    (of efficiency, in the order of the chain, which they depend on), the intervals `_low` and `_high`, method,
    coverage, n_rounds, n_disturbed, trusted, reason. A record without a complete chain is one row of factor "none" and
    says why. Raises `TypeError` for anything but records.
    """
    if not isinstance(records, Sequence) or not all(isinstance(record, Record) for record in records):
        raise TypeError(
            f"records = {repr(records)[:60]}: must be a list of records, such as kanstudy.load(...).records"
        )
    rows = []
    fixed = fixed_parts(records)
    for record, series in zip(records, series_labels(records), strict=True):
        found = efficiency(record)
        head: dict[str, object] = {"point_id": record.point_id, "source": record.source, "series": series}
        head |= {"world_size": record.world_size, "scaling": record.scaling}
        tail: dict[str, object] = {"n_rounds": found.n_rounds, "n_disturbed": found.n_disturbed}
        tail |= {"trusted": found.trusted, "reason": found.reason}
        if not found.factors:
            reason = found.reason or f"no attribution: {unmeasured(record)}"
            rows.append(head | {"factor": "none"} | tail | {"reason": reason})
            continue
        running = 1.0
        for name, factor in found.factors.items():
            share = columns("log_share", found.log_share(name))
            points = running * (factor.value - 1)
            running *= factor.value
            part = columns("fixed", fixed[record.point_id].factor) if name == "batch" else {}
            row = head | {"factor": name, "pop": POP[name]} | _described(factor) | part
            rows.append(row | share | {"points": points} | tail)
        whole = {"factor": "efficiency", "pop": POP["efficiency"]}
        rows.append(head | whole | _described(found.value) | tail)
    names = ["point_id", "source", "series", "world_size", "scaling", "factor", "pop"]
    names += [
        "value",
        "value_low",
        "value_high",
        "fixed",
        "fixed_low",
        "fixed_high",
        "log_share",
        "log_share_low",
        "log_share_high",
        "points",
        "method",
        "coverage",
    ]
    return pd.DataFrame(rows, columns=[*names, "n_rounds", "n_disturbed", "trusted", "reason"])


def _described(estimate: Estimate) -> dict[str, object]:
    return {**columns("value", estimate), "method": estimate.method, "coverage": estimate.coverage}
