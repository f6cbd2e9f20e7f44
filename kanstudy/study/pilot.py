"""What the rounds that are there say of the width that adaptive rounds can reach, before one is promised."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean

from kanstudy.spec import PointSpec
from kanstudy.stopping import LOOKS, half_width, log_ratios
from kanstudy.strict_json import RecordError
from kanstudy.study.folder import find_record
from kanstudy.study.plan import ExperimentPlan


def forecasts(plan: ExperimentPlan, results: Path) -> list[str]:
    """One line a point whose rounds are adaptive, none for the others.

    The half-width of the interval after n rounds of an earlier launch, w, is taken to shrink as w √(n / N) with N
    rounds. Where no launch left 6 rounds, the line says that nothing is known.
    """
    lines = []
    for point in plan.points:
        if (width := plan.target_width.get(point.point_id)) is not None:
            seen = _seen(results, point)
            lines.append(f"  {point.point_id}, ±{width / 2:.1%} wanted: {_forecast(seen, width / 2)}")
    if lines and all(line.endswith(_UNKNOWN) for line in lines):
        return [f"  adaptive rounds, {LOOKS[0]} to {LOOKS[-1]}: {_UNKNOWN} at any of {len(lines)} points"]
    return lines


_UNKNOWN = "nothing is known yet of the width that can be reached"


def _seen(results: Path, point: PointSpec) -> list[tuple[int, float]]:
    """Of each launch that has an interval: its rounds, its half-width."""
    try:
        record = find_record(results, point)
    except (RecordError, OSError):
        return []
    if record is None:
        return []
    ratios = [log_ratios(record, launch) for launch in record.launch_numbers]
    return [(len(found), half) for found in ratios if math.isfinite(half := half_width(found))]


def _forecast(seen: list[tuple[int, float]], wanted: float) -> str:
    if not seen:
        return _UNKNOWN
    one_round = fmean(half * math.sqrt(rounds) for rounds, half in seen)  # as if a single round had a width
    least, measured = one_round / math.sqrt(LOOKS[-1]), ", ".join(f"±{half:.1%} after {n}" for n, half in seen)
    enough = next((rounds for rounds in LOOKS if one_round / math.sqrt(rounds) <= wanted), None)
    if enough is None:
        return f"{measured} rounds; not within {LOOKS[-1]} rounds, which reach about ±{least:.1%}"
    return f"{measured} rounds; about {enough} rounds should do"
