"""Does communication's share stop falling as ranks are added once NCCL is held to one algorithm and protocol?

Records of the same series, measured once as NCCL chooses and again with NCCL_ALGO and NCCL_PROTO set. How far from
monotonic a curve is, is its *largest fall*: of the overhead from a world size to any larger one. Its interval follows
from bounds on the overheads that hold for all world sizes at once (`kanstudy.analysis.statistics.simultaneous`): it
holds whichever two sizes turn out to be the ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd

from kanstudy.analysis.nodes import node_set
from kanstudy.analysis.rows import value_text
from kanstudy.analysis.series import SERIES_KEYS, series_keys, told_apart
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.statistics.simultaneous import simultaneous
from kanstudy.analysis.tables.layouts import TEXT, Column
from kanstudy.record import Record

FREE = "NCCL's own"
"""The choice of records that were measured without either variable."""
NOT_MONOTONIC, MONOTONIC, UNDECIDED = "not monotonic", "monotonic", "undecided"
FORCED = {
    "series": TEXT["series"],
    "source": Column("source"),
    "nodes": Column("nodes"),
    "choice": Column("algorithm, protocol"),
    "world_sizes": Column("ranks"),
    "overheads": Column("overhead (%)"),
    "largest_fall": Column("largest fall (points)", 100, 2),
    "between": Column("between"),
    "verdict": Column("overhead is"),
    "reason": Column("note"),
    "point_ids": Column("points"),
}


def choice_of(record: Record) -> str:
    """What a record's NCCL_ALGO and NCCL_PROTO hold all-reduces to, such as "Ring Simple"; `FREE` without either."""
    settings = record.provenance.get("settings") or {}
    words = (settings.get(name, "").removeprefix("allreduce:") for name in ("NCCL_ALGO", "NCCL_PROTO"))
    return " ".join(filter(None, words)) or FREE


def monotonicity(records: Sequence[Record]) -> pd.DataFrame:
    """A row a series and choice of at least two world sizes above 1: world_sizes, overheads, largest_fall (a fraction
    of the step, with its interval; negative where the overhead rises throughout), between which sizes, verdict.

    The verdict is `NOT_MONOTONIC` where the whole interval is above 0, `MONOTONIC` where it is at or below, else
    `UNDECIDED`. Raises `ValueError` where a choice has the same point twice, as from two folders.
    """
    curves: dict[tuple, list[Record]] = {}
    for record, series in zip(records, _series(records), strict=True):
        if record.world_size > 1 and PairedArms(record).has("ddp_noop", "ddp"):
            curves.setdefault((series, record.source, node_set(record), choice_of(record)), []).append(record)
    rows = []
    for (series, source, nodes, choice), members in curves.items():
        members.sort(key=lambda record: record.world_size)
        for one, other in pairwise(members):
            if one.world_size == other.world_size:
                raise ValueError(f"{one.point_id} is there twice with {choice}: must be one folder a choice")
        if len(members) > 1:
            rows.append({"series": series, "source": source, "nodes": nodes, "choice": choice} | _fall(members))
    columns = [name for name in FORCED if name != "point_ids"]
    return pd.DataFrame(rows, columns=[*columns, "largest_fall_low", "largest_fall_high", "point_ids"])


def _series(records: Sequence[Record]) -> list[str]:
    """A name for each record's series; the same on whichever nodes, since a job measures each choice by itself."""
    keys = pd.DataFrame(series_keys(records), columns=list(SERIES_KEYS)).drop(columns=["node_set"])
    return list(told_apart(keys["model"].str.upper() + " " + keys["dataset"], keys))


def answers(table: pd.DataFrame) -> list[str]:
    """A sentence a series of `monotonicity` and choice other than NCCL's own: whether what was not monotonic is now."""
    sentences = []
    for (series, source), rows in table.groupby(["series", "source"], sort=False):
        free, held = rows[rows["choice"] == FREE], rows[rows["choice"] != FREE]
        if free.empty:
            sentences.append(f"{series} ({source}): nothing is measured as NCCL chooses, so nothing can go away.")
        for (_, before), (_, after) in product(free.iterrows(), held.iterrows()):
            where = " on other nodes" if before["nodes"] != after["nodes"] else ""
            sentences.append(f"{series} ({source}), held to {after['choice']}{where}: {_answer(before, after)}.")
    return sentences


def _answer(before: pd.Series, after: pd.Series) -> str:
    falls = f"largest fall {_points(before)} points before, {_points(after)} after"
    if before["verdict"] != NOT_MONOTONIC:
        return f"the overhead was {before['verdict']} as NCCL chooses; {falls}"
    what = {MONOTONIC: "goes away", NOT_MONOTONIC: "stays", UNDECIDED: "may or may not go away"}[after["verdict"]]
    return f"what is not monotonic {what}; {falls}"


def _points(row: pd.Series) -> str:
    return value_text(row, "largest_fall", 100)


def _fall(members: Sequence[Record]) -> dict[str, object]:
    """The largest fall along a curve of ascending world sizes, and what else its row has."""
    sizes = [record.world_size for record in members]
    ratios = [PairedArms(record).ratio("ddp_noop", "ddp") for record in members]
    overheads = 1 - np.array([ratio.value for ratio in ratios])
    without = [size for size, ratio in zip(sizes, ratios, strict=True) if ratio.draws is None]
    # bounds of 1 - ratio, the lower one from the ratio's upper one
    bounds = np.full((len(sizes), 2), np.nan) if without else 1 - simultaneous(ratios)[:, ::-1]
    pairs = list(combinations(range(len(sizes)), 2))
    falls = [overheads[i] - overheads[j] for i, j in pairs]
    i, j = pairs[int(np.argmax(falls))]
    low = max(bounds[i, 0] - bounds[j, 1] for i, j in pairs)
    high = max(bounds[i, 1] - bounds[j, 0] for i, j in pairs)
    verdict = NOT_MONOTONIC if low > 0 else MONOTONIC if high <= 0 else UNDECIDED
    too_few = f"too few rounds for an interval at {', '.join(map(str, without))} ranks" if without else ""
    return {
        "world_sizes": " ".join(map(str, sizes)),
        "overheads": " ".join(f"{100 * overhead:.2f}" for overhead in overheads),
        "largest_fall": max(falls),
        "largest_fall_low": low,
        "largest_fall_high": high,
        "between": f"{sizes[i]} and {sizes[j]} ranks",
        "verdict": verdict,
        "reason": too_few,
        "point_ids": " ".join(record.point_id for record in members),
    }
