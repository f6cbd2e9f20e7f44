"""A calibrated machine to draw records from: its fitted constants with the noise that its steps and blocks had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.prediction.site import Site, check, machines
from kanstudy.spec import PointSpec


def machine_of(calibration: Calibration, point: PointSpec, site: Site) -> MachineModel:
    """The machine for a point. Raises `NotCovered`, `TooFewSteps` or `PredictionError` where the calibration does not
    carry it.

    Steps are log-normal with the variance of the calibrated ones that ranks do not have in common; what they have in
    common nobody waits for, and it is left out. Blocks and launches vary as the calibrated ones.
    """
    check(calibration, point, site)
    steps = calibration.steps
    of_steps = float(np.var(np.log(steps.ratios))) if steps.ratios else 0.0
    noise = Noise(
        step_sd=float(np.sqrt((1 - steps.correlated_share) * of_steps)),
        block_sd=steps.block_sd,
        launch_sd=calibration.launch.sd,
    )
    found = machines(calibration, site)[0]
    name = f"{found.name}, calibrated"
    if site.network is not None:
        name += f", on the network {site.network.name}"
    return replace(found, name=name, noise=noise, memory_bytes=site.memory_bytes)
