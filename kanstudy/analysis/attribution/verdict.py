"""Which loss is the largest that can be told from nothing: one sentence under each panel of a waterfall.

A figure invites to pick its longest bar, so that the bounds must hold for all its factors at once
(`kanstudy.analysis.statistics.simultaneous`).

Heterogeneity is below 1 whatever the ranks do, since the slowest of several noisy blocks is slower than their mean: it
counts only where the same ranks are slow round after round (Friedman's test, at the n-th part of 5 % where n factors
are shown).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import chi2, rankdata

from kanstudy.analysis import metrics
from kanstudy.analysis.attribution.chain import factor_name
from kanstudy.analysis.attribution.decomposition import Efficiency, efficiency, unmeasured
from kanstudy.analysis.results import starts
from kanstudy.analysis.series import series_labels
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.launches import scope_of
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.statistics.simultaneous import NO_SPREAD, simultaneous
from kanstudy.record import Record

COLUMNS = ["point_id", "source", "series", "world_size", "scaling", "told", "factor", "value", "value_low"]
COLUMNS += ["value_high", "probability_largest", "sentence"]
_ALWAYS = 0.995
_BY_CHANCE = 0.05


def verdicts(records: Sequence[Record]) -> pd.DataFrame:
    """One row and one sentence for each record of several ranks, the panels of one waterfall.

    Columns: point_id, source, series, world_size, scaling, told, factor (the largest loss that can be told from
    nothing), its value with simultaneous bounds over all factors of all records given, probability_largest (the
    draws', that it is the largest loss of its point), sentence. Where none can be told the numbers are blank and
    the sentence says why.
    """
    shown = [
        (record, series, efficiency(record))
        for record, series in zip(records, series_labels(records), strict=True)
        if record.world_size > 1
    ]
    bounded = [
        (record.point_id, name, factor)
        for record, _, found in shown
        for name, factor in found.factors.items()
        if factor.draws is not None
    ]
    ends = simultaneous([factor for *_, factor in bounded])
    bounds = {(point, name): (low, high) for (point, name, _), (low, high) in zip(bounded, ends, strict=True)}
    rows = []
    for record, series, found in shown:
        own = {name: bounds[record.point_id, name] for name in found.factors if (record.point_id, name) in bounds}
        where = f"{record.scaling.capitalize()} scaling, {series}, {record.world_size} ranks: "
        row = _of_point(record, found, own, len(bounded))
        doubts = f"; {found.reason}" if found.reason and found.reason not in row["sentence"] else ""
        row["sentence"] = f"{where}{row['sentence']}{doubts} ({record.source}: {record.point_id})."
        head = {"point_id": record.point_id, "source": record.source, "series": series}
        rows.append(head | {"world_size": record.world_size, "scaling": record.scaling} | row)
    return pd.DataFrame(rows, columns=COLUMNS)


def _of_point(record: Record, found: Efficiency, bounds: dict[str, tuple[float, float]], compared: int) -> dict:
    """What one point's factors say, given their simultaneous bounds over all `compared` factors of the figure."""
    if why := _why_none(record, found, bounds):
        return {"told": False, "factor": "", "sentence": f"no loss can be told from nothing: {why}"}
    values = {name: factor.value for name, factor in found.factors.items()}
    losses = [name for name, (_, high) in bounds.items() if high < 1 - NO_SPREAD]
    by_turns = "heterogeneity" in losses and not slow_throughout(record, _BY_CHANCE / compared)
    if by_turns:
        losses.remove("heterogeneity")
    scope = scope_of(len(starts(record)), PairedArms(record).launches)
    note = (
        f"; {_text('heterogeneity', values, bounds)}, counts as chance: no rank is slower round after round"
        if by_turns
        else ""
    )
    if not losses:
        smallest = min((name for name in values if not (by_turns and name == "heterogeneity")), key=values.__getitem__)
        text = (
            f"no loss can be told from nothing: bounds that hold for all {compared} factors shown at once reach 1 or "
        )
        text += f"lie above it, even those of {_text(smallest, values, bounds)}, {scope}{note}"
        return {"told": False, "factor": "", "sentence": text}
    name = min(losses, key=values.__getitem__)
    draws = np.stack([factor.draws for factor in found.factors.values() if factor.draws is not None])
    probability = float(np.mean(draws.argmin(axis=0) == list(values).index(name)))
    chance_of = "bootstrap" if found.value.method == intervals.BOOTSTRAP else "t distribution's"
    chance = f"above {_ALWAYS:g}" if probability > _ALWAYS else f"{probability:.2f}"
    text = f"the largest loss that can be told from nothing is {_text(name, values, bounds)}, by bounds that hold for "
    text += f"all {compared} factors shown at once, {scope}; the {chance_of} probability that it is the largest loss "
    text += f"of this point is {chance}{note}"
    smaller = [other for other in values if values[other] < values[name] and bounds[other][1] >= 1]
    if smaller:
        text += f"; a smaller factor, but not to be told from 1: {', '.join(_text(i, values, bounds) for i in smaller)}"
    low, high = bounds[name]
    return {
        "told": True,
        "factor": name,
        "value": values[name],
        "value_low": low,
        "value_high": high,
        "probability_largest": probability,
        "sentence": text,
    }


def slow_throughout(record: Record, level: float = _BY_CHANCE) -> bool:
    """Whether some ranks, each alone, are slower than others round after round: Friedman's test at this level."""
    times = {
        (item.launch, item.index): metrics.rank_mean_step_times(item.rank_step_times_s)[np.argsort(item.active_ranks)]
        for item in record.arms["serial_local"].rounds
    }
    means = [times[key] for key in PairedArms(record).times_s.index]
    places = rankdata(means, axis=1)
    n, ranks = places.shape
    statistic = 12 * n / (ranks * (ranks + 1)) * float(((places.mean(axis=0) - (ranks + 1) / 2) ** 2).sum())
    return bool(chi2.sf(statistic, ranks - 1) < level)


def _why_none(record: Record, found: Efficiency, bounds: dict[str, tuple[float, float]]) -> str:
    """Why a point's factors cannot be judged at all; empty where they can."""
    if not found.factors:
        return found.reason or unmeasured(record)
    if not found.trusted:
        return found.reason
    if 0 < found.n_rounds < intervals.BOOTSTRAP_FROM and len(bounds) < len(found.factors):
        return f"{found.n_rounds} rounds are too few for a bootstrap, which takes {intervals.BOOTSTRAP_FROM}"
    return "" if len(bounds) == len(found.factors) else found.reason


def _text(name: str, values: dict[str, float], bounds: dict[str, tuple[float, float]]) -> str:
    low, high = bounds[name]
    return f"{factor_name(name)}, {values[name]:.3f} [{low:.3f}, {high:.3f}]"
