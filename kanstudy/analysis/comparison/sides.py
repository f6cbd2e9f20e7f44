"""The two sides of a comparison, and which of their points are the same work.

Points are compared where all that decides the work is equal: experiment, ranks, batch, model, data and every setting of
the training step. How it is computed (operator, TF32) should be equal too, but need not where there is no other
partner. The machine, the source, the seed and how long was measured may differ; they are the conditions
(`kanstudy.analysis.comparison.conditions`). Whatever has no partner is listed with what its nearest has different.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from kanstudy.analysis.series import WORK_KEYS, plain, told_apart
from kanstudy.record import Record
from kanstudy.sizes import widths_text

MACHINE = ("source", "device_type", "device_name", "backend", "threads_per_rank")
KEYS = (
    *("experiment", "scaling", "world_size", "global_batch_size"),
    *(name for name in WORK_KEYS if name not in MACHINE),
)
"""What two points that are compared share."""
COMPUTED = ("operator", "tf32")
"""Of these, what may differ where no point with the same is there."""
UNPAIRED = ["side", "experiment", "world_size", "point_id", "reason"]


@dataclass(frozen=True)
class Side:
    """One of two results: its letter, what it is called, and its records."""

    letter: str
    name: str
    records: Sequence[Record]

    @property
    def sources(self) -> list[str]:
        """Where the records come from: measured, emulated, simulated."""
        return sorted({record.source for record in self.records})

    @property
    def title(self) -> str:
        """The letter, the name and the sources, as "A: laptop (measured)"."""
        return f"{self.letter}: {self.name} ({', '.join(self.sources)})"


class Pair(NamedTuple):
    """Two points of the same work, and the name of its series among all pairs."""

    a: Record
    b: Record
    series: str

    @property
    def note(self) -> str:
        """What of `COMPUTED` is not the same."""
        values = [(name, getattr(self.a, name), getattr(self.b, name)) for name in COMPUTED]
        return ", ".join(
            f"{name} {plain(here)} in A, {plain(there)} in B" for name, here, there in values if here != there
        )

    @property
    def is_same_measurement(self) -> bool:
        """Whether both are one and the same measurement, of which nothing can be told."""
        return self.a.arms == self.b.arms and any(arm.rounds for arm in self.a.arms.values())


def work(record: Record, but: Collection[str] = ()) -> tuple[str, ...]:
    """What a record's point shares with the one it is compared with, as text, in the order of `KEYS`, but for some."""
    values = {name: getattr(record, name) for name in KEYS if name not in but}
    values["layer_widths"] = widths_text(record.layer_widths)
    return tuple(plain(value) for value in values.values())


def pairs(a: Side, b: Side) -> tuple[list[Pair], pd.DataFrame]:
    """The pairs in the order of A's records, and a row for every point without a partner: side, experiment, world_size,
    point_id and the reason.

    Where a side has several points of one work (of other seeds, say), those of the same point_id belong together.
    """
    partner: dict[str, Record] = {}
    for but in ((), COMPUTED):
        taken = {record.point_id for record in partner.values()}
        of_a = _by_work([record for record in a.records if record.point_id not in partner], but)
        of_b = _by_work([record for record in b.records if record.point_id not in taken], but)
        for key in of_a.keys() & of_b.keys():
            ours, theirs = of_a[key], of_b[key]
            partner |= {name: theirs[name] for name in ours.keys() & theirs.keys()}
            left, right = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
            if len(left) == len(right) == 1:
                partner[left.pop()] = theirs[right.pop()]
    together = [(record, partner[record.point_id]) for record in a.records if record.point_id in partner]
    taken = {record.point_id for record in partner.values()}
    lonely = [_alone(record, a, b) for record in a.records if record.point_id not in partner]
    lonely += [_alone(record, b, a) for record in b.records if record.point_id not in taken]
    labels = _series([record for record, _ in together])
    named = [Pair(*both, label) for both, label in zip(together, labels, strict=True)]
    return named, pd.DataFrame(lonely, columns=UNPAIRED)


def _by_work(records: Sequence[Record], but: Collection[str]) -> dict[tuple[str, ...], dict[str, Record]]:
    found: dict[tuple[str, ...], dict[str, Record]] = defaultdict(dict)
    for record in records:
        found[work(record, but)][record.point_id] = record
    return found


def _alone(record: Record, own: Side, other: Side) -> dict:
    head = {name: getattr(record, name) for name in ("experiment", "world_size", "point_id")}
    return {"side": own.letter} | head | {"reason": _why_alone(record, other)}


def _why_alone(record: Record, other: Side) -> str:
    """What the point of the other side that has least different has different."""
    same_experiment = [found for found in other.records if found.experiment == record.experiment]
    if not same_experiment:
        return f"{other.letter} has no point of {record.experiment}"
    own = work(record)
    differing = {found.point_id: _differing(own, work(found)) for found in same_experiment}
    nearest = min(differing, key=lambda name: len(differing[name]))
    if not differing[nearest]:
        return f"several points are this work, {nearest} in {other.letter} among them: which belong together is open"
    return f"the nearest in {other.letter} is {nearest}: {', '.join(differing[nearest])}"


def _differing(here: tuple[str, ...], there: tuple[str, ...]) -> list[str]:
    """The keys in which two points differ, with both values; not those that follow from another model."""
    both = {name: values for name, *values in zip(KEYS, here, there, strict=True) if values[0] != values[1]}
    if "model" in both:
        both = {name: values for name, values in both.items() if name not in ("grid_size", "spline_order", "operator")}
    return [f"{name.replace('_', ' ')} {own} here, {other} there" for name, (own, other) in both.items()]


def _series(records: Sequence[Record]) -> list[str]:
    """A name for each record's series within its experiment, from the work alone."""
    keys = pd.DataFrame([work(record) for record in records], columns=list(KEYS))
    of_series = keys.drop(columns=["experiment", "world_size", "global_batch_size"])
    of_series["series_batch"] = [str(record.series_batch) for record in records]
    labels = pd.Series(index=keys.index, dtype=object)
    for _, group in keys.groupby("experiment"):
        names = group["model"].str.upper() + " " + group["dataset"]
        labels[group.index] = told_apart(names, of_series.loc[group.index])
    return list(labels)
