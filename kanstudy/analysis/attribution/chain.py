"""The chain of times from one rank alone to DDP, and its factors.

    T1(B)/p -> mean_r T1_r(B/p) -> max_r T1_r(B/p) -> max_r T_conc -> max_r T_noop -> sum_k max_r t_noop,k -> T_ddp

Each factor is the ratio of neighbours; their product is the efficiency E(p) exactly. Weak scaling is the same chain
without its first link, so E_strong(p; B) = batch x E_weak(p; B/p). At p = 1 the plain module is the same on every
link before DDP: only the factors of DDP remain.

The baseline is the device of mean speed: `serial_global` runs on one rank after another, see
`kanstudy.analysis.statistics.mean_device`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from kanstudy.analysis.statistics.blocks import CHAIN
from kanstudy.analysis.statistics.paired_arms import WITHIN, PairedArms
from kanstudy.record import Record
from kanstudy.spec import PointSpec

_NAMES = ("batch", "heterogeneity", "contention", "ddp", "synchronisation", "data_movement")
FACTORS = dict(zip(_NAMES, itertools.pairwise(CHAIN), strict=True))
"""Each factor and the two links of the chain whose ratio it is."""
POP = {
    "batch": "computation scaling",
    "heterogeneity": "load balance",
    "contention": "computation scaling (IPC, frequency)",
    "ddp": "computation scaling (instructions)",
    "synchronisation": "serialisation",
    "data_movement": "transfer",
    "efficiency": "global efficiency",
}
"""The metric of the Performance Optimisation and Productivity centre (POP) that each comes closest to.

POP's parallel efficiency is load balance x serialisation x transfer within one run; relative to a reference run it is
multiplied with computation scaling to the global efficiency, which is what is called parallel efficiency here. Not
exact: POP takes all of them from one trace of the parallel run, while heterogeneity comes from ranks timed alone
(unequal contention is in contention, not in load balance); POP counts DDP's copies outside of the communication library
as useful computation; serialisation is that on an ideal network, here with one wait a step; and transfer contains, on
gloo, the sums and copies that the ranks' own cores do.
"""


def factor_name(factor: str) -> str:
    """A factor in words."""
    return "DDP" if factor == "ddp" else factor.replace("_", " ")


def pop_text(factors: Iterable[str]) -> str:
    """Which of POP's metrics each of these factors comes closest to, in one sentence for under a waterfall."""
    groups: dict[str, list[str]] = {}
    for factor in dict.fromkeys(factors):
        if factor in FACTORS:
            groups.setdefault(POP[factor].partition(" (")[0], []).append(factor_name(factor))
    pairs = ", ".join(f"{' x '.join(names)} ~ {metric}" for metric, names in groups.items())
    return f"In POP's terms: {pairs}; their product, the parallel efficiency ~ {POP['efficiency']}"


def baseline(record: Record, arms: PairedArms) -> tuple[str, float]:
    """The column that E is relative to, and the factor on it. At p = 1 both serial arms are the same work."""
    if record.world_size == 1:
        return ("serial_global" if arms.has("serial_global") else "serial_local"), 1.0
    return ("serial_global", 1 / record.world_size) if record.scaling == "strong" else ("serial_local_mean", 1.0)


def links(record: Record | PointSpec) -> dict[str, tuple[str, str]]:
    """The factors that apply to a point or its record, with the links of the chain; the first link is the baseline."""
    if record.world_size > 1:
        return {name: pair for name, pair in FACTORS.items() if record.scaling == "strong" or name != "batch"}
    base = "serial_global" if "serial_global" in record.arms else "serial_local"
    if "ddp_noop" not in record.arms:
        return {"ddp": (base, "ddp")}
    return {"ddp": (base, "ddp_noop"), "data_movement": ("ddp_noop", "ddp")}


def with_chain(records: Sequence[Record]) -> list[Record]:
    """The records whose whole chain of arms was asked for, measured or not; a control has only a part of it."""
    return [
        record
        for record in records
        if {WITHIN.get(column, column) for pair in links(record).values() for column in pair} <= set(record.arms)
    ]
