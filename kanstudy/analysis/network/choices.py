"""Which algorithm and protocol serves which message on which nodes: as a model of the network has it, and as NCCL told.

A choice that changes with the placement makes the time of one and the same bucket rise and fall with the world size,
and with it the share of the step that communication takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from kanstudy.analysis.communication.blocking import bucket_bytes
from kanstudy.analysis.network.network import Network
from kanstudy.analysis.nodes import layout
from kanstudy.analysis.results import points
from kanstudy.analysis.tables.layouts import TEXT, Column
from kanstudy.network_words import layout_text
from kanstudy.record import Record

_MODEL = {
    "choice": Column("choice, model"),
    "time_s": Column("time, predicted (ms)", 1e3, 3),
    "next_choice": Column("next"),
    "next_time_s": Column("next, predicted (ms)", 1e3, 3),
    "network": Column("network"),
    "basis": Column("constants"),
}
CHOICES = {
    "layout": Column("nodes x ranks"),
    "world_size": Column("ranks"),
    "message_bytes": Column("message (bytes)"),
    **_MODEL,
}
BUCKET_CHOICES = {
    "series": TEXT["series"],
    "source": Column("point is"),
    "layout": Column("nodes x ranks"),
    "world_size": Column("ranks"),
    "message_bytes": Column("bucket (bytes)"),
    "buckets": Column("buckets"),
    "logged": Column("choice, NCCL's log"),
    "agrees": Column("agree"),
    **_MODEL,
    "point_id": TEXT["point_id"],
}


def choices(network: Network, sizes: Sequence[int], layouts: Sequence[Sequence[int]]) -> pd.DataFrame:
    """What serves messages of `sizes` bytes on each layout, by the model: layout (text), world_size, message_bytes,
    choice, time_s, next_choice and next_time_s (of NCCL's, what comes second), network, basis; source "predicted"."""
    rows = [_row(network, size, places) for places in layouts for size in sizes]
    return pd.DataFrame(rows, columns=["layout", "world_size", "message_bytes", *_MODEL, "source"])


def bucket_choices(records: Sequence[Record], network: Network) -> pd.DataFrame:
    """What serves the gradient buckets of each point of two ranks or more, a row a size of bucket: as `choices`, with
    point_id, series, source (of the point), buckets (so many of this size), logged and agrees.

    `logged` is what NCCL said on the point's nodes before they were measured, of the sizes around a bucket's ("A or B"
    where they differ), and empty where it said nothing: `agrees` is then missing.
    """
    lines = []
    for record, series in zip(records, points(records)["series"], strict=True):
        if record.world_size == 1:
            continue
        for size, count in Counter(bucket_bytes(record)).items():
            row = _row(network, size, layout(record))
            told = logged(record, size)
            agrees = row["choice"] in told.split(" or ") if told else None
            own = {"point_id": record.point_id, "series": series, "source": record.source}
            lines.append(row | own | {"buckets": count, "logged": told, "agrees": agrees})
    return pd.DataFrame(lines, columns=list(BUCKET_CHOICES))


def logged(record: Record, message_bytes: float) -> str:
    """NCCL's own choice for a message on the record's nodes, by its log of all-reduces of the sizes next to it; empty
    where the log has none on both sides."""
    told = (record.provenance.get("preflight") or {}).get("nccl_algorithms_of_groups") or {}
    of_size = {int(size): choice for size, choice in told.get(layout_text(layout(record)), {}).items()}
    below, above = ([s for s in of_size if s <= message_bytes], [s for s in of_size if s >= message_bytes])
    if not below or not above:
        return ""
    return " or ".join(dict.fromkeys((of_size[max(below)], of_size[min(above)])))


def _row(network: Network, size: int, places: Sequence[int]) -> dict[str, object]:
    best = network.choice(size, places)
    others = [one for one in network.nccl_choices(size, places) if one != best] if network.algorithm == "nccl" else []
    second = min(others, key=lambda one: one.time_s, default=None)
    return {
        "layout": layout_text(places),
        "world_size": sum(places),
        "message_bytes": size,
        "choice": str(best),
        "time_s": best.time_s,
        "next_choice": str(second) if second else "",
        "next_time_s": second.time_s if second else float("nan"),
        "network": network.name,
        "basis": network.basis,
        "source": "predicted",
    }
