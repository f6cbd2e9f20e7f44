"""Scaling laws and the α-β model fitted to frames of estimates: one fit a series, its source and its conditions.

Fitted are the medians of points, never those with more ranks than cores. What is refused is a row too, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.rows import columns, joined
from kanstudy.analysis.scaling_laws.least_squares import Fit, fit
from kanstudy.analysis.scaling_laws.models import ALPHA_BETA, AMDAHL, GUSTAFSON, USL, Model
from kanstudy.analysis.tables.layouts import SCALE, TEXT, Column

KEYS = ("experiment", "series", "source", "surroundings")
"""What the points of one fit share, as far as their frame has it; `surroundings` stands for hosts and versions."""
SCALING = {
    "scale": Column("γ", digits=3),
    "serial_fraction": Column("serial fraction s", digits=4),
    "contention": Column("contention σ", digits=4),
    "coherency": Column("coherency κ (10⁻³)", 1e3, 3),
}
LINK = {
    "latency_s": Column("latency α (µs)", 1e6, 1),
    "bandwidth_bytes_per_s": Column("bandwidth B (GB/s)", 1e-9, 3),
}
_HEAD = {"series": TEXT["series"], "model": Column("law")}
_TAIL = {
    "n": Column("points"),
    "residual_sd": Column("residual (%)", 100, 1),
    "aicc": Column("AICc", digits=1),
    "weight": Column("weight", digits=2),
    "fitted": Column("fitted"),
    "reason": Column("note"),
    "point_ids": Column("points of"),
}
SCALING_FITS = {"experiment": Column("experiment")} | _HEAD | SCALING | _TAIL
ALLREDUCE_FITS = {"series": TEXT["series"], "world_size": SCALE["world_size"], "model": Column("law")} | LINK | _TAIL


@dataclass(frozen=True)
class SeriesFit:
    """A fit and what it is of: `key`, the values of `KEYS` (and of `world_size`, for the all-reduce); `left_out`, which
    of its points are not in it and why; `point_ids`, of those that are."""

    key: dict[str, object]
    fit: Fit
    left_out: str = ""
    point_ids: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why it is refused, and what is not in it."""
        return joined(self.fit.reason and f"not fitted: {self.fit.reason}", self.left_out)


def strong(estimates: pd.DataFrame) -> list[SeriesFit]:
    """Amdahl and USL of each series of strong scaling.

    The frame has world_size, speedup and, as far as known, `KEYS` and oversubscribed.
    """
    return _scaling(estimates, (AMDAHL, USL))


def weak(estimates: pd.DataFrame) -> list[SeriesFit]:
    """Gustafson and USL of each series of weak scaling, whose speed-up is the scaled one, E p; else as `strong`."""
    return _scaling(estimates, (GUSTAFSON, USL))


def allreduce(estimates: pd.DataFrame) -> list[SeriesFit]:
    """α-β of the blocking all-reduce of each point: the time of an empty message and, beyond that, bytes a second.

    The frame has message_bytes, time_s, world_size and, as far as known, point_id, `KEYS` and oversubscribed.
    """
    found = []
    for key, rows in _groups(estimates, ("world_size", "point_id")):
        usable, left_out = _usable(rows, "message_bytes", "time_s", "bytes")
        reason = "one rank: nothing moves" if key["world_size"] == 1 else _mixed(usable["message_bytes"], "bytes")
        result = _fit(ALPHA_BETA, usable["message_bytes"], usable["time_s"], reason)
        found.append(SeriesFit(key, result, left_out, _ids(usable)))
    return found


