"""What a guideline from a calibration asks: a model and batch on a site, and how sure the answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.guidelines.sentences import finished
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.prediction.site import Site, check, machines
from kanstudy.analysis.statistics.intervals import LEVEL
from kanstudy.sizes import widths_text
from kanstudy.spec import PointSpec


class Untold(ValueError):
    """What the calibration does not carry; the message says why."""


@dataclass(frozen=True)
class Question:
    """A model and batch, the largest `point` of interest on a `site`, and the `world_sizes` up to it."""

    calibration: Calibration
    point: PointSpec
    site: Site
    world_sizes: Sequence[int]

    @property
    def machines(self) -> list[MachineModel]:
        """The site's machine, as estimated and then refit by refit."""
        return machines(self.calibration, self.site)

    @property
    def head(self) -> str:
        """How a sentence begins: model and ranks, as "KAN 32-64-1, 8 ranks"."""
        point = self.point
        return f"{point.model.upper()} {widths_text(point.layer_widths)}, {point.world_size} ranks"

    def check(self, *points: PointSpec) -> None:
        """Raise `NotCovered`, `TooFewSteps` or `PredictionError` where the calibration does not carry all points."""
        for point in points:
            check(self.calibration, point, self.site)

    def told(self, topic: str, told: bool, text: str) -> dict:
        """The row (`sentences.COLUMNS`) of a guideline that rests on the calibration's points; `told`: it answers."""
        ids = self.calibration.point_ids
        row = finished(topic, told, text, "predicted", f"from the calibration's {len(ids)} points")
        return row | {"point_ids": " ".join(ids)}


def refit_range(values: np.ndarray) -> tuple[float, float, float]:
    """The estimate, first of `values` (1 + refits,), with the 95 % range of the refits; NaN without refits."""
    if len(values) < 2:
        return float(values[0]), np.nan, np.nan
    low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(values[0]), float(low), float(high)


def range_text(found: tuple[float, float, float], digits: int = 3, scale: float = 1.0) -> str:
    """A value with its range (`refit_range`), each times `scale`, as "0.93 [0.91, 0.95]"."""
    value, low, high = (scale * number for number in found)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
