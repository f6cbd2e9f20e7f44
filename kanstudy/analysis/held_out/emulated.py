"""Predictions over an emulated link: what gloo makes of its rate and latency, learned on other links.

An all-reduce of S bytes on p ranks over a link of rate B and one-way delay d is taken to be gloo's ring (`Network`)
with

    latency = c0 + c1·d,    seconds a byte = c2 + c3 / B

where c0 and c2 are the hosts' own work and c1, c3 are 1 if the link does what it states. The four are fitted, with
least relative deviations and none below 0, to blocking all-reduces over links that nothing is predicted for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.calibration import nonnegative
from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.calibration.constants import Constants
from kanstudy.analysis.calibration.resampling import DRAWS
from kanstudy.analysis.calibration.scatter import Scatter
from kanstudy.analysis.network.network import Link, Network
from kanstudy.emulated_link import EmulatedLink, parse
from kanstudy.record import Record
from kanstudy.spec import PointSpec

LEAST_LINKS = 3
"""Links to learn from: with fewer, rate, latency and the hosts' own work cannot be told apart."""


class LinksError(ValueError):
    """Records from which nothing can be learned of links; the message says what is missing."""


@dataclass(frozen=True)
class LinkLaw:
    """The four coefficients, `links` they come from, the residuals' standard deviation (of the logarithm) with its
    degrees of freedom, and refits to resampled residuals (draws, 4)."""

    coefficients: tuple[float, float, float, float]
    links: tuple[str, ...]
    residual_sd: float
    freedom: int
    draws: np.ndarray

    def link(self, text: str, coefficients: Sequence[float] | None = None) -> Link:
        """The link of a network of gloo that stands for an emulated link."""
        asked = parse(text)
        own, per_latency, per_byte, per_rate = coefficients if coefficients is not None else self.coefficients
        s_per_byte = per_byte + per_rate / asked.bytes_per_s
        return Link(latency_s=own + per_latency * asked.latency_s, bytes_per_s=1 / s_per_byte)


def learn(records: Sequence[Record]) -> LinkLaw:
    """The law that all-reduces over several emulated links give; `LinksError` with fewer than three links."""
    rows = [
        (record.link, record.world_size, item.message_bytes, float(np.mean(item.times_s)))
        for record in records
        if record.link
        for item in record.allreduce
        if item.times_s
    ]
    names = tuple(dict.fromkeys(row[0] for row in rows))
    if len(names) < LEAST_LINKS:
        raise LinksError(f"all-reduces over {len(names)} emulated links: must be {LEAST_LINKS} or more to learn from")
    design = np.array([_columns(parse(name), p, size) for name, p, size, _ in rows])
    times = np.array([row[-1] for row in rows])
    found = nonnegative.linear(design, times, times)
    fitted = design @ found
    residuals = np.log(times / fitted)
    rng, freedom = np.random.default_rng(0), max(1, len(times) - 4)
    wider = np.sqrt(len(times) / freedom)
    again = []
    for _ in range(DRAWS):
        drawn = fitted * np.exp(wider * rng.choice(residuals, len(times)))
        again.append(nonnegative.linear(design, drawn, drawn))
    return LinkLaw(
        (float(found[0]), float(found[1]), float(found[2]), float(found[3])),
        names,
        float(np.sqrt((residuals**2).sum() / freedom)),
        freedom,
        np.array(again).reshape(DRAWS, 4),
    )


def messages(law: LinkLaw, points: Sequence[PointSpec]) -> pd.DataFrame:
    """Predicted times of the points' blocking all-reduces: point_id, message_bytes, time_s."""
    rows = [
        {"point_id": point.point_id, "message_bytes": size}
        | {"time_s": Network(algorithm="gloo", inside=law.link(point.link)).allreduce_s(size, (point.world_size,))}
        for point in points
        for size in point.allreduce_bytes
    ]
    return pd.DataFrame(rows, columns=["point_id", "message_bytes", "time_s"])


def over(calibration: Calibration, law: LinkLaw, link: str) -> Calibration:
    """The calibrated machine whose ranks reach each other over an emulated link.

    gloo's own work on the cores, which slows backward, is the same as between ranks as they lie, but spread over the
    longer time that the bytes take. So is what exposed time deviates there, a smaller share of a longer time; what
    all-reduces over links deviate from the law joins it.
    """
    exposed, busy = calibration.scatter.exposed, _busy(calibration.constants, law.link(link))
    sd = float(np.hypot(busy * exposed.sd, law.residual_sd))
    scatter = replace(calibration.scatter, exposed=Scatter(sd=sd, freedom=max(exposed.freedom, law.freedom)))
    return replace(
        calibration,
        scatter=scatter,
        constants=_on(calibration.constants, law.link(link)),
        draws=tuple(
            _on(constants, law.link(link, law.draws[number % len(law.draws)]))
            for number, constants in enumerate(calibration.draws)
        ),
    )


def _on(constants: Constants, link: Link) -> Constants:
    return replace(
        constants,
        inside_latency_s=link.latency_s,
        inside_s_per_byte=1 / link.bytes_per_s,
        overlap_slowdown=_busy(constants, link) * constants.overlap_slowdown,
    )


def _busy(constants: Constants, link: Link) -> float:
    """The share of a byte's time over the link that it takes between ranks as they lie."""
    return min(1.0, (constants.inside_s_per_byte or 0.0) * link.bytes_per_s)


def _columns(link: EmulatedLink, p: int, message_bytes: int) -> list[float]:
    """What an all-reduce takes for each coefficient of 1."""
    steps = Network(algorithm="gloo", inside=Link(latency_s=1.0)).allreduce_s(message_bytes, (p,))
    moved = Network(algorithm="gloo", inside=Link(bytes_per_s=1.0)).allreduce_s(message_bytes, (p,))
    return [steps, steps * link.latency_s, moved, moved / link.bytes_per_s]