def table(fits: Iterable[SeriesFit]) -> pd.DataFrame:
    """A row a fit: its key, model, formula, the parameters of all models with their intervals, n points, residual_sd,
    condition, aicc, weight (Akaike's, among the models fitted to the same points), fitted, reason, point_ids."""
    fits = list(fits)
    keys = list(dict.fromkeys(name for item in fits for name in item.key))
    names = list(dict.fromkeys(parameter for item in fits for parameter in item.fit.parameters))
    rows = []
    for item in fits:
        row: dict[str, object] = item.key | {"model": item.fit.model.name, "formula": item.fit.model.formula}
        for name, estimate in item.fit.parameters.items():
            row |= columns(name, estimate)
        same = [other.fit.aicc for other in fits if other.key == item.key]
        row |= {"n": len(item.fit.x), "residual_sd": item.fit.residual_sd, "condition": item.fit.condition}
        row |= {"aicc": item.fit.aicc, "weight": akaike_weight(item.fit.aicc, same)}
        rows.append(
            row | {"fitted": not item.fit.refused, "reason": item.reason, "point_ids": " ".join(item.point_ids)}
        )
    values = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    tail = ("n", "residual_sd", "condition", "aicc", "weight", "fitted", "reason", "point_ids")
    return pd.DataFrame(rows, columns=[*keys, "model", "formula", *values, *tail])


def akaike_weight(aicc: float, of_all: Sequence[float]) -> float:
    """exp(-Δ/2) over its sum over the models that have an AICc, Δ relative to the least (Burnham & Anderson 2002)."""
    known = np.array([value for value in of_all if np.isfinite(value)])
    if not np.isfinite(aicc) or len(known) < 2:
        return np.nan
    return float(np.exp(-(aicc - known.min()) / 2) / np.exp(-(known - known.min()) / 2).sum())


def _scaling(estimates: pd.DataFrame, models: Sequence[Model]) -> list[SeriesFit]:
    found = []
    for key, rows in _groups(estimates):
        usable, left_out = _usable(rows, "world_size", "speedup", "ranks")
        sizes = usable["world_size"]
        reason = "" if (sizes == 1).any() else "no point of one rank"
        for model in models:
            result = _fit(model, sizes, usable["speedup"], reason or _mixed(sizes, "ranks"))
            found.append(SeriesFit(key, result, left_out, _ids(usable)))
    return found


def _fit(model: Model, x: pd.Series, y: pd.Series, reason: str) -> Fit:
    """The fit, unless there is a reason to refuse it before."""
    places, values = x.to_numpy(float), y.to_numpy(float)
    return Fit(model, places, values, reason) if reason else fit(model, places, values)


def _mixed(places: pd.Series, unit: str) -> str:
    """A curve has one point at each place: where there are more, the frame does not say which series they are of."""
    twice = sorted(places[places.duplicated()].unique())
    return f"several points at {', '.join(f'{place:g}' for place in twice)} {unit}: of several series" if twice else ""


def _groups(estimates: pd.DataFrame, more: Sequence[str] = ()) -> list[tuple[dict[str, object], pd.DataFrame]]:
    """The rows of each fit with their key, in the order of the frame."""
    names = [name for name in (*KEYS, *more) if name in estimates]
    if not names:
        return [({}, estimates)] if len(estimates) else []
    others = [name for name in names if name != "surroundings"]
    if others and others != names:  # a point that failed before it saw its surroundings goes with its series
        known = estimates.groupby(others, sort=False, dropna=False)["surroundings"].transform("first")
        estimates = estimates.assign(surroundings=estimates["surroundings"].fillna(known))
    groups = estimates.groupby(names, sort=False, dropna=False)
    return [(dict(zip(names, key, strict=True)), rows) for key, rows in groups]


def _usable(rows: pd.DataFrame, x: str, y: str, unit: str) -> tuple[pd.DataFrame, str]:
    """The rows that can be fitted, by x, and which others there are, in words."""
    known = rows[y].astype(float) > 0
    crowded = rows["oversubscribed"].astype(bool) if "oversubscribed" in rows else pd.Series(False, rows.index)
    notes = []
    for which, why in ((crowded, "more ranks than cores"), (~known & ~crowded, "not measured")):
        if which.any():
            places = ", ".join(f"{place:g}" for place in sorted(rows.loc[which, x].astype(float)))
            notes.append(f"left out: {places} {unit} ({why})")
    usable = rows[known & ~crowded].sort_values(x)
    if "trusted" in usable and not usable["trusted"].all():
        doubtful = usable.loc[~usable["trusted"].astype(bool), x]
        notes.append(f"untrusted among the points: {', '.join(f'{place:g}' for place in doubtful)} {unit}")
    return usable, joined(*notes)


def _ids(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rows["point_id"])) if "point_id" in rows else ()
