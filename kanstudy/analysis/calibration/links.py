"""The links of a calibrated machine, with refits: from `kanstudy.analysis.network.fit`, or more simply where that is
refused, as it is for a few messages on a busy machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.calibration import nonnegative
from kanstudy.analysis.network.fit import MESSAGES, fit_network
from kanstudy.analysis.network.link import TIERS, Link, tiers_of
from kanstudy.analysis.network.network import Network
from kanstudy.analysis.nodes import layout
from kanstudy.record import Record


@dataclass(frozen=True)
class Links:
    """A network whose `tiers` are fitted, none where nothing was measured over any, and as many refits as `draws`;
    `note` tells what to think of it, if anything."""

    network: Network
    tiers: tuple[str, ...]
    draws: tuple[Network, ...]
    note: str = ""


def fit(records: Sequence[Record], begin: Network, count: int) -> Links:
    """The links that the all-reduces of records of several ranks give, with so many refits."""
    messages = _messages(records)
    found = fit_network(messages, begin)
    if not found.fit.refused:
        return Links(found.network, found.tiers, tuple(found.draws(count)))
    if begin.algorithm == "nccl" or not found.tiers:  # its tuner's own constants are no multiples of a link's
        return Links(begin, (), (begin,) * count, f"the links were not fitted: {found.reason}" if found.tiers else "")
    rng = np.random.default_rng(0)
    network, draws = begin, [begin] * count
    fitted = []
    for tier in TIERS:
        own = messages[[tiers_of(ranks) == (tier,) for ranks in messages["layout"]]]
        if len(own):
            link, *again = _at_least_nothing(own, begin, count, rng)
            network = _with(network, tier, link)
            draws = [_with(drawn, tier, refit) for drawn, refit in zip(draws, again, strict=True)]
            fitted.append(tier)
    return Links(network, tuple(fitted), tuple(draws), f"the links' constants are rough: {found.reason}")


def _messages(records: Sequence[Record]) -> pd.DataFrame:
    """Mean times of the all-reduces: a step's mean contains their mean, the stalls too, which a median hides."""
    rows = [
        (item.message_bytes, layout(record), float(np.mean(item.times_s)))
        for record in records
        if record.world_size > 1
        for item in record.allreduce
        if item.times_s
    ]
    return pd.DataFrame(rows, columns=list(MESSAGES))


def _at_least_nothing(messages: pd.DataFrame, begin: Network, count: int, rng: np.random.Generator) -> list[Link]:
    """A link with latency and time a byte of 0 at least, and refits to resampled residuals."""
    unit = [Link(latency_s=1.0), Link(bytes_per_s=1.0)]
    networks = [replace(begin, inside=link, between=link) for link in unit]
    sizes = zip(messages["message_bytes"], messages["layout"], strict=True)
    design = np.array([[network.allreduce_s(size, ranks) for network in networks] for size, ranks in sizes])
    times = messages["time_s"].to_numpy(float)
    estimate = nonnegative.linear(design, times, times)
    fitted = design @ estimate
    wider = np.sqrt(len(times) / max(1, len(times) - 2))
    costs = [estimate]
    for _ in range(count):
        drawn = fitted * np.exp(wider * rng.choice(np.log(times / fitted), len(times)))
        costs.append(nonnegative.linear(design, drawn, drawn))
    return [Link(latency_s=float(a), bytes_per_s=1 / float(b) if b > 0 else np.inf) for a, b in costs]


def _with(network: Network, tier: str, link: Link) -> Network:
    return replace(network, inside=link) if tier == "inside" else replace(network, between=link)
