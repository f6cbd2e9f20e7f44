"""What is wanted of a point, and how much of it a record holds. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kanstudy import stopping
from kanstudy.record import FINAL_FAULTS, Record


class Plan(Protocol):
    """What a planned experiment, the plan kept beside its records, and a launch have in common."""

    @property
    def rounds(self) -> Mapping[str, int]:
        """Rounds a launch, by point."""

    @property
    def launches(self) -> int: ...

    @property
    def target_width(self) -> Mapping[str, float]:
        """Width of the efficiency's interval at which a launch has enough rounds, by point; none: all of `rounds`."""


@dataclass(frozen=True)
class Wanted:
    """So many rounds of each launch, or, where rounds are adaptive, an interval of the efficiency so narrow."""

    rounds: int
    launches: int = 1
    target_width: float | None = None

    def has_launch(self, record: Record, launch: int) -> bool:
        """Whether the record holds what is wanted of one launch."""
        narrow = self.target_width is not None and stopping.is_narrow(record, launch, self.target_width)
        return narrow or record.rounds_of_launch(launch) >= self.rounds

    def has_rounds(self, record: Record) -> bool:
        """Whether the record holds what is wanted of every launch."""
        return all(self.has_launch(record, launch) for launch in range(self.launches))

    def is_complete(self, record: Record) -> bool:
        """Whether every launch has all its rounds, and the rest was measured too."""
        return record.status == "ok" and self.has_rounds(record)

    def is_final(self, record: Record) -> bool:
        """Whether there is nothing left to measure: complete, or a fault of the point itself."""
        return record.status in FINAL_FAULTS or self.is_complete(record)

    def state(self, record: Record) -> str:
        """The status, measured by what is wanted: `ok` with too few rounds is `partial`."""
        return "partial" if record.status == "ok" and not self.is_complete(record) else record.status


def wanted_of(plan: Plan, point_id: str) -> Wanted:
    """What a plan wants of one of its points. Raises `KeyError` where it has no such point."""
    return Wanted(plan.rounds[point_id], plan.launches, plan.target_width.get(point_id))
