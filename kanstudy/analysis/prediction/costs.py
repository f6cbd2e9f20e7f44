"""What training at each predicted world size costs, which of them is best, and the sentence for a proposal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import FACTORS, factor_name
from kanstudy.analysis.tables.layouts import SCALE, TEXT, Column

_S_PER_HOUR = 3600.0
TABLE = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "nodes": Column("nodes"),
    "local_batch_size": SCALE["local_batch_size"],
    "step_time_s": Column("step (ms)", 1e3, 3),
    "parallel_efficiency": Column("parallel efficiency", digits=3),
    "speedup": Column("speed-up", digits=2),
    **{name: Column(factor_name(name), digits=3) for name in FACTORS},
    "exposed_s": Column("exposed communication (ms)", 1e3, 3),
    "memory_bytes": Column("memory a rank (GB)", 1e-9, 3),
    "fits": Column("fits"),
    "training_hours": Column("hours", digits=2),
    "device_hours": Column("device-hours", digits=1),
    "energy_kwh": Column("energy (kWh)", digits=1),
    "cost": Column("cost", digits=0),
    "interval": Column("interval"),
    "source": Column("source"),
}


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Power (W) and price of a device and hour; 0: not stated."""

    power_w: float = 0.0
    price_per_hour: float = 0.0
    currency: str = "EUR"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What training may take at most: `device_hours` of all ranks, `cost`, `hours`; None: no limit."""

    device_hours: float | None = None
    cost: float | None = None
    hours: float | None = None

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return not (self.device_hours is None and self.cost is None and self.hours is None)


def with_costs(predictions: pd.DataFrame, steps: int, prices: Prices) -> pd.DataFrame:
    """The predictions with training_hours, device_hours, energy_kwh and cost of so many steps, with `_low` and `_high`;
    NaN where power or price is not stated. Of weak scaling a step has more rows on more ranks."""
    found = predictions.copy()
    for end in ("", "_low", "_high"):
        hours = found[f"step_time_s{end}"] * steps / _S_PER_HOUR
        device_hours = hours * found["world_size"]
        found[f"training_hours{end}"] = hours
        found[f"device_hours{end}"] = device_hours
        found[f"energy_kwh{end}"] = device_hours * (prices.power_w or np.nan) / 1e3
        found[f"cost{end}"] = device_hours * (prices.price_per_hour or np.nan)
    return found


def best(costed: pd.DataFrame, limits: Limits) -> pd.Series | None:
    """The row of one series that trains fastest within a budget; within a deadline alone, the one that costs least.
    Of weak scaling, where more ranks train more rows, the one of most ranks.

    Limits hold for the upper end of the band, so that they are kept where the prediction is too good. None: no row.
    """
    within = _within(costed, limits)
    if within.empty:
        return None
    if within["scaling"].iloc[0] == "weak":
        place = within["world_size"].argmax()
    else:
        has_budget = limits.device_hours is not None or limits.cost is not None
        place = within["training_hours" if has_budget else "device_hours"].argmin()
    return within.iloc[int(place)]


def knee(costed: pd.DataFrame, limits: Limits, row: pd.Series) -> pd.Series | None:
    """The row within the limits, of the same rows a step as `row`, whose efficiency over time is highest: beyond it
    ranks cost more than they speed up (Eager, Zahorjan & Lazowska 1989). None where it needs no fewer device-hours."""
    within = _within(costed, limits)
    within = within[within["global_batch_size"] == row["global_batch_size"]]
    found = within.iloc[int((within["parallel_efficiency"] / within["training_hours"]).argmax())]
    return found if found["device_hours"] < row["device_hours"] else None


def _within(costed: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    within = costed
    for column, limit in (
        ("device_hours", limits.device_hours),
        ("cost", limits.cost),
        ("training_hours", limits.hours),
    ):
        if limit is not None:
            within = within[within[f"{column}_high"] <= limit]
    return within[within["fits"] != False]  # noqa: E712  # None: not known


def sentence(row: pd.Series, steps: int, device: str, prices: Prices) -> str:
    """A row in words, for a proposal: what, how long, how efficient, what it costs, and what that rests on."""
    model = f"{row['model'].upper()} {row['layer_widths']}" + (
        f" (grid {row['grid_size']:.0f})" if row["grid_size"] else ""
    )
    ranks = f"{row['world_size']} {device}{'s' if row['world_size'] > 1 else ''}"
    batch = f"{row['global_batch_size']} rows a step ({row['local_batch_size']} on each)"
    costs = [f"{_banded(row, 'device_hours')} {device}-hours"]
    if np.isfinite(row["energy_kwh"]):
        costs.append(f"{_banded(row, 'energy_kwh')} kWh at {prices.power_w:g} W each")
    if np.isfinite(row["cost"]):
        costs.append(f"{_banded(row, 'cost')} {prices.currency}")
    needs = ""
    if row["fits"] is not None and not row["fits"]:
        needs = f" That needs {row['memory_bytes'] / 1e9:.3g} GB of memory on each, more than there is."
    return (
        f"We predict that {steps} training steps of {model} with {batch} take {_banded(row, 'training_hours')} h on"
        f" {ranks} on {row['nodes']} node{'s' if row['nodes'] > 1 else ''} ({row['placement']}), at a parallel"
        f" efficiency of {_banded(row, 'parallel_efficiency')} ({row['scaling']} scaling):"
        f" {', '.join(costs)}. In brackets: {row['holds']}; computation calibrated on"
        f" {row['device_name']} ({row['calibration_source']}), network: {row['network']}.{needs}"
    )


def _banded(row: pd.Series, name: str) -> str:
    return f"{row[name]:.3g} [{row[f'{name}_low']:.3g}, {row[f'{name}_high']:.3g}]"
