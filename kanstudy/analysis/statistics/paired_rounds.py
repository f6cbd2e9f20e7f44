"""The rounds of two records of one launch, paired.

One round of each was measured in every pass over the points. So rounds are paired by launch and number, and a pair
disturbed in either is left out.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.blocks import UNTRUSTED_ABOVE
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.launches import LAUNCHES_FROM, over_launches, rows_of_launches
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Record


class PairedRounds:
    """The pairs of two records that are undisturbed in both (or, with `all_rounds`, all): `pairs` (launch, round), how
    many, `n`, and which are `disturbed` (pairs,); `arms` of both records; `n_disturbed` of all pairs, and whether that
    leaves them `trusted`."""

    def __init__(self, first: Record, second: Record, all_rounds: bool = False) -> None:
        self.arms = [PairedArms(record, all_rounds) for record in (first, second)]
        marked = [pd.Series(part.blocks.disturbed, part.blocks.times_s.index) for part in self.arms]
        every = marked[0].index.intersection(marked[1].index)
        self.pairs = self.arms[0].times_s.index.intersection(self.arms[1].times_s.index)
        self.n = len(self.pairs)
        self.disturbed = (marked[0][self.pairs] | marked[1][self.pairs]).to_numpy(bool)
        self.n_disturbed = int((marked[0][every] | marked[1][every]).sum())
        few = self.n_disturbed <= UNTRUSTED_ABOVE * len(every)
        self.trusted = few and all(part.blocks.trusted for part in self.arms)
        self.seed = intervals.seed_of(f"{first.point_id} {second.point_id}")
        self.of_launch = rows_of_launches(self.pairs)

    @property
    def by_launch(self) -> bool:
        """Whether the launch is the replicate, not the pair."""
        return len(self.of_launch) >= LAUNCHES_FROM

    def median(self, values: np.ndarray) -> Estimate:
        """The median over pairs of what each says (pairs,), of any sign; over launches the mean of theirs; `MISSING` of
        no values."""
        if not len(values):
            return MISSING
        if not self.by_launch:
            return intervals.median(values, self.seed)
        return over_launches([np.median(values[rows]) for rows in self.of_launch], self.seed)
