"""What guidelines have in common: when a value is certain, what is comparable, and how a sentence ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from kanstudy.analysis.rows import value_text
from kanstudy.analysis.series import WORK_KEYS, names

COLUMNS = ["topic", "told", "sentence", "source", "point_ids"]
SAME_WORK = ("profile", *WORK_KEYS, "global_batch_size", "world_size")
"""Columns that rows must share to be compared with each other, but for the one that is compared."""


def sentence(topic: str, told: bool, text: str, rows: pd.DataFrame, why_not: str = "") -> dict:
    """The row of a guideline that rests on rows of estimates, with their source and points; `told`: it answers. With
    `why_not` the text is what it asks, and why that cannot be told."""
    source, points = (" ".join(dict.fromkeys(rows[name])) for name in ("source", "point_id"))
    text += f" cannot be told: {why_not}" if why_not else ""
    return finished(topic, told, text, source, points)


def finished(topic: str, told: bool, text: str, source: str, points: str) -> dict:
    """The row (`COLUMNS`) of a guideline: its text as a sentence, its source and the ids of its points behind it."""
    text = f"{text[0].upper()}{text[1:]} ({source}: {points})."
    return {"topic": topic, "told": told, "sentence": text, "source": source, "point_ids": points}


def fastest(topic: str, head: str, rows: pd.DataFrame, settings: Sequence[str]) -> Iterator[dict]:
    """Which of the `settings`, one a row of estimates, has the shortest step, if its interval lies below all others';
    nothing where fewer than two were measured."""
    rows = rows.assign(setting=settings).dropna(subset="step_time_s").sort_values("step_time_s")
    if len(rows) < 2:
        return
    best, others = rows.iloc[0], rows.iloc[1:]
    listed = ", ".join(f"{row['setting']} {value_text(row, 'step_time_s', 1e3)} ms" for _, row in rows.iterrows())
    if not certain(rows, "step_time_s").all():
        yield sentence(topic, False, f"{head}: which setting of the {topic} is fastest", rows, why_not(rows))
    elif (others["step_time_s_low"] <= best["step_time_s_high"]).any():
        why = f"the steps' times overlap, {listed}"
        yield sentence(topic, False, f"{head}: which setting of the {topic} is fastest", rows, why)
    else:
        yield sentence(topic, True, f"{head}: the step is shortest with {best['setting']}: {listed}", rows)


def work_text(rows: pd.DataFrame) -> str:
    """What rows of the same work share, for reading: the placement, too, where it is another than packed."""
    placed = ", spread" if set(rows["placement"]) == {"spread"} else ""
    return f"{names(rows).iloc[0]}, {rows['world_size'].iloc[0]} ranks{placed}"


def but(compared: str) -> list[str]:
    """`SAME_WORK` without what is compared: the columns that must be the same."""
    return [name for name in SAME_WORK if name != compared]


def by(frame: pd.DataFrame, keys: list[str]) -> Iterable[tuple[tuple, pd.DataFrame]]:
    """The groups of a frame, which may be empty."""
    return frame.groupby(keys, sort=False, dropna=False) if len(frame) else []


def of_kans(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of KANs; MLPs are only controls."""
    return frame[frame["model"] == "kan"] if len(frame) else frame


def at_largest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest world size above one that has been attributed."""
    rows = rows[rows["world_size"] > 1].dropna(subset="value")
    return rows[rows["world_size"] == rows["world_size"].max()]


def certain(rows: pd.DataFrame, name: str) -> pd.Series:
    """Whether each row has an interval of this value, and rounds to be trusted."""
    return rows[f"{name}_low"].astype(float).notna() & rows["trusted"].astype(bool)


def why_not(rows: pd.DataFrame) -> str:
    """Why rows are not certain."""
    reasons = [reason for reason in dict.fromkeys(rows["reason"]) if reason]
    return " / ".join(reasons) or "there is no interval"
