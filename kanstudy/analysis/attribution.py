"""Where the parallel efficiency goes: the chain of times from one rank alone to DDP, as factors.

    T1(B)/p -> mean_r T1_r(B/p) -> max_r T1_r(B/p) -> max_r T_conc -> max_r T_noop -> sum_k max_r t_noop,k -> T_ddp

Each factor is the ratio of neighbours; their product is the efficiency E(p) exactly. Weak scaling is the same chain
without its first link, so E_strong(p; B) = batch x E_weak(p; B/p). At p = 1 the plain module is the same on every
link before DDP: only the factors of DDP remain.

The baseline is the device of mean speed: `serial_global` runs on one rank after another, see
`kanstudy.analysis.devices`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis import intervals
from kanstudy.analysis.blocks import CHAIN
from kanstudy.analysis.fixed_part import fixed_parts
from kanstudy.analysis.intervals import MISSING, Estimate
from kanstudy.analysis.paired import WITHIN, PairedArms
from kanstudy.analysis.results import fault_text
from kanstudy.analysis.series import WORK_KEYS, series_labels
from kanstudy.record import Record
from kanstudy.spec import PointSpec

_NAMES = ("batch", "heterogeneity", "contention", "ddp", "synchronisation", "data_movement")
FACTORS = dict(zip(_NAMES, itertools.pairwise(CHAIN), strict=True))
"""Each factor and the two links of the chain whose ratio it is."""
POP = {
    "batch": "computation scaling",
    "heterogeneity": "load balance",
    "contention": "computation scaling (IPC, frequency)",
    "ddp": "computation scaling (instructions)",
    "synchronisation": "serialisation",
    "data_movement": "transfer",
    "efficiency": "global efficiency",
}
"""The metric of the Performance Optimisation and Productivity centre (POP) that each comes closest to.

POP's parallel efficiency is load balance x serialisation x transfer within one run; relative to a reference run it is
multiplied with computation scaling to the global efficiency, which is what is called parallel efficiency here. Not
exact: POP takes all of them from one trace of the parallel run, while heterogeneity comes from ranks timed alone
(unequal contention is in contention, not in load balance); POP counts DDP's copies outside of the communication library
as useful computation; serialisation is that on an ideal network, here with one wait a step; and transfer contains, on
gloo, the sums and copies that the ranks' own cores do.
"""


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
    if arms.n and not arms.has(base, "ddp"):
        notes.append(f"no baseline: the arm {base.removesuffix('_mean')} was not measured")
    elif arms.n and np.isnan(value.value):
        notes.append("a step time is missing")
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


def quality(record: Record, arms: PairedArms) -> str:
    """What a reader must know of the rounds behind a record's numbers; empty where all is well."""
    notes = [fault_text(record)]
    if 0 < arms.n < intervals.ORDER_STATISTICS_FROM and not arms.by_launch:
        notes.append(f"{arms.n} round{'s' * (arms.n > 1)}: too few for an interval")
    if arms.n and not arms.blocks.trusted:
        every = arms.blocks.dropped == len(arms.blocks.disturbed)
        kept = "all are kept" if every else "they are left out"
        notes.append(f"untrusted: {arms.blocks.dropped} of {len(arms.blocks.disturbed)} rounds disturbed, {kept}")
    if record.oversubscribed:
        notes.append("more ranks than cores")
    return joined(*notes)


def joined(*notes: str) -> str:
    """Notes as one text."""
    return "; ".join(filter(None, notes))


def factor_name(factor: str) -> str:
    """A factor in words."""
    return "DDP" if factor == "ddp" else factor.replace("_", " ")


def pop_text(factors: Iterable[str]) -> str:
    """Which of POP's metrics each of these factors comes closest to, in one sentence for under a waterfall."""
    groups: dict[str, list[str]] = {}
    for factor in dict.fromkeys(factors):
        if factor in FACTORS:
            groups.setdefault(POP[factor].partition(" (")[0], []).append(factor_name(factor))
    pairs = ", ".join(f"{' x '.join(names)} ~ {metric}" for metric, names in groups.items())
    return f"In POP's terms: {pairs}; their product, the parallel efficiency ~ {POP['efficiency']}"


