"""What KANs beside their controls say, in a table and in plain words: is the overhead the KAN's?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from kanstudy.analysis.controls import HIGHER, LOWER, NO_DIFFERENCE, PARAMETERS, UNTOLD
from kanstudy.analysis.rows import value_text
from kanstudy.analysis.tables.layouts import SCALE, TEXT, Column

CLAIM = "that communication overhead is not a matter of the KAN's edge-wise gradient structure"
ALIKE_WITHIN = 0.1
"""How far from 1 the interval of the steps' ratio may reach before the sentence warns that the steps are unlike."""

_UNLIKE = "but the steps are not known to be equally long, so that this alone decides nothing about"


CONTROLS = {
    "experiment": Column("experiment"),
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "control": Column("MLP, matched in"),
    "control_batch": Column("its batch"),
    "step_ratio": Column("step, KAN / MLP", digits=2),
    "matching_batch": Column("batch that would match it", 1, 0),
    "exposed_ms": Column("exposed, KAN (ms)", 1, 3),
    "exposed_ms_control": Column("exposed, MLP (ms)", 1, 3),
    "exposed_ms_difference": Column("difference (ms)", 1, 3),
    "verdict": Column("verdict"),
    "overhead": Column("overhead, KAN (%)", 100, 1),
    "overhead_control": Column("overhead, MLP (%)", 100, 1),
    "overhead_difference": Column("difference (points)", 100, 1),
    "efficiency": Column("efficiency, KAN", digits=3),
    "efficiency_control": Column("efficiency, MLP", digits=3),
    "efficiency_difference": Column("difference", digits=3),
    "gradient_bytes": Column("gradient, KAN (bytes)", 1, 0),
    "gradient_bytes_control": Column("gradient, MLP (bytes)", 1, 0),
    "bytes_per_flop": Column("bytes a MFLOP, KAN", 1e6, 0),
    "bytes_per_flop_control": Column("bytes a MFLOP, MLP", 1e6, 0),
    "buckets": Column("buckets, KAN: KiB"),
    "buckets_control": Column("buckets, MLP: KiB"),
    "n_rounds": Column("pairs of rounds"),
    "n_disturbed": Column("disturbed"),
    "reason": Column("note"),
    "point_id": TEXT["point_id"],
    "control_point_id": Column("control's point"),
}


def sentences(frame: pd.DataFrame) -> list[str]:
    """One sentence a row of `controls.controls`; without rows one that says that nothing can be told."""
    if frame.empty:
        return [f"No control was measured, so that the claim, {CLAIM}, is not tested here."]
    return [sentence(row) for _, row in frame.iterrows()]


def sentence(row: pd.Series) -> str:
    """What one KAN and its control say of the claim, with the source and both points."""
    return f"{_words(row)} ({row['source']}: {row['point_id']} {row['control_point_id']})."


def _words(row: pd.Series) -> str:
    what = f"{row['experiment'].replace('_', ' ')}, {row['series']}, {row['world_size']} ranks"
    rows = "the same rows a step" if row["control"] == PARAMETERS else f"{row['control_batch']} rows a step"
    head = f"{what[0].upper()}{what[1:]}, beside an MLP with about as many parameters and {rows}"
    if not np.isfinite(row["exposed_ms_difference"]):
        return f"{head}: whether exposed communication is the KAN's cannot be told: {row['reason'] or 'not measured'}"
    text = (
        f"{head}: exposed communication takes {_value(row, 'exposed_ms')} ms of the KAN's step and "
        f"{_value(row, 'exposed_ms_control')} ms of the MLP's; within pairs of rounds they differ by "
        f"{_value(row, 'exposed_ms_difference')} ms: {_VERDICTS[row['verdict']](row)}. {_share(row)}"
    )
    if np.isfinite(row["efficiency_difference"]):
        text += (
            f". Efficiency is {_value(row, 'efficiency', digits=3)} and {_value(row, 'efficiency_control', digits=3)}, "
            f"{_points(row, 'efficiency')}"
        )
    return text


def _no_difference(row: pd.Series) -> str:
    widest = max(abs(row["exposed_ms_difference_low"]), abs(row["exposed_ms_difference_high"]))
    share = f" ({widest / row['exposed_ms_control']:.0%} of the MLP's)" if row["exposed_ms_control"] > 0 else ""
    return (
        f"no difference can be told, so that nothing here contradicts the claim {CLAIM}; a difference of up to "
        f"{widest:.2f} ms{share} is not excluded"
    )


def _higher(row: pd.Series) -> str:
    return f"more is exposed with the KAN, {'which speaks against' if _alike(row) else _UNLIKE} the claim {CLAIM}"


def _lower(row: pd.Series) -> str:
    return f"less is exposed with the KAN, {'which supports' if _alike(row) else _UNLIKE} the claim {CLAIM}"


def _untold(row: pd.Series) -> str:
    return f"whether they differ cannot be told: {row['reason'] or 'there is no interval'}"


_VERDICTS: dict[str, Callable[[pd.Series], str]] = {
    NO_DIFFERENCE: _no_difference,
    HIGHER: _higher,
    LOWER: _lower,
    UNTOLD: _untold,
}


def _share(row: pd.Series) -> str:
    """The steps' ratio, and what it makes of the shares."""
    ratio = f"Without communication the KAN's step is {_value(row, 'step_ratio')} times as long as the MLP's"
    if not _alike(row) and row["control"] != PARAMETERS:
        ratio += (
            f", not known to be alike within {ALIKE_WITHIN:.0%}: about {row['matching_batch']:.0f} rows would match it"
        )
    shares = f"{_value(row, 'overhead', 100, 1)} and {_value(row, 'overhead_control', 100, 1)} % of a step"
    return f"{ratio}; the overhead is {shares}, {_points(row, 'overhead')}"


def _points(row: pd.Series, name: str) -> str:
    """A difference of shares in points, and whether it can be told."""
    verdict = row[f"verdict_{name}"]
    return f"a difference of {_value(row, f'{name}_difference', 100, 1)} points ({verdict})"


def _alike(row: pd.Series) -> bool:
    """Whether both steps are known to be about equally long."""
    low, high = row["step_ratio_low"], row["step_ratio_high"]
    return bool(low >= 1 - ALIKE_WITHIN and high <= 1 + ALIKE_WITHIN)  # no interval: not known


def _value(row: pd.Series, name: str, scale: float = 1.0, digits: int = 2) -> str:
    """A value with its interval; where there is none the verdict says so."""
    return value_text(row, name, scale, digits).removesuffix(" (no interval)")
