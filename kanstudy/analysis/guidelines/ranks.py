"""How many ranks are worth it, and how to lay them on nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kanstudy.analysis.guidelines.sentences import but, by, certain, fastest, of_kans, sentence, why_not, work_text
from kanstudy.analysis.rows import value_text

THRESHOLDS = (0.7, 0.5)
"""Parallel efficiencies that a compute proposal is usually asked to keep."""
TOPOLOGY = "GPU topology"


def ranks(frame: pd.DataFrame, what: str, none_larger: str = "no larger size was measured") -> Iterator[dict]:
    """The most ranks at which the whole interval of E is above a threshold, for every size up to it; of KANs."""
    for (series,), curve in by(of_kans(frame), ["series"]):
        curve = curve[curve["world_size"] > 1].dropna(subset="efficiency").sort_values("world_size")
        if curve.empty:
            continue
        if not certain(curve, "efficiency").any():
            yield sentence("ranks", False, f"{what}, {series}: how many ranks are worth it", curve, why_not(curve))
            continue
        for threshold in THRESHOLDS:
            above = (certain(curve, "efficiency") & (curve["efficiency_low"] >= threshold)).cummin()
            kept = curve[above]
            rest = curve[~above]
            parts = []
            if len(kept):
                last = kept.iloc[-1]
                parts.append(
                    f"up to {last['world_size']} ranks keep a parallel efficiency of at least {threshold:g} "
                    f"({value_text(last, 'efficiency')} there)"
                )
            if rest.empty:
                parts.append(none_larger)
                yield sentence("ranks", True, f"{what}, {series}: {', '.join(parts)}", kept)
                continue
            row = rest.iloc[0]
            name = "it" if parts else "the parallel efficiency"
            here = f"at {row['world_size']} ranks {name} is {value_text(row, 'efficiency')}"
            below = bool(certain(rest, "efficiency").iloc[0] and row["efficiency_high"] < threshold)
            verdict = f"below {threshold:g}" if below else f"so whether it keeps {threshold:g} cannot be told"
            parts.append(f"{here}, {verdict}")
            used = curve[curve["world_size"] <= row["world_size"]]
            yield sentence("ranks", below or bool(len(kept)), f"{what}, {series}: {', '.join(parts)}", used)


def topology(frame: pd.DataFrame) -> Iterator[dict]:
    """Whether the same ranks are faster packed on few nodes or spread over many, at each size that has both."""
    for _, rows in by(of_kans(frame), but("placement")):
        if rows["placement"].nunique() > 1:
            head = f"{work_text(rows)}, global batch {rows['global_batch_size'].iloc[0]}"
            yield from fastest(TOPOLOGY, head, rows, list(rows["placement"]))
