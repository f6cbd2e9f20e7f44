"""How far apart two results are: every number that both have of the same work, and its ratio or difference.

The numbers are those of the study's own tables, whichever experiment they belong to. Times, efficiencies, factors and
bandwidths are compared by their ratio B/A; overheads, which may be negative, by B - A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis import complementarity, estimates
from kanstudy.analysis.attribution import chain, decomposition
from kanstudy.analysis.attribution.chain import factor_name
from kanstudy.analysis.comparison import mover
from kanstudy.analysis.comparison.mover import MISSING, Bounded
from kanstudy.analysis.comparison.sides import Pair, Side
from kanstudy.analysis.rows import joined, value_text
from kanstudy.analysis.tables.layouts import Column
from kanstudy.record import Record

RATIO, DIFFERENCE = "B/A", "B - A"
LARGER, SMALLER, NOT_TOLD = "B is larger", "B is smaller", "not told apart"
NO_INTERVAL, SAME, ABSENT = "no interval", "the same measurement", "not in both"


@dataclass(frozen=True)
class Quantity:
    """A column of a frame that is compared: what it is called, with its unit, the factor to that unit, and how."""

    text: str
    scale: float = 1.0
    by: str = RATIO


@dataclass(frozen=True)
class Compared:
    """One table of the study: its frame, of which experiment's records, and the columns that are compared.

    `within` are further columns that tell the rows of a point apart, `points` the columns that name a row's points.
    """

    title: str
    experiment: str
    frame: Callable[[Sequence[Record]], pd.DataFrame]
    quantities: dict[str, Quantity]
    within: tuple[str, ...] = ()
    points: tuple[str, ...] = ("point_id",)

    def of(self, side: Side) -> pd.DataFrame:
        """The table of one side."""
        return self.frame([record for record in side.records if record.experiment == self.experiment])


_STEP = {"step_time_s": Quantity("step (ms)", 1e3)}
_EFFICIENCY = {"efficiency": Quantity("parallel efficiency")}
_OVERHEAD = {"overhead": Quantity("overhead (% of a step)", 100, DIFFERENCE)}
_FACTOR = {"value": Quantity("factor")}


def _chains(records: Sequence[Record]) -> pd.DataFrame:
    return decomposition.attribution(chain.with_chain(records))


TABLES = {
    "strong_scaling": Compared("Strong scaling", "strong_scaling", estimates.strong, _EFFICIENCY | _STEP | _OVERHEAD),
    "attribution_strong": Compared(
        "Where the efficiency goes, strong scaling", "strong_scaling", _chains, _FACTOR, ("factor",)
    ),
    "weak_scaling": Compared("Weak scaling", "weak_scaling", estimates.weak, _EFFICIENCY | _STEP | _OVERHEAD),
    "attribution_weak": Compared(
        "Where the efficiency goes, weak scaling", "weak_scaling", _chains, _FACTOR, ("factor",)
    ),
    "communication_overhead": Compared(
        "Communication overhead",
        "communication_overhead",
        estimates.overhead,
        _OVERHEAD
        | {"exposed_ms": Quantity("exposed (ms)", 1, DIFFERENCE)}
        | {"total_comm_s": Quantity("blocking all-reduce (ms)", 1e3)},
    ),
    "allreduce": Compared(
        "All-reduce",
        "communication_overhead",
        estimates.allreduce,
        {"busbw_bytes_per_s": Quantity("bus bandwidth (GB/s)", 1e-9)},
        ("message_bytes",),
    ),
    "model_size": Compared(
        "Model size",
        "model_size_scaling",
        estimates.model_size,
        _EFFICIENCY | _STEP | {"peak_memory_bytes": Quantity("peak memory (MiB)", 1 / 2**20)},
    ),
    "complementarity": Compared(
        "Operators and ranks",
        "operator_scaling",
        complementarity.complementarity,
        {
            "operator_speedup": Quantity("speed-up by the operator"),
            "ranks_speedup": Quantity("speed-up by the ranks"),
            "together": Quantity("speed-up together"),
            "interaction": Quantity("interaction"),
        },
        points=("point_id", "faster_point_id"),
    ),
}
"""The tables in the order of the study's report."""

COLUMNS = ["table", "series", "world_size", "of", "quantity", "a", "a_low", "a_high", "b", "b_low", "b_high"]
COLUMNS += ["by", "change", "change_low", "change_high", "told", "a_source", "b_source", "reason"]
COLUMNS += ["a_point_id", "b_point_id"]


