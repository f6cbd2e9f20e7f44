"""What a figure or a table rests on, in words, for under it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kanstudy.analysis.nodes import cautions
from kanstudy.analysis.results import launches, points, starts, surroundings
from kanstudy.analysis.series import plain
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.analysis.statistics.launches import scope_of
from kanstudy.record import Record


def caption(records: Sequence[Record]) -> str:
    """What a figure or table of these records rests on, for under it."""
    if not records:
        return "Nothing is measured."
    frame = points(records)

    def several(name: str) -> str:
        return ", ".join(sorted({"unknown" if pd.isna(value) else plain(value) for value in frame[name]}))

    batches = []
    for scaling, kind in (("strong", "global"), ("weak", "local")):
        sizes = {getattr(record, f"{kind}_batch_size") for record in records if record.scaling == scaling}
        batches += [f"{kind} {', '.join(map(str, sorted(sizes)))}"] if sizes else []
    sentences = [
        f"Source: {several('source')}; profile: {several('profile')}; hardware: {several('device_name')}"
        f" ({several('backend')}, {several('threads_per_rank')} thread(s) a rank)",
        f"Batch: {'; '.join(batches)} rows; data: {several('dataset')}",
        *_compared_with(records),
        *_rested_on(records),
    ]
    if len({surroundings(record) for record in records if record.conditions is not None}) > 1:
        sentences.append("Not all points were measured under the same conditions (hosts, versions, threads)")
    sentences += cautions(records)
    if frame["oversubscribed"].any():
        sentences.append("Hollow markers: more ranks than cores")
    return ". ".join(sentences) + "."


def name_suffix(records: Sequence[Record]) -> str:
    """Behind the names of files made from these records: `-simulated` and the like where none of them is measured."""
    sources = {record.source for record in records}
    return "" if "measured" in sources else "".join(f"-{source}" for source in sorted(sources))


def _compared_with(records: Sequence[Record]) -> list[str]:
    """The baseline of efficiency, where its arm is there, and that of the overhead where there is no other."""
    arms = {(record.scaling, arm) for record in records for arm in record.arms}
    pairs = (("strong", "serial_global", "global"), ("weak", "serial_local", "local"))
    found = [f"the plain module on one rank with the {batch} batch" for *key, batch in pairs if tuple(key) in arms]
    if found:
        return [f"Baseline: {' or '.join(found)}, measured in the same rounds"]
    if {"ddp", "ddp_noop"} <= {arm for _, arm in arms}:
        return ["Overhead: against the same DDP without communication, measured in the same rounds"]
    return []


def _rested_on(records: Sequence[Record]) -> list[str]:
    """How many rounds stand behind each number, which were left out, and what the intervals speak of."""
    measured = {record.point_id: blocks(record) for record in records if launches(record)}
    if not measured:
        return ["No round is measured"]
    counts = sorted({len(found.selected(all_rounds=False)) for found in measured.values()})
    counted = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    most = max(len(starts(record)) for record in records)
    replicates = [found.selected(all_rounds=False).index.get_level_values(0).nunique() for found in measured.values()]
    scopes = dict.fromkeys(scope_of(most, number) for number in sorted(set(replicates), reverse=True))
    sentences = [f"Medians of {counted} rounds a point; intervals {' or '.join(scopes)}"]
    if dropped := sum(found.dropped for found in measured.values()):
        total = sum(len(found.disturbed) for found in measured.values())
        sentences.append(f"Crosses: disturbed rounds, {dropped} of {total}, left out of the medians")
    if any(found.disturbed.all() for found in measured.values()):
        sentences[-1] += " except where every round of a point was disturbed"
    return sentences
