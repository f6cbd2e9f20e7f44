"""What a calibration covers, and the refusal to predict beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kanstudy.analysis.machine_model.work import flops_per_sample, n_parameters
from kanstudy.sizes import widths_text
from kanstudy.spec import PointSpec

HOW = "kanstudy run --profile P --only calibration (in a job: kanstudy submit ...)"
"""The command that measures a calibration."""
_SAME = ("model", "operator", "dtype", "optimizer", "tf32")


class NotCovered(ValueError):
    """A point outside of what is calibrated; the message names the value, the range and what to measure."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Ranges, both ends included, of one rank's rows a step, of operations a row, parameters and layers; and what all
    points share."""

    rows: tuple[int, int]
    flops_per_sample: tuple[int, int]
    parameters: tuple[int, int]
    layers: tuple[int, int]
    model: str
    operator: str | None
    dtype: str
    optimizer: str
    tf32: bool

    def check(self, point: PointSpec, needs_global_batch: bool) -> None:
        """Raise `NotCovered` where the point, or the baseline with its global batch, lies outside."""
        for name in _SAME:
            asked, covered = getattr(point, name), getattr(self, name)
            if asked != covered and not (name == "operator" and asked == "auto"):
                raise NotCovered(
                    f"{name} = {asked!r}: the calibration is of {covered!r}; measure one of it: give a profile with it"
                    f" its own [[study.calibration]]"
                )
        where = f"world size {point.world_size}: "
        self._within(where + "local_batch_size", point.local_batch_size, self.rows, "local_batch_sizes")
        if needs_global_batch:
            self._within("global_batch_size", point.global_batch_size, self.rows, "local_batch_sizes", "its baseline: ")
        widths = f"layer_widths {widths_text(point.layer_widths)}: "
        self._within(widths + "layers", len(point.layer_widths) - 1, self.layers, "hidden_widths_sweep")
        self._within(widths + "parameters", n_parameters(point), self.parameters, "hidden_widths_sweep")
        self._within(widths + "operations a row", flops_per_sample(point), self.flops_per_sample, "hidden_widths_sweep")

    def _within(self, name: str, value: int, limits: tuple[int, int], key: str, why: str = "") -> None:
        low, high = limits
        if low <= value <= high:
            return
        add = f"add {value} to" if key == "local_batch_sizes" else "extend"
        raise NotCovered(
            f"{name} = {value}: {why}calibrated are {low} to {high}, and nothing is predicted beyond; {add} {key} of"
            f" [[study.calibration]] in the profile, then measure: {HOW}"
        )


def domain_of(points: Sequence[PointSpec]) -> Domain:
    """What the points of one rank alone cover. Raises `NotCovered` where they are of several kinds."""
    shared = {}
    for name in _SAME:
        values = sorted({getattr(point, name) for point in points}, key=str)
        if len(values) > 1:
            raise NotCovered(f"{name} {', '.join(map(str, values))}: a calibration must be of one")
        shared[name] = values[0]
    counts = [
        (point.local_batch_size, flops_per_sample(point), n_parameters(point), len(point.layer_widths) - 1)
        for point in points
    ]
    rows, flops, parameters, layers = ((min(values), max(values)) for values in zip(*counts, strict=True))
    return Domain(rows=rows, flops_per_sample=flops, parameters=parameters, layers=layers, **shared)