def attribution(records: Sequence[Record]) -> pd.DataFrame:
    """One row a factor of each record, then one for the efficiency itself.

    Columns: point_id, source, series, world_size, scaling, factor, pop (POP's metric closest to it), value, fixed (of
    the batch factor: what the step's part that does not shrink would alone make it), log_share (ln f / ln E), points
    (of efficiency, in the order of the chain, which they depend on), the intervals `_low` and `_high`, method,
    coverage, n_rounds, n_disturbed, trusted, reason. A record without a complete chain is one row of factor "none" and
    says why.
    """
    rows = []
    fixed = fixed_parts(records)
    for record, series in zip(records, series_labels(records), strict=True):
        found = efficiency(record)
        head: dict[str, object] = {"point_id": record.point_id, "source": record.source, "series": series}
        head |= {"world_size": record.world_size, "scaling": record.scaling}
        tail: dict[str, object] = {"n_rounds": found.n_rounds, "n_disturbed": found.n_disturbed}
        tail |= {"trusted": found.trusted, "reason": found.reason}
        if not found.factors:
            reason = found.reason or "no attribution: an arm of the chain was not measured"
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


def identity_check(strong: Sequence[Record], weak: Sequence[Record]) -> pd.DataFrame:
    """E_strong(p; B) beside batch x E_weak(p; B/p), wherever both experiments measured the same local batch.

    Columns: series, world_size, local_batch_size, efficiency, batch_times_weak and ratio, the one over the other, each
    with its interval; meaning, what the ratio says; the point_id of both; reason. The chain within the strong record
    is exact, so that `ratio` compares one quantity, the efficiency from the local batch on, between two launches.
    """
    weak_of = {_same_work(record): record for record in weak}
    rows = []
    for record, series in zip(strong, series_labels(strong), strict=True):
        partner = weak_of.get(_same_work(record))
        if record.world_size == 1 or partner is None:
            continue
        own, other = efficiency(record), efficiency(partner)
        product = own.factors["batch"].times(other.value) if own.factors else MISSING
        chain = PairedArms(record).ratio("serial_local_mean", "ddp")
        ratio = chain.times(other.value.mapped(lambda e: 1 / e))
        rows.append(
            {"series": series, "world_size": record.world_size, "local_batch_size": record.local_batch_size}
            | columns("efficiency", own.value)
            | columns("batch_times_weak", product)
            | columns("ratio", ratio)
            | {"meaning": _meaning(ratio), "point_id": record.point_id, "weak_point_id": partner.point_id}
            | {"reason": joined(*dict.fromkeys((own.reason, other.reason)))}
        )
    names = ["series", "world_size", "local_batch_size", "efficiency", "efficiency_low", "efficiency_high"]
    names += ["batch_times_weak", "batch_times_weak_low", "batch_times_weak_high"]
    names += ["ratio", "ratio_low", "ratio_high", "meaning", "point_id", "weak_point_id", "reason"]
    return pd.DataFrame(rows, columns=names)


def _meaning(ratio: Estimate) -> str:
    """What the ratio of one efficiency measured in two launches says."""
    if not ratio.has_interval:
        return "no interval: whether they differ cannot be told"
    if ratio.includes(1):
        return "they agree within their intervals"
    text = f"E strong is {abs(ratio.value - 1):.0%} {'larger' if ratio.value > 1 else 'smaller'}, more than "
    if ratio.method == intervals.OVER_LAUNCHES:
        return f"{text}launches vary"
    return f"{text}the rounds of either launch vary: launches differ by so much, which no interval within one contains"


def columns(name: str, estimate: Estimate) -> dict[str, float]:
    """An estimate as three columns of a table."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _described(estimate: Estimate) -> dict[str, object]:
    return {**columns("value", estimate), "method": estimate.method, "coverage": estimate.coverage}


def baseline(record: Record, arms: PairedArms) -> tuple[str, float]:
    """The column that E is relative to, and the factor on it. At p = 1 both serial arms are the same work."""
    if record.world_size == 1:
        return ("serial_global" if arms.has("serial_global") else "serial_local"), 1.0
    return ("serial_global", 1 / record.world_size) if record.scaling == "strong" else ("serial_local_mean", 1.0)


def links(record: Record | PointSpec) -> dict[str, tuple[str, str]]:
    """The factors that apply to a point or its record, with the links of the chain; the first link is the baseline."""
    if record.world_size > 1:
        return {name: pair for name, pair in FACTORS.items() if record.scaling == "strong" or name != "batch"}
    base = "serial_global" if "serial_global" in record.arms else "serial_local"
    if "ddp_noop" not in record.arms:
        return {"ddp": (base, "ddp")}
    return {"ddp": (base, "ddp_noop"), "data_movement": ("ddp_noop", "ddp")}


def with_chain(records: Sequence[Record]) -> list[Record]:
    """The records whose whole chain of arms was asked for, measured or not; a control has only a part of it."""
    return [
        record
        for record in records
        if {WITHIN.get(column, column) for pair in links(record).values() for column in pair} <= set(record.arms)
    ]


def _same_work(record: Record) -> tuple:
    """What strong and weak scaling must share for the identity: the work on as many ranks with the same local batch."""
    values = (getattr(record, name) for name in (*WORK_KEYS, "world_size", "local_batch_size"))
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)
