"""Whether a faster operator and more ranks are complementary: speed-ups separately, together, and their interaction.

For a slower operator a, a faster one b and p ranks, from T(1) (the plain module on one rank) and T(p) (DDP):

    by the operator alone   T_a(1) / T_b(1)
    by the ranks alone      T_a(1) / T_a(p)
    together                T_a(1) / T_b(p)
    interaction             together / (operator x ranks) = E_b(p) / E_a(p)

An interaction of 1 says that the two multiply. It is the product of two parts, with T_noop of DDP that communicates
nothing: computation, T(1)/T_noop, and communication, T_noop/T(p), each under b over that under a. A faster operator
leaves less computation to hide the same communication behind.

Both operators were measured in the same launch, one round of each in every pass over the points, on the same rank
where one works alone. So rounds are paired by launch and number, a pair disturbed in either is left out, and pairs are
resampled whole. Within an operator the arms are compared as elsewhere (`kanstudy.analysis.paired`); between operators
the difference of the mean log times of a pair, its median over pairs. So all ratios multiply exactly, draw by draw,
and what slows one operator's round as a whole leaves the interaction alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from kanstudy.analysis import intervals, metrics
from kanstudy.analysis.attribution import columns, joined, quality
from kanstudy.analysis.blocks import UNTRUSTED_ABOVE
from kanstudy.analysis.intervals import MISSING, Estimate
from kanstudy.analysis.paired import PairedArms
from kanstudy.analysis.published import value_text
from kanstudy.analysis.results import launches, surroundings
from kanstudy.analysis.series import SERIES_KEYS, series_keys, told_apart
from kanstudy.record import Record
from kanstudy.spec import NAMED_OPERATORS

_ARMS = ["serial_global", "ddp_noop", "ddp"]
_POWERS = {
    "operator_speedup": ([1, 0, 0], [-1, 0, 0]),
    "ranks_speedup": ([1, 0, -1], [0, 0, 0]),
    "ranks_speedup_faster": ([0, 0, 0], [1, 0, -1]),
    "together": ([1, 0, 0], [0, 0, -1]),
    "product": ([2, 0, -1], [-1, 0, 0]),
    "interaction": ([-1, 0, 1], [1, 0, -1]),
    "computation": ([-1, 1, 0], [1, -1, 0]),
    "communication": ([0, -1, 1], [0, 1, -1]),
    "computing": ([0, 1, -1], [0, 0, 0]),
    "computing_faster": ([0, 0, 0], [0, 1, -1]),
}
"""Each ratio as powers of the times of `_ARMS`, under the slower operator and under the faster."""
RATIOS = tuple(_POWERS)[:-2]
_ESTIMATES = (*RATIOS, "overhead", "overhead_faster", "exposed_ms", "exposed_ms_faster")
_HEAD = ["series", "source", "profile", "world_size", "global_batch_size", "operator", "faster_operator"]
_HEAD += ["oversubscribed"]
_TAIL = ("verdict", "n_rounds", "n_disturbed", "launches", "trusted", "method", "reason", "point_id", "faster_point_id")
VERDICTS = ("complementary", "sub-multiplicative", "super-multiplicative", "cannot be told")


class PairedOperators:
    """The rounds of two records of the same work under two operators, pair by pair: those undisturbed in both (or,
    with `all_rounds`, all); `disturbed` (pairs,) says which are not."""

    def __init__(self, slower: Record, faster: Record, all_rounds: bool = False) -> None:
        arms = [PairedArms(record, all_rounds) for record in (slower, faster)]
        self.trusted = all(part.blocks.trusted for part in arms)
        marked = [pd.Series(part.blocks.disturbed, part.blocks.times_s.index) for part in arms]
        every = marked[0].index.intersection(marked[1].index)
        pairs = arms[0].times_s.index.intersection(arms[1].times_s.index)
        self.n = len(pairs)
        self.is_measured = self.n > 0 and all(part.has(*_ARMS) for part in arms)
        self.n_disturbed = int((marked[0][every] | marked[1][every]).sum())
        self.trusted &= self.n_disturbed <= UNTRUSTED_ABOVE * len(every)
        self.disturbed = (marked[0][pairs] | marked[1][pairs]).to_numpy(bool)
        self.seed = intervals.seed_of(f"{slower.point_id} {faster.point_id}")
        self._times_s = [part.times_s.loc[pairs] for part in arms]

    @cached_property
    def _logs(self) -> np.ndarray:
        """Log times (pairs, 2 operators, 3 arms)."""
        return np.log(np.stack([times[_ARMS].to_numpy() for times in self._times_s], axis=1))

    @cached_property
    def _effects(self) -> np.ndarray:
        """The operators' log times over pairs (2, 3), but for a common constant."""
        return _joined(*_medians(self._logs))

    @cached_property
    def _resampled(self) -> np.ndarray:
        """The same of each resample (resamples, 2, 3), wider where pairs resemble the one before."""
        within, between = _medians(self._logs)
        drawn_within, drawn_between = _medians(self._logs[intervals.resamples(self.n, self.seed)])
        apart, levels = _split(self._logs)
        rho_within = intervals.autocorrelation(apart.reshape(self.n, -1))
        rho_between = intervals.autocorrelation((levels[:, 0] - levels[:, 1])[:, None])
        return _joined(
            intervals.widened(within, drawn_within, rho_within),
            intervals.widened(between, drawn_between, rho_between),
        )

    def ratio(self, name: str) -> Estimate:
        """One of the ratios of this module, by its column's name; `MISSING` without pairs."""
        if not self.is_measured:
            return MISSING
        powers = np.array(_POWERS[name], dtype=float)
        value = float(_power_product(self._effects, powers))
        if self.n >= intervals.BOOTSTRAP_FROM:
            return intervals.of_draws(value, _power_product(self._resampled, powers), self.n)
        return intervals.of_rounds(value, self.per_round(name))

    def per_round(self, name: str) -> np.ndarray:
        """What each pair of rounds alone says of a ratio (pairs,)."""
        return _power_product(self._logs, np.array(_POWERS[name], dtype=float))

    def overhead(self, which: str = "") -> Estimate:
        """1 - T_noop/T(p) under the slower operator, or under the `_faster`."""
        return self.ratio(f"computing{which}").mapped(lambda ratio: metrics.communication_overhead(ratio, 1.0))

    def exposed_ms(self, which: str = "") -> Estimate:
        """The median over pairs of T(p) - T_noop, ms, under the slower operator, or under the `_faster`."""
        if not self.is_measured:
            return MISSING
        times = self._times_s[which == "_faster"]
        return intervals.median(1e3 * (times["ddp"] - times["ddp_noop"]).to_numpy(), self.seed)


