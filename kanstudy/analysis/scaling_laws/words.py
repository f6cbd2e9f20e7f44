"""What fits say, in plain words: which law follows a curve, or why none is fitted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kanstudy.analysis.rows import value_text
from kanstudy.analysis.scaling_laws.fits import LINK, SCALING


def sentences(table: pd.DataFrame, estimates: pd.DataFrame) -> list[str]:
    """A sentence a curve of the frame of `fits.table`; `estimates` is the frame that was fitted, whose Karp-Flatt
    fractions, where it has them, are told point by point."""
    if table.empty:
        return ["No law is fitted: nothing is measured that could be."]
    keys = list(table)[: list(table).index("model")]
    return [_sentence(laws, estimates) for _, laws in table.groupby(keys, sort=False, dropna=False)]


def _sentence(laws: pd.DataFrame, estimates: pd.DataFrame) -> str:
    """The laws of one curve, each with its parameters or the reason why it has none."""
    first = laws.iloc[0]
    head = [first["experiment"].replace("_", " ").capitalize(), first["series"]]
    if "world_size" in first:
        head.append(f"blocking all-reduce on {first['world_size']} rank{'s' * bool(first['world_size'] > 1)}")
    parts = [_law(row) for _, row in laws.iterrows()]
    if laws["weight"].notna().any():
        best = laws.sort_values("weight").dropna(subset="weight").iloc[-1]
        parts.append(f"by AICc {best['model']} has the larger weight, {best['weight']:.2f}")
    parts += _karp_flatt(estimates[estimates["point_id"].isin(first["point_ids"].split())])
    return f"{', '.join(head)}: {'; '.join(parts)} ({first['source']}: {first['point_ids'] or 'no point'})."


def _law(row: pd.Series) -> str:
    if not row["fitted"]:
        return f"{row['model']} {row['reason']}"
    values = [
        f"{column.heading} {value_text(row, name, column.scale, column.digits or 0)}"
        for name, column in (SCALING | LINK).items()
        if np.isfinite(row.get(name, np.nan))
    ]
    return f"{row['model']} with {', '.join(values)}" + (f" ({row['reason']})" if row["reason"] else "")


def _karp_flatt(points: pd.DataFrame) -> list[str]:
    """The serial fraction that each point alone would have."""
    if "karp_flatt" not in points or not points["karp_flatt"].notna().any():
        return []
    measured = points.dropna(subset="karp_flatt").sort_values("world_size")
    texts = [f"{value_text(row, 'karp_flatt', digits=3)} at {row['world_size']}" for _, row in measured.iterrows()]
    return [f"Karp-Flatt's fraction is {', '.join(texts)} ranks"]
