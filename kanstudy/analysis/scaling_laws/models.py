"""The laws that scaling curves and all-reduce times are fitted with.

- Amdahl (1967), strong scaling:            S(p) = γ / (s + (1 - s)/p)
- Gustafson (1988), weak scaling:           S(p) = γ (s + (1 - s) p)
- Universal Scalability Law (Gunther 2007): S(p) = γ p / (1 + σ (p - 1) + κ p (p - 1)), either
- Hockney's α-β of a message of n bytes:    t(n) = α + n/B

γ is the speed-up of one rank, 1 but for noise and for what DDP alone costs: held to 1, the noise of the one point of
one rank would be every point's, and DDP's own cost would be read as a serial fraction (Gunther's third coefficient).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Parameter:
    """A parameter of a law: its column's name, its heading with the unit, and the values that mean something, `least`
    and `most` themselves left out. A `scale` is positive whatever the data, and is fitted as its logarithm."""

    name: str
    heading: str
    least: float = 0.0
    most: float = np.inf
    scale: bool = False

    def says(self, value: float) -> str:
        """Why a value means nothing; empty where it does."""
        if self.least < value < self.most:
            return ""
        limits = f"above {self.least:g}" if np.isinf(self.most) else f"between {self.least:g} and {self.most:g}"
        return f"{self.heading} {value:.3g}: must lie {limits}"


@dataclass(frozen=True)
class Model:
    """A law y = curve(parameters, x), positive throughout; `start` gives parameters near those of data (n,), (n,);
    `places` says what x are."""

    name: str
    formula: str
    places: str
    parameters: tuple[Parameter, ...]
    curve: Callable[[np.ndarray, np.ndarray], np.ndarray]
    start: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _least_relative(design: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients of design (n, k) with the least sum of squared relative deviations from y (n,)."""
    found: np.ndarray = np.linalg.lstsq(design / y[:, None], np.ones(len(y)), rcond=None)[0]
    return found


def _amdahl(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    scale, serial = values
    return scale / (serial + (1 - serial) / p)


def _start_amdahl(p: np.ndarray, speedup: np.ndarray) -> np.ndarray:
    one, serial = _least_relative(np.stack([1 / p, 1 - 1 / p], axis=1), 1 / speedup)
    return np.array([1 / one, serial / one])


def _gustafson(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    scale, serial = values
    return scale * (serial + (1 - serial) * p)


def _start_gustafson(p: np.ndarray, speedup: np.ndarray) -> np.ndarray:
    one, serial = _least_relative(np.stack([p, 1 - p], axis=1), speedup)
    return np.array([one, serial / one])


def _usl(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    scale, contention, coherency = values
    return scale * p / (1 + contention * (p - 1) + coherency * p * (p - 1))


def _start_usl(p: np.ndarray, speedup: np.ndarray) -> np.ndarray:
    one, *rest = _least_relative(np.stack([1 / p, 1 - 1 / p, p - 1], axis=1), 1 / speedup)
    return np.array([1 / one, *np.array(rest) / one])


def _alpha_beta(values: np.ndarray, message_bytes: np.ndarray) -> np.ndarray:
    latency, bandwidth = values
    return latency + message_bytes / bandwidth


def _start_alpha_beta(message_bytes: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    latency, per_byte = _least_relative(np.stack([np.ones(len(time_s)), message_bytes], axis=1), time_s)
    return np.array([latency, 1 / per_byte])


_SCALE = Parameter("scale", "γ", scale=True)
_SERIAL = Parameter("serial_fraction", "serial fraction s", most=1.0)

AMDAHL = Model("Amdahl", "S = γ / (s + (1 - s)/p)", "world size", (_SCALE, _SERIAL), _amdahl, _start_amdahl)
GUSTAFSON = Model("Gustafson", "S = γ (s + (1 - s) p)", "world size", (_SCALE, _SERIAL), _gustafson, _start_gustafson)
USL = Model(
    "USL",
    "S = γ p / (1 + σ (p - 1) + κ p (p - 1))",
    "world size",
    (_SCALE, Parameter("contention", "contention σ", most=1.0), Parameter("coherency", "coherency κ")),
    _usl,
    _start_usl,
)
ALPHA_BETA = Model(
    "α-β",
    "t = α + n/B",
    "message size",
    (
        Parameter("latency_s", "latency α (s)", scale=True),
        Parameter("bandwidth_bytes_per_s", "bandwidth B (bytes/s)", scale=True),
    ),
    _alpha_beta,
    _start_alpha_beta,
)