def _split(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log times (..., 2, 3) as each operator's mean over its arms (..., 2) and what is left (..., 2, 3)."""
    levels = logs.mean(axis=-1)
    return logs - levels[..., None], levels


def _medians(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log times (..., pairs, 2, 3) to medians over pairs: within each operator (..., 2, 3), and between both (...)."""
    apart, levels = _split(logs)
    return np.median(apart, axis=-3), np.median(levels[..., 0] - levels[..., 1], axis=-1)


def _joined(within: np.ndarray, between: np.ndarray) -> np.ndarray:
    return within + between[..., None, None] * np.array([[0.5], [-0.5]])


def _power_product(logs: np.ndarray, powers: np.ndarray) -> np.ndarray:
    return np.exp((logs * powers).sum(axis=(-2, -1)))


def complementarity(records: Sequence[Record]) -> pd.DataFrame:
    """One row a pair of operators at a world size above one: the ratios of this module, ranks_speedup_faster
    (T_b(1)/T_b(p)), product (operator x ranks), overhead and exposed_ms under either operator, all with intervals.

    `verdict` is one of `VERDICTS`: complementary where the interaction's interval holds 1. Of two operators the first
    in `spec.NAMED_OPERATORS` counts as the slower, which the numbers may contradict. Work that was measured under one
    operator only is a row that says so, and so are records of different conditions, which are not compared.
    """
    rows = []
    for series, slower, faster in _pairs(records):
        head: dict[str, object] = {
            "series": series,
            "source": slower.source,
            "profile": slower.profile,
            "operator": slower.operator,
        }
        head |= {"world_size": slower.world_size, "global_batch_size": slower.global_batch_size}
        head |= {"point_id": slower.point_id, "oversubscribed": slower.oversubscribed}
        why_not = _why_not_compared(slower, faster)
        if faster is not None:
            head |= {"faster_operator": faster.operator, "faster_point_id": faster.point_id}
        if faster is None or why_not:
            notes = [why_not, *(_quality(record) for record in (slower, faster) if record is not None)]
            rows.append(head | {"verdict": VERDICTS[-1], "n_rounds": 0, "trusted": False, "reason": joined(*notes)})
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
        few = (
            f"{pair.n} pairs of rounds: too few for an interval" if 0 < pair.n < intervals.ORDER_STATISTICS_FROM else ""
        )
        rows.append(row | {"reason": joined(_quality(slower), _quality(faster), few)})
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
    """What a row of `complementarity` says, in plain words."""
    head = f"{row['series']}, {row['world_size']} ranks"
    a, b = row["operator"], row["faster_operator"]
    if not np.isfinite(row["interaction"]):
        return f"{head}: whether operators and ranks are complementary cannot be told: {row['reason']}"
    text = (
        f"{head}: {b} in place of {a} is {value_text(row, 'operator_speedup')} times as fast on one rank, "
        f"{row['world_size']} ranks in place of one are {value_text(row, 'ranks_speedup')} times as fast with {a}; "
        f"together they give {value_text(row, 'together')} where independent gains would give "
        f"{value_text(row, 'product')}, an interaction of {value_text(row, 'interaction', digits=3)}: "
        f"{row['verdict']}, {_meaning(row)}"
    )
    before, after = (value_text(row, f"overhead{which}", 100, 1) for which in ("", "_faster"))
    exposed = [value_text(row, f"exposed_ms{which}", digits=2) for which in ("", "_faster")]
    return f"{text}. Communication takes {before} % of a step with {a} and {after} % with {b} " + (
        f"({exposed[0]} and {exposed[1]} ms)"
    )


def _meaning(row: pd.Series) -> str:
    if row["verdict"] == VERDICTS[0]:
        widest = 100 * max(1 - row["interaction_low"], row["interaction_high"] - 1)
        return f"the two multiply, within what is measured (an interaction of up to {widest:.0f} % is not excluded)"
    if row["verdict"] == VERDICTS[-1]:
        return row["reason"] or "there is no interval"
    part = min if row["verdict"] == VERDICTS[1] else max
    cause = part(("computation", "communication"), key=lambda name: row[name])
    end = "less than independent gains" if row["verdict"] == VERDICTS[1] else "more than independent gains"
    return f"{end}, most of it in {cause} (a factor of {value_text(row, cause, digits=3)})"


def _verdict(interaction: Estimate, trusted: bool) -> str:
    if not (interaction.has_interval and trusted):
        return VERDICTS[-1]
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
    keys = pd.DataFrame(series_keys(records), columns=list(SERIES_KEYS)).drop(columns="operator")
    labels = told_apart(keys["model"].str.upper() + " " + keys["dataset"], keys)
    groups: dict[tuple, list[Record]] = {}
    names = {}
    for record, key, label in zip(records, keys.itertuples(index=False), labels, strict=True):
        if record.world_size > 1 and record.operator in NAMED_OPERATORS:
            groups.setdefault((*key, record.world_size), []).append(record)
            names[(*key, record.world_size)] = label
    for work, group in groups.items():
        group.sort(key=lambda record: NAMED_OPERATORS.index(str(record.operator)))
        if len(group) == 1:
            yield names[work], group[0], None
        for slower, faster in itertools.combinations(group, 2):
            yield names[work], slower, faster
