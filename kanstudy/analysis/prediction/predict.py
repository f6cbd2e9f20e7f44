"""From a calibration to more ranks: step time, efficiency, its factors, exposed communication, memory, with bands.

The chain of times is that of the attribution (`kanstudy.analysis.attribution.chain`), so that the factors multiply to
the efficiency exactly. Bands go from the 2.5 to the 97.5 % quantile of draws from all that is uncertain: constants,
settings beside the fit, the spread of ranks and steps, the launch. With no more ranks than were calibrated, over links
that were, those are 95 % intervals. Else they are *scenario ranges*, which have no level: over assumed links they hold
each of their constants from half to twice what is stated (`site`), and beyond the calibrated ranks they hold only if
its laws go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import FACTORS, links
from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.calibration.scatter import Scatter
from kanstudy.analysis.calibration.spread import Waits
from kanstudy.analysis.machine_model import overlap
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import buffer_bytes, layer_bytes, rows
from kanstudy.analysis.prediction.site import Site, check, links_text, machines
from kanstudy.analysis.prediction.widening import Widening
from kanstudy.analysis.series import told_apart
from kanstudy.analysis.statistics.intervals import LEVEL
from kanstudy.spec import ARMS, PointSpec

NEW_LAUNCH = "prediction interval for a new launch"
ONE_LAUNCH = "prediction interval, from one launch"
SCENARIO = "scenario range"
_COUNT = 400
_TELLING = 10.0
"""How many times the low end of a step's band may be its high end; a wider one predicts nothing."""
_SHORTEST_BLOCK = 4
_BANDED = ("step_time_s", "parallel_efficiency", "speedup", "throughput", "exposed_s", "overhead", *FACTORS)


def predict(
    calibration: Calibration,
    points: Iterable[PointSpec],
    site: Site | None = None,
    widening: Widening | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """A row a point: its `series`, what stays the same over world sizes, and what else it is, then `_BANDED` with
    `_low` and `_high`; memory_bytes, fits; interval, its level (NaN: none) and what it `holds`, in words; network,
    source.

    Without a `site` the ranks lie as the calibration's. A `widening` comes from held-out settings.
    Columns of factors are NaN where they do not apply (batch in weak scaling). Raises `NotCovered`, `TooFewSteps` or
    `PredictionError` where the calibration does not carry a point.
    """
    site = site or Site(ranks_per_node=calibration.node_ranks)
    found = machines(calibration, site)
    with np.errstate(all="ignore"):  # of a hopeless calibration a band may reach anywhere
