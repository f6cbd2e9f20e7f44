"""A network fitted to all-reduces that were measured: latency and bandwidth of each tier that they used.

Least squares of logarithms over all messages and layouts at once, through the network's own formula, with the
covariance of what is fitted, so that a prediction can carry it (`kanstudy.analysis.scaling_laws.least_squares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.network.link import TIERS, tiers_of
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.scaling_laws.least_squares import Fit, fit
from kanstudy.analysis.scaling_laws.models import Model, Parameter

MESSAGES = ("message_bytes", "layout", "time_s")
"""Columns of a frame of all-reduces: the time of each size on each layout, s."""


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

    def draws(self, count: int) -> list[Network]:
        """Networks from the t distribution of the fitted constants, for bands; `ValueError` where none are fitted.

        A new message lies beside the network by `fit.residual_sd` besides.
        """
        if self.fit.refused:
            raise ValueError(f"network {self.network.name!r} was not fitted: {self.reason}")
        values, covariance = np.asarray(self.fit.values), np.asarray(self.fit.covariance)
        rng, k = np.random.default_rng(0), len(values)
        freedom = len(self.fit.x) - k
        normal = rng.multivariate_normal(np.zeros(k), covariance, count)
        logs = np.log(values) + normal * np.sqrt(freedom / rng.chisquare(freedom, (count, 1)))
        return [_with_links(self.network, self.tiers, drawn) for drawn in np.exp(logs)]


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
