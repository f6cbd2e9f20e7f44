"""Which points form one curve, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis.nodes import node_set
from kanstudy.record import Record
from kanstudy.sizes import widths_text

SERIES_KEYS = (
    "experiment",
    "source",
    "device_type",
    "device_name",
    "node_set",
    "backend",
    "threads_per_rank",
    "placement",
    "scaling",
    "series_batch",
    "dataset",
    "n_samples",
    "optimizer",
    "learning_rate",
    "model",
    "layer_widths",
    "grid_size",
    "spline_order",
    "operator",
    "bucket_cap_mb",
    "comm_hook",
    "sync_buffers",
    "dtype",
    "tf32",
    "block_s",
    "warmup_steps",
    "warmup_s",
    "seed",
    "injection",
    "link",
)
"""What the points of one curve share; only the world size differs. `node_set` is the launch's hosts, on which groups of
all sizes are nested: a curve never joins two sets of nodes."""

WORK_KEYS = tuple(
    name
    for name in SERIES_KEYS
    if name not in ("experiment", "scaling", "series_batch", "node_set", "learning_rate", "seed")
    and name not in ("block_s", "warmup_steps", "warmup_s")
)
"""What points of the same work share, whichever experiment asked for them and however long each was measured; not the
ranks and the batch."""

_LABEL_HEADS = {
    "source": "source",
    "device_name": "on",
    "node_set": "nodes",
    "layer_widths": "widths",
    "grid_size": "grid",
    "series_batch": "batch",
    "bucket_cap_mb": "bucket cap",
    "global_batch_size": "batch",
}
"""Headings of the fields that labels show first; the others follow under their own names."""


def series_labels(records: Sequence[Record]) -> list[str]:
    """A name for each record's series within its experiment: model, data set, and what else tells series apart."""
    keys = pd.DataFrame(series_keys(records), columns=list(SERIES_KEYS))
    labels = pd.Series(index=keys.index, dtype=object)
    for _, group in keys.groupby("experiment"):
        labels[group.index] = _labels_of(group)
    return list(labels)


def _labels_of(keys: pd.DataFrame) -> pd.Series:
    """Labels of series of one experiment."""
    return told_apart(names(keys), keys)


def names(frame: pd.DataFrame) -> pd.Series:
    """How a label of each row begins: model and data set, and the source of what was not measured."""
    return frame["model"].str.upper() + " " + frame["dataset"] + source_suffix(frame)


def source_suffix(frame: pd.DataFrame) -> pd.Series:
    """Behind a label, the source of what was not measured."""
    return frame["source"].map(lambda source: "" if source == "measured" else f", {source}")


def told_apart(labels: pd.Series, frame: pd.DataFrame) -> pd.Series:
    """Labels with as many of the frame's columns behind them as it takes to tell its different rows apart."""
    keys = frame.map(plain)
    different = len(keys.drop_duplicates())
    columns, heads = [str(name) for name in keys], list(_LABEL_HEADS)
    for name in sorted(columns, key=lambda name: heads.index(name) if name in heads else len(heads)):
        if labels.nunique() == different:
            continue
        longer = labels + f", {_LABEL_HEADS.get(name, name.replace('_', ' '))} " + keys[name]
        if longer.nunique() > labels.nunique():
            labels = longer
    return labels


def series_keys(records: Sequence[Record]) -> list[tuple]:
    """The series of each record. Where a launch failed before it could see its hardware, it is that of the others."""
    hardware = {(record.device_type, record.device_name) for record in records if record.device_name is not None}
    node_sets = {node_set(record) for record in records if record.conditions is not None}
    keys = []
    for record in records:
        values = {name: getattr(record, name) for name in SERIES_KEYS if name != "node_set"}
        same_type = [name for kind, name in hardware if kind == record.device_type]
        if record.device_name is None and len(same_type) == 1:
            values["device_name"] = same_type[0]
        values["layer_widths"] = widths_text(record.layer_widths)
        values["node_set"] = node_set(record)
        if record.conditions is None and len(node_sets) == 1:
            values["node_set"] = next(iter(node_sets))
        keys.append(tuple(values[name] for name in SERIES_KEYS))
    return keys


def plain(value: object) -> str:
    """A field's value as text."""
    if isinstance(value, float | np.floating):
        return "none" if np.isnan(value) else f"{value:g}"
    return "none" if value is None else str(value)
