"""What to change first, which local batch to stay above, and what compression of gradients could save at most."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kanstudy.analysis.guidelines.sentences import at_largest, by, certain, sentence, why_not
from kanstudy.analysis.rows import value_text
from kanstudy.analysis.statistics.intervals import LEVEL

KEPT = 0.9
"""Batch factor from which on a rank's slice counts as large enough."""
_REMEDIES = {
    "batch": "more rows a rank, by a larger global batch or fewer ranks",
    "heterogeneity": "the slow device, its clocks and its neighbours, or run without it",
    "contention": "what the ranks of a node share, by fewer ranks a node or a spread placement",
    "ddp": "the buckets, fewer and larger ones, and gradients as views of them",
    "synchronisation": "the steadiness of a step: pinned cores, quiet nodes, inputs that are ready",
    "data_movement": "how often and how much is sent: more rows between updates, another bucket cap, a faster link",
}
"""Where a loss is worth attacking first. A suggestion: only a new measurement tells whether it helps."""


def largest_loss(verdicts: pd.DataFrame) -> Iterator[dict]:
    """At each series' largest world size, the verdict on its factors, and what it suggests to change first: only where
    the named loss is the largest with the probability that intervals have."""
    for _, rows in by(verdicts, ["series", "scaling"]):
        row = rows.sort_values("world_size").iloc[-1]
        told = bool(row["told"]) and row["probability_largest"] >= LEVEL
        advice = f"to change first: {_REMEDIES[row['factor']]}" if told else "what to change first cannot be told"
        points = f" ({row['source']}: {row['point_id']})."
        text = f"{row['sentence'].removesuffix(points)}; {advice}{points}"
        found = {"topic": "loss", "told": told, "sentence": text}
        yield found | {"source": row["source"], "point_ids": row["point_id"]}


def local_batch(factors: pd.DataFrame) -> Iterator[dict]:
    """The batch factor: whether a rank works as well on its slice as on the whole batch."""
    for (series,), rows in by(factors, ["series"]):
        rows = at_largest(rows[rows["factor"] == "batch"])
        if rows.empty:
            continue
        row = rows.iloc[0]
        head = f"strong scaling, {series}: the batch cut to 1/{row['world_size']}"
        number = f"(batch factor {value_text(row, 'value', digits=3)})"
        if not certain(rows, "value").all():
            yield sentence("local batch", False, f"{head}: what that costs", rows, why_not(rows))
        elif row["value_high"] < 1:
            text = f"{head} is trained less efficiently {number}: a larger global batch would lose less"
            yield sentence("local batch", True, text, rows)
        elif row["value_low"] > 1:
            text = f"{head} is trained more efficiently {number}: part of the speed-up is the smaller batch"
            yield sentence("local batch", True, text, rows)
        else:
            yield sentence("local batch", False, f"{head}: what that costs", rows, f"it includes no effect {number}")


def least_local_batch(factors: pd.DataFrame, strong: pd.DataFrame) -> Iterator[dict]:
    """Between which slices, of those measured, a rank begins to work less well than on the whole batch."""
    if not len(factors) or not len(strong):
        return
    batches = factors[(factors["factor"] == "batch") & (factors["world_size"] > 1)].dropna(subset="value")
    batches = batches.merge(strong[["point_id", "local_batch_size"]], on="point_id")
    for (series,), rows in by(batches, ["series"]):
        rows = rows.sort_values("local_batch_size", ascending=False)
        above = (certain(rows, "value") & (rows["value_low"] >= KEPT)).cummin()
        kept, rest = rows[above], rows[~above]
        below = rest[certain(rest, "value") & (rest["value_high"] < KEPT)].head(1)
        head = f"strong scaling, {series}: "
        if kept.empty and below.empty:
            text, why = f"{head}the local batch to stay above", why_not(rows[~certain(rows, "value")])
            if certain(rows, "value").all():
                why = f"the batch factor's interval includes {KEPT:g}, {_listed(rows)}"
            yield sentence("least local batch", False, text, rows, why)
        elif below.empty:
            text = f"{head}down to {kept['local_batch_size'].iloc[-1]} rows a rank at most a tenth is lost to the batch"
            yield sentence("least local batch", True, f"{text} (batch factor {_listed(kept.tail(1))})", kept)
        else:
            both = pd.concat([kept.tail(1), below])
            text = f"{head}stay above {below['local_batch_size'].iloc[0]} rows a rank (batch factor {_listed(both)})"
            yield sentence("least local batch", True, text, both)


def compression(factors: pd.DataFrame) -> Iterator[dict]:
    """What gradient compression could save at most: all data movement, were compressing free."""
    for (series, scaling), rows in by(factors, ["series", "scaling"]):
        rows = at_largest(rows[rows["factor"] == "data_movement"])
        if rows.empty:
            continue
        row = rows.iloc[0]
        head = f"{scaling} scaling, {series}, {row['world_size']} ranks: what gradient compression could save"
        if not certain(rows, "value").all():
            yield sentence("compression", False, head, rows, why_not(rows))
        elif row["value_high"] >= 1:
            why = f"data movement may be nothing, {value_text(row, 'value', digits=3)}"
            yield sentence("compression", False, head, rows, why)
        else:
            least, most = 100 * (1 - row["value_high"]), 100 * (1 - row["value_low"])
            text = (
                f"{head} is at most the data movement, {100 * (1 - row['value']):.1f} [{least:.1f}, {most:.1f}] % of a "
                "step, less what compressing takes"
            )
            yield sentence("compression", True, text, rows)


def _listed(rows: pd.DataFrame) -> str:
    return ", ".join(f"{value_text(row, 'value', digits=3)} at {row['local_batch_size']}" for _, row in rows.iterrows())
