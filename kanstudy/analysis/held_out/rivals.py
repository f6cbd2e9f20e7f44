"""All that is predicted before held-out settings are measured: by the calibrated machine, and by what it must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import FACTORS
from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.calibration.readings import read
from kanstudy.analysis.held_out.emulated import LinkLaw, over
from kanstudy.analysis.machine_model.expected import Expected, expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.prediction.predict import predict
from kanstudy.record import Record
from kanstudy.spec import PointSpec

OWN, WRONG = "kanstudy", "latency x10"
RIVALS = ("ideal", "no communication", "Amdahl")
QUANTITIES = ("step_time_s", "parallel_efficiency", "exposed_s", *FACTORS)
WRONG_TIMES = 10.0
"""How many times too large the latency of the deliberately wrong model is."""


def predictions(
    calibration: Calibration, records: Sequence[Record], points: Sequence[PointSpec], law: LinkLaw | None
) -> pd.DataFrame:
    """A row a point and predictor: point_id, predictor, and each of `QUANTITIES`; of the own model also `_low` and
    `_high`, its band for a new launch.

    - ideal: one rank's time for the global batch, divided by the ranks;
    - no communication: the calibrated machine whose messages take no time;
    - Amdahl: a serial share of one rank's step, the mean of what the calibration's own DDP steps show; as exposed
      communication counts all that it adds to the ideal;
    - latency x10: the calibrated machine, its network's latency ten times what was found.

    `records` are those of the calibration. Raises `ValueError` for a point over a link without a `law`.
    """
    frames = []
    serial_share = amdahl_share(calibration, records)
    for link in dict.fromkeys(point.link for point in points):
        own = [point for point in points if point.link == link]
        if link and law is None:
            raise ValueError(f"link = {link!r}: must be empty without a law of links")
        there = over(calibration, law, link) if link and law is not None else calibration
        frames.append(predict(there, own).assign(point_id=[point.point_id for point in own], predictor=OWN))
        rows = [row for point in own for row in _rivals(point, there.machine, serial_share)]
        frames.append(pd.DataFrame(rows))
    found = pd.concat(frames, ignore_index=True)
    banded = [f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")]
    return found.reindex(columns=["point_id", "predictor", *banded])


def amdahl_share(calibration: Calibration, records: Sequence[Record]) -> float:
    """The serial share f of T(p) = T(1)·(f + (1 - f)/p) (Amdahl 1967), the mean over the calibration's DDP steps of
    several ranks; T(1) is one rank's step with the global batch, as calibrated. 0 at least."""
    shares = []
    for record in records:
        if record.world_size == 1 or record.point_id not in calibration.point_ids or "ddp" not in record.arms:
            continue
        reading, p = read(record), record.world_size
        alone = expected(reading.point, calibration.machine).times_s["serial_global"]
        shares.append((p * reading.time_s("ddp") / alone - 1) / (p - 1))
    return max(0.0, float(np.mean(shares))) if shares else 0.0


def _rivals(point: PointSpec, machine: MachineModel, serial_share: float) -> list[dict]:
    p = point.world_size
    silent = replace(machine, bucket_s=0.0, bucket_s_per_byte=0.0, overlap_slowdown=0.0, network=Network())
    network = machine.network
    far = replace(network, inside=_slower(network.inside), between=_slower(network.between))
    alone_s = expected(point, machine).times_s["serial_global"]
    added_s = serial_share * alone_s * (1 - 1 / p)
    nothing = dict.fromkeys(FACTORS, 1.0)
    return [
        _row(point, WRONG, expected(point, replace(machine, network=far))),
        _row(point, "no communication", expected(point, silent)),
        _line(point, "ideal", alone_s / p, 1.0, 0.0) | nothing,
        _line(point, "Amdahl", alone_s / p + added_s, alone_s / p / (alone_s / p + added_s), added_s),
    ]


def _slower(link: Link) -> Link:
    return replace(link, latency_s=WRONG_TIMES * link.latency_s)


def _row(point: PointSpec, predictor: str, found: Expected) -> dict:
    return _line(point, predictor, found.step_time_s, found.efficiency, found.exposed_s) | found.factors


def _line(point: PointSpec, predictor: str, step_s: float, efficiency: float, exposed_s: float) -> dict:
    values = {"step_time_s": step_s, "parallel_efficiency": efficiency, "exposed_s": exposed_s}
    return {"point_id": point.point_id, "predictor": predictor} | values