def changes(a: Side, b: Side, pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row a number of a pair of points: table, series, world_size, of (what within the point), quantity (with its
    unit, in which a and b are), a and b, by (ratio or difference), change, each with its interval, told (whether the
    interval of the change leaves out none), the source of either, reason, and the point_id of either."""
    rows = [row for name, table in TABLES.items() for row in _rows(name, table, a, b, pairs)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(name: str, table: Compared, a: Side, b: Side, pairs: Sequence[Pair]) -> Iterator[dict]:
    ours = _by_place(table, table.of(a), {pair.a.point_id: number for number, pair in enumerate(pairs)})
    theirs = _by_place(table, table.of(b), {pair.b.point_id: number for number, pair in enumerate(pairs)})
    for place in sorted(dict.fromkeys([*ours, *theirs]), key=lambda place: place[0]):  # stable within a point
        left, right, pair = ours.get(place), theirs.get(place), pairs[place[0]]
        head = {"table": name, "series": pair.series, "world_size": pair.a.world_size}
        head |= {"of": _of(left if left is not None else right), "a_source": pair.a.source, "b_source": pair.b.source}
        head |= {"a_point_id": pair.a.point_id, "b_point_id": pair.b.point_id}
        notes = [
            pair.note,
            *(f"{letter}: {row['reason']}" for letter, row in (("A", left), ("B", right)) if row and row["reason"]),
        ]
        for column, quantity in table.quantities.items():
            here, there = _bounded(left, column, quantity.scale), _bounded(right, column, quantity.scale)
            if np.isnan([here.value, there.value]).all():
                continue
            change = (mover.ratio if quantity.by == RATIO else mover.difference)(there, here)
            told = _told(here, there, change, quantity.by)
            if pair.is_same_measurement:
                told, change = SAME, MISSING
            yield (
                head
                | {"quantity": quantity.text}
                | _columns("a", here)
                | _columns("b", there)
                | {"by": quantity.by}
                | _columns("change", change)
                | {"told": told, "reason": joined(*notes)}
            )


def _by_place(table: Compared, frame: pd.DataFrame, numbers: Mapping[str, int]) -> dict[tuple, dict]:
    """Rows by their place: the numbers of their points' pairs and what tells them apart within; without those of points
    that have no partner."""
    found = {}
    for row in frame.to_dict("records"):
        place = (*(numbers.get(row[name]) for name in table.points), *(row[name] for name in table.within))
        if None not in place:
            found[place] = row
    return found


def _of(row: dict | None) -> str:
    """What of a point a row is about: a factor, a message, two operators, or all of it."""
    row = row or {}
    if "factor" in row:
        return factor_name(row["factor"])
    if "message_bytes" in row:
        return f"{row['message_bytes']} B"
    return f"{row['faster_operator']} in place of {row['operator']}" if "faster_operator" in row else ""


def _bounded(row: dict | None, column: str, scale: float) -> Bounded:
    ends = (np.nan if row is None else row.get(f"{column}{end}", np.nan) for end in ("", "_low", "_high"))
    return Bounded(*(scale * float("nan" if end is None else end) for end in ends))


def _told(here: Bounded, there: Bounded, change: Bounded, by: str) -> str:
    if np.isnan([here.value, there.value]).any():
        return ABSENT
    if np.isnan([change.low, change.high]).any():
        return NO_INTERVAL
    none = 1.0 if by == RATIO else 0.0
    return LARGER if change.low > none else SMALLER if change.high < none else NOT_TOLD


def _columns(name: str, item: Bounded) -> dict[str, float]:
    return {f"{name}{end}": part for end, part in zip(("", "_low", "_high"), item, strict=True)}


def layout(a: Side, b: Side) -> dict[str, Column]:
    """How the frame is shown; the sources of the rows where a side has several."""
    columns = {"series": "series", "world_size": "ranks", "of": "of", "quantity": "quantity"}
    three = {"a": a.title, "b": b.title, "change": "change"}
    tail = {"told": "so", "reason": "note", "a_point_id": "point in A", "b_point_id": "point in B"}
    if max(len(side.sources) for side in (a, b)) > 1:
        tail = {"a_source": "source of A", "b_source": "source of B"} | tail
    shown = {name: Column(heading) for name, heading in columns.items()}
    shown |= {name: Column(heading, digits=3) for name, heading in three.items()} | {"by": Column("which is")}
    return shown | {name: Column(heading) for name, heading in tail.items()}


def sentences(frame: pd.DataFrame) -> list[str]:
    """What the rows of one table come to, and each parallel efficiency of several ranks in words."""
    judged = frame[frame["told"].isin([LARGER, SMALLER, NOT_TOLD])]
    told = judged[judged["told"] != NOT_TOLD]
    found = []
    if len(judged):
        found.append(
            f"Of {len(judged)} numbers with an interval {len(told)} differ by more than their intervals explain; "
            f"{0.05 * len(judged):.1f} would by chance alone."
        )
    if same := int((frame["told"] == SAME).sum()):
        found.append(f"{same} numbers come from the very same measurement in both, which tells nothing.")
    whole = judged[(judged["quantity"] == "parallel efficiency") & (judged["world_size"] > 1)]
    for _, row in whole.iterrows():
        texts = [value_text(row, name, digits=3) for name in ("a", "b", "change")]
        found.append(
            f"{row['series']}, {row['world_size']} ranks: parallel efficiency {texts[0]} in A ({row['a_source']}), "
            f"{texts[1]} in B ({row['b_source']}), {row['by']} {texts[2]}: {row['told']}"
            f"{' (' + row['reason'] + ')' if row['reason'] else ''}."
        )
    return found
