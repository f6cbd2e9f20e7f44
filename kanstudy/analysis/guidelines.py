"""Short guidelines, each computed from records: its number, interval, source and points.

Where the data do not carry a statement (no interval, an interval that includes no effect, disturbed rounds), the
sentence says that it cannot be told. Only measured sizes are spoken of: nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from kanstudy.analysis import controls_words
from kanstudy.analysis.complementarity import UNTOLD
from kanstudy.analysis.rows import value_text
from kanstudy.analysis.series import WORK_KEYS
from kanstudy.analysis.statistics.intervals import LEVEL

THRESHOLDS = (0.7, 0.5)
"""Parallel efficiencies that a compute proposal is usually asked to keep."""
SAME_WORK = ("profile", *WORK_KEYS, "global_batch_size", "world_size")
"""Columns that rows must share to be compared with each other, but for the one that is compared."""
_REMEDIES = {
    "batch": "more rows a rank, by a larger global batch or fewer ranks",
    "heterogeneity": "the slow device, its clocks and its neighbours, or run without it",
    "contention": "what the ranks of a node share, by fewer ranks a node or a spread placement",
    "ddp": "the buckets, fewer and larger ones, and gradients as views of them",
    "synchronisation": "the steadiness of a step: pinned cores, quiet nodes, inputs that are ready",
    "data_movement": "how often and how much is sent: more rows between updates, another bucket cap, a faster link",
}
"""Where a loss is worth attacking first. A suggestion: only a new measurement tells whether it helps."""
COLUMNS = ["topic", "told", "sentence", "source", "point_ids"]


def guidelines(
    strong: pd.DataFrame,
    weak: pd.DataFrame,
    overhead: pd.DataFrame,
    sizes: pd.DataFrame,
    factors: pd.DataFrame,
    verdicts: pd.DataFrame,
    operators: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row a guideline: topic, told (whether the data decide it), sentence, source, point_ids.

    The frames are those of `kanstudy.analysis.estimates`, of `attribution`, of `verdict`, for the operators of
    `complementarity`, and of `controls`; empty ones give no sentence.
    """
    rows = [
        *_ranks(strong, "strong scaling"),
        *_ranks(weak, "weak scaling"),
        *_largest_loss(verdicts),
        *_local_batch(factors),
        *_bucket_cap(overhead),
        *_buffers(overhead),
        *_grid_size(sizes),
        *(_operators(operators) if operators is not None else ()),
        *(_controls(controls) if controls is not None else ()),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _ranks(frame: pd.DataFrame, what: str) -> Iterator[dict]:
    """The most ranks at which the whole interval of E is above a threshold, for every size up to it; of KANs, beside
    which MLPs are only controls."""
    for (series,), curve in _by(frame[frame["model"] == "kan"] if len(frame) else frame, ["series"]):
        curve = curve[curve["world_size"] > 1].dropna(subset="efficiency").sort_values("world_size")
        if curve.empty:
            continue
        if not _certain(curve, "efficiency").any():
            yield _sentence("ranks", False, f"{what}, {series}: how many ranks are worth it", curve, _why_not(curve))
            continue
        for threshold in THRESHOLDS:
            above = (_certain(curve, "efficiency") & (curve["efficiency_low"] >= threshold)).cummin()
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
                parts.append("no larger size was measured")
                yield _sentence("ranks", True, f"{what}, {series}: {', '.join(parts)}", kept)
                continue
            row = rest.iloc[0]
            here = f"at {row['world_size']} ranks it is {value_text(row, 'efficiency')}"
            below = bool(_certain(rest, "efficiency").iloc[0] and row["efficiency_high"] < threshold)
            verdict = f"below {threshold:g}" if below else f"so whether it keeps {threshold:g} cannot be told"
            parts.append(f"{here}, {verdict}")
            used = curve[curve["world_size"] <= row["world_size"]]
            yield _sentence("ranks", below or bool(len(kept)), f"{what}, {series}: {', '.join(parts)}", used)


def _largest_loss(verdicts: pd.DataFrame) -> Iterator[dict]:
    """At each series' largest world size, the verdict on its factors, and what it suggests to change first: only where
    the named loss is the largest with the probability that intervals have."""
    for _, rows in _by(verdicts, ["series", "scaling"]):
        row = rows.sort_values("world_size").iloc[-1]
        told = bool(row["told"]) and row["probability_largest"] >= LEVEL
        advice = f"to change first: {_REMEDIES[row['factor']]}" if told else "what to change first cannot be told"
        points = f" ({row['source']}: {row['point_id']})."
        sentence = f"{row['sentence'].removesuffix(points)}; {advice}{points}"
        found = {"topic": "loss", "told": told, "sentence": sentence}
        yield found | {"source": row["source"], "point_ids": row["point_id"]}


def _local_batch(factors: pd.DataFrame) -> Iterator[dict]:
    """The batch factor: whether a rank works as well on its slice as on the whole batch."""
    for (series,), rows in _by(factors, ["series"]):
        rows = _at_largest(rows[rows["factor"] == "batch"])
        if rows.empty:
            continue
        row = rows.iloc[0]
        head = f"strong scaling, {series}: the batch cut to 1/{row['world_size']}"
        number = f"(batch factor {value_text(row, 'value', digits=3)})"
        if not _certain(rows, "value").all():
            yield _sentence("local batch", False, f"{head}: what that costs", rows, _why_not(rows))
        elif row["value_high"] < 1:
            text = f"{head} is trained less efficiently {number}: a larger global batch would lose less"
            yield _sentence("local batch", True, text, rows)
        elif row["value_low"] > 1:
            text = f"{head} is trained more efficiently {number}: part of the speed-up is the smaller batch"
            yield _sentence("local batch", True, text, rows)
        else:
            yield _sentence("local batch", False, f"{head}: what that costs", rows, f"it includes no effect {number}")


def _bucket_cap(overhead: pd.DataFrame) -> Iterator[dict]:
    plain = overhead[~overhead["sync_buffers"].astype(bool)] if len(overhead) else overhead
    for _, rows in _by(plain, _but("bucket_cap_mb")):
        if rows["bucket_cap_mb"].nunique() > 1:
            settings = [f"bucket cap {cap:g} MiB" for cap in rows["bucket_cap_mb"]]
            yield from _fastest("bucket cap", _work(rows), rows, settings)


def _buffers(overhead: pd.DataFrame) -> Iterator[dict]:
    for _, rows in _by(overhead, _but("sync_buffers")):
        if rows["sync_buffers"].nunique() > 1:
            settings = [f"buffers {'' if sync else 'not '}synchronised" for sync in rows["sync_buffers"]]
            head = f"{_work(rows)}, bucket cap {rows['bucket_cap_mb'].iloc[0]:g} MiB"
            yield from _fastest("buffers", head, rows, settings)


def _work(rows: pd.DataFrame) -> str:
    """What rows of the same work share, for reading."""
    first = rows.iloc[0]
    return f"{first['model'].upper()} {first['dataset']}, {first['world_size']} ranks"


def _fastest(topic: str, head: str, rows: pd.DataFrame, settings: list[str]) -> Iterator[dict]:
    """Which setting has the shortest step, if its interval lies below all others'."""
    rows = rows.assign(setting=settings).dropna(subset="step_time_s").sort_values("step_time_s")
    if len(rows) < 2:
        return
    best, others = rows.iloc[0], rows.iloc[1:]
    listed = ", ".join(f"{row['setting']} {value_text(row, 'step_time_s', 1e3)} ms" for _, row in rows.iterrows())
    if not _certain(rows, "step_time_s").all():
        yield _sentence(topic, False, f"{head}: which setting of the {topic} is fastest", rows, _why_not(rows))
    elif (others["step_time_s_low"] <= best["step_time_s_high"]).any():
        why = f"the steps' times overlap, {listed}"
        yield _sentence(topic, False, f"{head}: which setting of the {topic} is fastest", rows, why)
    else:
        yield _sentence(topic, True, f"{head}: the step is shortest with {best['setting']}: {listed}", rows)


def _grid_size(sizes: pd.DataFrame) -> Iterator[dict]:
    """Parameters per byte over grid sizes; memory is counted, not timed, so it has no interval."""
    rows = sizes[sizes["model"] == "kan"].dropna(subset="params_per_byte") if len(sizes) else sizes
    for _, group in _by(rows, _but("grid_size")):
        group = group.sort_values("grid_size")
        widths = group["layer_widths"].iloc[0]
        if group["grid_size"].nunique() < 2:
            continue
        first, last = group.iloc[0], group.iloc[-1]
        text = (
            f"widths {widths}: from grid {first['grid_size']:.0f} to {last['grid_size']:.0f} the parameters per byte "
            f"of peak memory go from {first['params_per_byte']:.4f} to {last['params_per_byte']:.4f} "
            f"({last['params_per_byte'] / first['params_per_byte']:.2f} times; counted, so without interval)"
        )
        yield _sentence("grid size", True, text, group)


def _operators(pairs: pd.DataFrame) -> Iterator[dict]:
    """Whether a faster operator and more ranks give together what they promise one by one."""
    for _, row in pairs.iterrows():
        points = " ".join(name for name in (row["point_id"], row["faster_point_id"]) if isinstance(name, str))
        found = {"topic": "operators", "told": row["verdict"] != UNTOLD, "sentence": row["sentence"]}
        yield found | {"source": row["source"], "point_ids": points}


def _controls(pairs: pd.DataFrame) -> Iterator[dict]:
    """Whether the exposed communication is the KAN's."""
    for _, row in pairs.iterrows():
        found = {"topic": "controls", "told": row["verdict"] != UNTOLD}
        points = f"{row['point_id']} {row['control_point_id']}"
        yield found | {"sentence": controls_words.sentence(row), "source": row["source"], "point_ids": points}


def _but(compared: str) -> list[str]:
    return [name for name in SAME_WORK if name != compared]


def _by(frame: pd.DataFrame, keys: list[str]) -> Iterable[tuple[tuple, pd.DataFrame]]:
    return frame.groupby(keys, sort=False, dropna=False) if len(frame) else []


def _at_largest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest world size above one that has been attributed."""
    rows = rows[rows["world_size"] > 1].dropna(subset="value")
    return rows[rows["world_size"] == rows["world_size"].max()]


def _certain(rows: pd.DataFrame, name: str) -> pd.Series:
    """Whether each row has an interval of this value, and rounds to be trusted."""
    return rows[f"{name}_low"].astype(float).notna() & rows["trusted"].astype(bool)


def _why_not(rows: pd.DataFrame) -> str:
    reasons = [reason for reason in dict.fromkeys(rows["reason"]) if reason]
    return " / ".join(reasons) or "there is no interval"


def _sentence(topic: str, told: bool, text: str, rows: pd.DataFrame, why_not: str = "") -> dict:
    """A guideline with its source and points; with `why_not`, what it asks cannot be told."""
    source, points = (" ".join(dict.fromkeys(rows[name])) for name in ("source", "point_id"))
    text += f" cannot be told: {why_not}" if why_not else ""
    sentence = f"{text[0].upper()}{text[1:]} ({source}: {points})."
    return {"topic": topic, "told": told, "sentence": sentence, "source": source, "point_ids": points}
