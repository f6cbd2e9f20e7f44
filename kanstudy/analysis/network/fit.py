"""A network fitted to all-reduces that were measured: latency and bandwidth of each tier that they used.

Least squares of logarithms over all messages and layouts at once, through the network's own formula, with the
covariance of what is fitted, so that a prediction can carry it (`kanstudy.analysis.scaling_laws.least_squares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.external.nccl_log import NcclLog
from kanstudy.analysis.network.link import TIERS, tiers_of
from kanstudy.analysis.network.network import Correction, Link, Network
from kanstudy.analysis.nodes import layout
from kanstudy.analysis.results import surroundings
from kanstudy.analysis.scaling_laws.least_squares import Fit, fit
from kanstudy.analysis.scaling_laws.models import Model, Parameter
from kanstudy.record import Record

MESSAGES = ("message_bytes", "layout", "time_s", "point_id")
"""Columns of a frame of all-reduces: the median time of each size on each layout, and the point it is of."""


@dataclass(frozen=True)
class NetworkFit:
    """A network through measured all-reduces, or `reason`, why there is none.

    `tiers` are those that messages used; the other is as the fit was given it. `fit` has latency and bandwidth of each
    of them, the covariance of their logarithms, and the residuals, one a row of `messages`.
    """

    network: Network
    tiers: tuple[str, ...]
    fit: Fit
    messages: pd.DataFrame

    @property
    def reason(self) -> str:
        """Why nothing is fitted; empty where it is."""
        return self.fit.reason

    @property
    def point_ids(self) -> tuple[str, ...]:
        """The points whose messages these are."""
        return tuple(dict.fromkeys(self.messages["point_id"]))

    def covers(self, layout: Sequence[int]) -> bool:
        """Whether all tiers that this layout uses were fitted."""
        return not self.fit.refused and set(tiers_of(layout)) <= set(self.tiers)

    def corrected(self) -> Network:
        """The network that passes through the measured times on every layout that has some, instead of near them;
        `ValueError` where none is fitted."""
        self._require_fitted()
        rows = self.messages.assign(log_factor=self.fit.residuals)
        corrections = []
        for places in dict.fromkeys(rows["layout"]):
            means = rows[rows["layout"] == places].groupby("message_bytes")["log_factor"].mean()  # by ascending size
            corrections.append(Correction(places, tuple(map(float, means.index)), tuple(means)))
        return replace(self.network, corrections=tuple(corrections))

    def draws(self, count: int, seed: int = 0) -> list[Network]:
        """Networks from the t distribution of the fitted constants, for bands; `ValueError` where none are fitted.

        A new message lies beside the network by `fit.residual_sd` besides.
        """
        self._require_fitted()
        values, covariance = np.asarray(self.fit.values), np.asarray(self.fit.covariance)
        rng, k = np.random.default_rng(seed), len(values)
        freedom = len(self.fit.x) - k
        normal = rng.multivariate_normal(np.zeros(k), covariance, count)
        logs = np.log(values) + normal * np.sqrt(freedom / rng.chisquare(freedom, (count, 1)))
        return [_with_links(self.network, self.tiers, drawn) for drawn in np.exp(logs)]

    def _require_fitted(self) -> None:
        if self.fit.refused:
            raise ValueError(f"network {self.network.name!r} was not fitted: {self.reason}")


def messages_of_records(records: Sequence[Record]) -> pd.DataFrame:
    """The all-reduces (`MESSAGES`) that records of one machine have; those of one rank and of too many are not in it.

    Raises `ValueError` where sources, devices, backends or conditions differ, which one network cannot have.
    """
    kept = [record for record in records if record.allreduce and record.world_size > 1 and not record.oversubscribed]
    for name in ("source", "device_name", "backend"):
        if len(found := dict.fromkeys(getattr(record, name) for record in kept)) > 1:
            raise ValueError(f"{name} of the all-reduces is {' and '.join(map(str, found))}: must be one")
    if len({surroundings(record) for record in kept}) > 1:
        ids = ", ".join(record.point_id for record in kept)
        raise ValueError(f"{ids}: the all-reduces are of other nodes or versions: must be of the same")
    rows = [
        (item.message_bytes, layout(record), float(np.median(item.times_s)), record.point_id)
        for record in kept
        for item in record.allreduce
        if item.times_s
    ]
    return pd.DataFrame(rows, columns=list(MESSAGES))


def messages_of_log(log: NcclLog, layout: Sequence[int] = (), name: str = "nccl-tests") -> pd.DataFrame:
    """The all-reduces (`MESSAGES`) of an nccl-tests log, in place where it has both halves, as torch reduces.

    The layout is needed where the log lists no hosts. `ValueError` where it is missing or does not fit the log's ranks.
    """
    layout = tuple(layout) or log.layout
    if sum(layout) != log.ranks:
        raise ValueError(f"layout = {layout}: must have the {log.ranks} ranks of the log on its nodes")
    rows = log.rows[log.rows["in_place"] == log.rows["in_place"].any()]
    return pd.DataFrame(
        {
            "message_bytes": rows["message_bytes"].to_numpy(),
            "layout": [layout] * len(rows),
            "time_s": rows["time_s"].to_numpy(),
            "point_id": name,
        }
    )


def fit_network(messages: pd.DataFrame, begin: Network) -> NetworkFit:
    """The network whose all-reduces come nearest to `messages` (`MESSAGES`).

    `begin` tells the algorithm, the name, the basis, and the constants of a tier that no message uses. Nothing is
    fitted, with the reason, where the messages do not determine the constants.
    """
    messages = messages.reset_index(drop=True)
    sizes, layouts = messages["message_bytes"].to_list(), messages["layout"].to_list()
    tiers = tuple(tier for tier in TIERS if any(tier in tiers_of(layout) for layout in layouts))

    def times(values: np.ndarray, which: np.ndarray) -> np.ndarray:
        network = _with_links(begin, tiers, values)
        return np.array([network.allreduce_s(sizes[int(i)], layouts[int(i)]) for i in which])

    def start(which: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        return np.concatenate([_start(messages, tier) for tier in tiers])

    parameters = [
        Parameter(f"{tier}_{name}", f"{tier} {heading}", scale=True)
        for tier in tiers
        for name, heading in (("latency_s", "latency α (s)"), ("bytes_per_s", "bandwidth B (bytes/s)"))
    ]
    model = Model(f"α-β, {begin.algorithm}", begin.algorithm, "message", tuple(parameters), times, start)
    if not tiers:
        nothing = Fit(model, np.array([]), np.array([]), "no all-reduce of two ranks or more")
        return NetworkFit(begin, tiers, nothing, messages)
    found = fit(model, np.arange(len(messages)), messages["time_s"].to_numpy(float))
    if found.values is None:
        alone = {tiers_of(layout) for layout in layouts}
        if len(tiers) > 1 and not {("inside",), ("between",)} <= alone:
            hint = "measure ranks of one node alone, and one rank a node alone (placements packed and spread)"
            found = replace(found, reason=f"{found.reason}; {hint}")
        return NetworkFit(begin, tiers, found, messages)
    return NetworkFit(_with_links(begin, tiers, found.values), tiers, found, messages)


def _with_links(network: Network, tiers: Sequence[str], values: np.ndarray) -> Network:
    """The network with latency and bandwidth of each of the tiers from `values` (2 x tiers,)."""
    links = {
        tier: Link(latency_s=float(values[2 * place]), bytes_per_s=float(values[2 * place + 1]))
        for place, tier in enumerate(tiers)
    }
    return replace(network, **links)  # type: ignore[arg-type]  # the tiers are its links


def _start(messages: pd.DataFrame, tier: str) -> np.ndarray:
    """Latency and bandwidth as a ring would have them, from the shortest time and the fastest message of a tier."""
    rows = messages[[tier in tiers_of(layout) for layout in messages["layout"]]]
    p = rows["layout"].map(sum)
    latency = (rows["time_s"] / (2 * (p - 1))).min()
    return np.array([latency, (2 * (p - 1) / p * rows["message_bytes"] / rows["time_s"]).max()])
