"""What differs in how two results were made: source, machine, software, settings, and how long was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from kanstudy.analysis.comparison.sides import Side
from kanstudy.analysis.nodes import node_set
from kanstudy.analysis.results import launches
from kanstudy.analysis.series import plain
from kanstudy.record import Record

_FIELDS = (
    *("source", "profile", "device_type", "device_name", "backend", "threads_per_rank", "oversubscribed"),
    *("operator", "tf32"),
    *("seed", "learning_rate", "block_s", "warmup_steps", "warmup_s"),
)
_MACHINE = (
    *("host", "system", "cpu_model", "physical_cores", "logical_cores", "cpu_quota", "cpu_governor", "memory_bytes"),
    *("kanstudy", "python"),
)


def conditions(record: Record) -> dict[str, str]:
    """Everything that a record tells of how it was made, as text, by name."""
    found: dict[str, Any] = {name: getattr(record, name) for name in _FIELDS}
    found |= {"rounds planned": record.rounds_planned, "launches": launches(record), "nodes": node_set(record) or None}
    own = record.provenance
    found |= {name: own.get(name) for name in _MACHINE}
    found["day"] = str(own["utc"])[:10] if own.get("utc") else None
    git: Mapping[str, Any] = own.get("git") or {}
    found["commit"] = f"{git['commit'][:12]}{' and changes' if git['dirty'] else ''}" if git else None
    found |= own.get("packages") or {}
    found["cuda"] = ((own.get("conditions") or {}).get("versions") or {}).get("cuda")
    found |= own.get("settings") or {}
    return {name.replace("_", " ") if name.islower() else name: plain(value) for name, value in found.items()}


def differences(a: Side, b: Side) -> pd.DataFrame:
    """One row a condition that differs: condition, a, b, each all values that its records have.

    A condition that only some records tell is compared by what they tell. What the records do not tell is "none".
    """
    ours, theirs = _gathered(a), _gathered(b)
    names = dict.fromkeys([*ours, *theirs])
    rows = [
        {"condition": name, "a": _text(ours.get(name, {})), "b": _text(theirs.get(name, {}))}
        for name in names
        if set(ours.get(name, {"none": None})) != set(theirs.get(name, {"none": None}))
    ]
    return pd.DataFrame(rows, columns=["condition", "a", "b"])


def _gathered(side: Side) -> dict[str, dict[str, None]]:
    """Each condition's values over all records, in the order of their appearance."""
    found: dict[str, dict[str, None]] = {}
    for record in side.records:
        for name, value in conditions(record).items():
            found.setdefault(name, {})[value] = None
    return found


def _text(values: Mapping[str, None]) -> str:
    return ", ".join(sorted(values)) or "none"
