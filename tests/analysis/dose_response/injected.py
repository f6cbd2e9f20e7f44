"""Records with injections, made from a simulated machine: the truth is what `on_paper` adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from simulated import one_node, simulate

from kanstudy.analysis.dose_response.on_paper import on_paper
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.injection import OWN_FACTOR, Injection
from kanstudy.record import Record
from kanstudy.spec import PointSpec
from kanstudy.study import dose_response as doses

DOSES = (0.1, 0.4)
MACHINE = MachineModel(
    launch_s=3e-4,
    contention=0.03,
    ddp_s=2e-4,
    network=one_node(1e-4, 1e9),
    rank_slowness=(1.0, 1.02),
    noise=Noise(step_sd=0.02, block_sd=0.004, drift_per_round=0.002),
)


def plain_point() -> PointSpec:
    return doses.plan(("jitter",)).points[0]


def simulated(
    causes: Sequence[str] = tuple(OWN_FACTOR), machine: MachineModel = MACHINE, rounds: int = 16, launches: int = 1
) -> list[Record]:
    """A plain record, and one of a draw of its own for every cause and dose."""
    point = plain_point()
    step_s = sum(machine.phases_s(point, point.local_batch_size))
    (plain,) = simulate([point], machine, rounds, launches)
    records = [plain]
    for cause in causes:
        for dose in DOSES:
            records.append(injected(point, machine, Injection(cause, dose), step_s, rounds, launches))
    return records


def injected(
    point: PointSpec, machine: MachineModel, injection: Injection, step_s: float, rounds: int, launches: int
) -> Record:
    """A draw of the point with an injection: added to its steps, and to its data wait where it belongs there."""
    named = dataclasses.replace(point, injection=str(injection))
    (drawn,) = simulate([named], machine, rounds, launches)
    record = on_paper(drawn, injection, step_s)
    record.injection_step_s = step_s
    if OWN_FACTOR[injection.cause] is None:
        waits = record.arms["ddp"].data_wait_s or []
        record.arms["ddp"].data_wait_s = [[wait + injection.dose * step_s for wait in steps] for steps in waits]
    return record
