"""How the region of settings that agree with the published numbers (`published_region`) depends on what is assumed."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from kanstudy.analysis.machine_model.assumptions import changed, constants, drawn_times
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.prediction.published_region import Settings, agrees, compared, fits, overheads
from kanstudy.spec import PointSpec

_COUNTS = ("settings", "efficiency_agrees", "both_agree", "consistent")


def sensitivity(machine: MachineModel, template: PointSpec, settings: Settings) -> pd.DataFrame:
    """How the region depends on each constant: first a row with none changed, then for each constant that the machine
    has one with half of what is assumed and one with twice that.

    Columns: constant, assumed (its value, SI units), times, and of the `settings` how many agree: `efficiency_agrees`,
    `both_agree` (the overheads lie in the published range, too), `consistent` (they also rise and fall); source.
    """
    changes = [("none", 1.0), *itertools.product(constants(machine), (0.5, 2.0))]
    rows = []
    for constant, time in changes:
        row = {"constant": constant, "assumed": constants(machine).get(constant, np.nan), "times": time}
        rows.append(row | _counts(changed(machine, {constant: time} if constant != "none" else {}), template, settings))
    return pd.DataFrame(rows)


def all_at_once(machine: MachineModel, template: PointSpec, settings: Settings, draws: int) -> pd.DataFrame:
    """How the region depends on all constants together: a row a draw, each constant times a number of its own
    between half and two (log-uniform). Columns: the numbers, by constant, and the counts of `sensitivity`."""
    names, rng = list(constants(machine)), np.random.default_rng(0)
    rows = []
    for _ in range(draws):
        times = drawn_times(names, rng)
        rows.append(times | _counts(changed(machine, times), template, settings))
    return pd.DataFrame(rows)


def sentence_of_draws(found: pd.DataFrame) -> str:
    """How often there is such a region where all constants are other than assumed, in words."""
    both, some = (int((found[name] > 0).sum()) for name in ("both_agree", "consistent"))
    return (
        f"Every constant drawn between half and twice of what is assumed, {len(found)} times: in {both} draws some of "
        f"the {found['settings'].iloc[0]} settings agree in efficiency and in the overheads' range, in {some} also in "
        "that the overhead is not monotonic."
    )


def _counts(machine: MachineModel, template: PointSpec, settings: Settings) -> dict[str, object]:
    """How many settings agree, and in what; overheads are evaluated only where the efficiency agrees."""
    counts = dict.fromkeys(_COUNTS, 0)
    for _, point in settings.points(template):
        ways = list(settings.ways())
        counts["settings"] += len(ways)
        if not (fits(machine, point) and agrees(efficiency := expected(point, machine).efficiency)):
            continue
        counts["efficiency_agrees"] += len(ways)
        at = overheads(machine, point)
        for scaling, order in ways:
            found = compared(at, efficiency, True, scaling, order)
            counts["both_agree"] += bool(found["overhead_agrees"])
            counts["consistent"] += bool(found["consistent"])
    return counts | {"source": "predicted"}
