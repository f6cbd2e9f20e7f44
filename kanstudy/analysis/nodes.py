"""The nodes that records come from, and what was found to be wrong with the network between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kanstudy.layout import layout_of
from kanstudy.record import Record


def node_set(record: Record) -> str:
    """The hosts of the launch that a record comes from; of older records, which kept those of the group, the first."""
    own = (record.provenance.get("conditions") or {}).get("hosts") or []
    return " ".join(record.provenance.get("node_set") or own[:1])


def layout(record: Record) -> tuple[int, ...]:
    """How many of the point's ranks lie on each of its nodes, such as (2, 2, 1): by the hosts that the record names, of
    one that names none by its nodes, its ranks a node and its placement."""
    if hosts := (record.provenance.get("conditions") or {}).get("hosts"):
        return tuple(Counter(hosts).values())
    most = record.ranks_per_node or record.world_size
    return layout_of(record.world_size, record.placement, most, record.nodes or 1)


def flags(record: Record) -> list[str]:
    """What a job found of its nodes before it measured, such as that NCCL did not take InfiniBand; of all attempts."""
    attempts = [record.provenance, *record.provenance.get("later_attempts", [])]
    found = [(attempt.get("preflight") or {}).get("flag") for attempt in attempts]
    return list(dict.fromkeys(flag for flag in found if flag))


def cautions(records: Sequence[Record]) -> list[str]:
    """Sentences, without full stops, on nodes that differ and on flags, each with the number of points; none if all is
    well."""
    told = []
    sets = sorted({node_set(record) for record in records if record.conditions is not None})
    if len(sets) > 1:
        told.append(f"Points lie on different nodes ({' / '.join(sets)}); a curve joins those of the same nodes alone")
    counts = Counter(flag for record in records for flag in flags(record))
    return told + [f"{flag} ({count} of {len(records)} points)" for flag, count in counts.items()]
