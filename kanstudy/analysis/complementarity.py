"""Whether a faster operator and more ranks are complementary: speed-ups separately, together, and their interaction.

For a slower operator a, a faster one b and p ranks, from T(1) (the plain module on one rank) and T(p) (DDP):

    by the operator alone   T_a(1) / T_b(1)
    by the ranks alone      T_a(1) / T_a(p)
    together                T_a(1) / T_b(p)
    interaction             together / (operator x ranks) = E_b(p) / E_a(p)

An interaction of 1 says that the two multiply. It is the product of two parts, with T_noop of DDP that communicates
nothing: computation, T(1)/T_noop, and communication, T_noop/T(p), each under b over that under a. A faster operator
leaves less computation to hide the same communication behind.

How rounds are compared: `kanstudy.analysis.statistics.paired_operators`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis.results import launches, surroundings
from kanstudy.analysis.rows import columns, joined, quality, value_text
from kanstudy.analysis.series import SERIES_KEYS, names, series_keys, told_apart
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.statistics.paired_operators import RATIOS, PairedOperators
from kanstudy.record import Record
from kanstudy.spec import NAMED_OPERATORS

_ESTIMATES = (*RATIOS, "overhead", "overhead_faster", "exposed_ms", "exposed_ms_faster")
_HEAD = ["series", "source", "profile", "world_size", "global_batch_size", "operator", "faster_operator"]
_HEAD += ["device_name", "oversubscribed"]
_TAIL = ("verdict", "n_rounds", "n_disturbed", "launches", "trusted", "method", "reason", "point_id", "faster_point_id")
UNTOLD = "cannot be told"
VERDICTS = ("complementary", "sub-multiplicative", "super-multiplicative", UNTOLD)


def complementarity(records: Sequence[Record]) -> pd.DataFrame:
    """One row a pair of operators at a world size above one: the ratios of this module, ranks_speedup_faster
    (T_b(1)/T_b(p)), product (operator x ranks), overhead and exposed_ms under either operator, all with intervals.

    `verdict` is one of `VERDICTS`: complementary where the interaction's interval holds 1. Of two operators the first
    in `spec.NAMED_OPERATORS` counts as the slower, which the numbers may contradict. Work that was measured under one
    operator only is a row that says so, and so are records of different conditions, which are not compared.
    """
    rows = []
    for series, slower, faster in _pairs(records):
        own = [name for name in (*_HEAD, "point_id") if name not in ("series", "faster_operator")]
        head = {"series": series} | {name: getattr(slower, name) for name in own}
        why_not = _why_not_compared(slower, faster)
        if faster is not None:
            head |= {"faster_operator": faster.operator, "faster_point_id": faster.point_id}
        if faster is None or why_not:
            notes = [why_not, *(_quality(record) for record in (slower, faster) if record is not None)]
            rows.append(head | {"verdict": UNTOLD, "n_rounds": 0, "trusted": False, "reason": joined(*notes)})
            continue
        pair = PairedOperators(slower, faster)
        row = dict(head)
        for name in RATIOS:
            row |= columns(name, pair.ratio(name))
        for which in ("", "_faster"):
            row |= columns(f"overhead{which}", pair.overhead(which))
            row |= columns(f"exposed_ms{which}", pair.exposed_ms(which))
        found = pair.ratio("interaction")
        row |= {"verdict": _verdict(found, pair.trusted), "n_rounds": pair.n, "n_disturbed": pair.n_disturbed}
        row |= {"launches": min(launches(slower), launches(faster)), "trusted": pair.trusted, "method": found.method}
        notes = [_quality(slower), _quality(faster)]
        if 0 < pair.n < intervals.ORDER_STATISTICS_FROM and "too few" not in "".join(notes):
            notes.append(f"{pair.n} pairs of rounds: too few for an interval")
        rows.append(row | {"reason": joined(*notes)})
    values = [f"{name}{end}" for name in _ESTIMATES for end in ("", "_low", "_high")]
    frame = pd.DataFrame(rows, columns=[*_HEAD, *values, *_TAIL])
    return frame.assign(sentence=[sentence(row) for _, row in frame.iterrows()])


def per_round(records: Sequence[Record]) -> pd.DataFrame:
    """What each pair of rounds alone says, for the dots of a figure: point_id and faster_point_id, the ratios of
    `complementarity`, disturbed."""
    frames = []
    for _, slower, faster in _pairs(records):
        if faster is None or _why_not_compared(slower, faster):
            continue
        pair = PairedOperators(slower, faster, all_rounds=True)
        if pair.is_measured:
            ratios = {name: pair.per_round(name) for name in RATIOS}
            ids = {"point_id": slower.point_id, "faster_point_id": faster.point_id}
            frames.append(pd.DataFrame(ids | ratios | {"disturbed": pair.disturbed}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def sentence(row: pd.Series) -> str:
    """What a row of `complementarity` says, in plain words, with its source and points."""
    points = " ".join(name for name in (row["point_id"], row["faster_point_id"]) if isinstance(name, str))
    return f"{_words(row)} ({row['source']}: {points})."


def _words(row: pd.Series) -> str:
    head = f"{row['series']}, {row['world_size']} ranks"
    a, b = row["operator"], row["faster_operator"]
    if not np.isfinite(row["interaction"]):
        return f"{head}: whether operators and ranks are complementary cannot be told: {row['reason']}"
    text = (
        f"{head}: {b} in place of {a} is {_value(row, 'operator_speedup')} times as fast on one rank, "
        f"{row['world_size']} ranks in place of one are {_value(row, 'ranks_speedup')} times as fast with {a}; "
        f"together they give {_value(row, 'together')} where independent gains would give "
        f"{_value(row, 'product')}, an interaction of {_value(row, 'interaction', digits=3)}: "
        f"{row['verdict']}, {_meaning(row)}"
    )
    before, after = (_value(row, f"overhead{which}", 100, 1) for which in ("", "_faster"))
    exposed = [_value(row, f"exposed_ms{which}", digits=2) for which in ("", "_faster")]
    shares = f"{before} % of a step with {a} and {after} % with {b}"
    return f"{text}. Exposed communication takes {shares}, {exposed[0]} and {exposed[1]} ms"


def _meaning(row: pd.Series) -> str:
    if row["verdict"] == VERDICTS[0]:
        widest = 100 * max(1 - row["interaction_low"], row["interaction_high"] - 1)
        return f"the two multiply, within what is measured (an interaction of up to {widest:.0f} % is not excluded)"
    if row["verdict"] == UNTOLD:
        return row["reason"] or "there is no interval"
    part = min if row["verdict"] == VERDICTS[1] else max
    cause = part(("computation", "communication"), key=lambda name: row[name])
    end = "less than independent gains" if row["verdict"] == VERDICTS[1] else "more than independent gains"
    return f"{end}, most of it in {cause} (a factor of {_value(row, cause, digits=3)})"


def _value(row: pd.Series, name: str, scale: float = 1.0, digits: int = 2) -> str:
    """A value with its interval; where there is none the verdict says so once."""
    return value_text(row, name, scale, digits).removesuffix(" (no interval)")


def _verdict(interaction: Estimate, trusted: bool) -> str:
    if not (interaction.has_interval and trusted):
        return UNTOLD
    if interaction.includes(1):
        return VERDICTS[0]
    return VERDICTS[1] if interaction.value < 1 else VERDICTS[2]


def _why_not_compared(slower: Record, faster: Record | None) -> str:
    if faster is None:
        return "no other operator was measured there"
    if surroundings(slower) != surroundings(faster):
        return "the operators were measured under different conditions (hosts, versions, threads)"
    return ""


def _quality(record: Record) -> str:
    note = quality(record, PairedArms(record))
    return f"{record.operator}: {note}" if note else ""


def _pairs(records: Sequence[Record]) -> Iterator[tuple[str, Record, Record | None]]:
    """Every two operators of the same work at each world size above one, the slower first, with the work's name."""
    keys = pd.DataFrame(series_keys(records), columns=list(SERIES_KEYS)).drop(columns=["operator", "node_set"])
    labels = told_apart(names(keys), keys)
    groups: dict[tuple, list[Record]] = {}
    name_of = {}
    for record, key, label in zip(records, keys.itertuples(index=False), labels, strict=True):
        if record.world_size > 1 and record.operator in NAMED_OPERATORS:
            groups.setdefault((*key, record.world_size), []).append(record)
            name_of[(*key, record.world_size)] = label
    for work, group in groups.items():
        group.sort(key=lambda record: NAMED_OPERATORS.index(str(record.operator)))
        if len(group) == 1:
            yield name_of[work], group[0], None
        for slower, faster in itertools.combinations(group, 2):
            yield name_of[work], slower, faster
