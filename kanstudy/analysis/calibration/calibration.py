"""A calibration: constants of a machine fitted to the records of the experiment `calibration`, and how sure they are.

Uncertainty has three parts, kept apart: the constants' own (`draws`: refits to resampled residuals, Efron & Tibshirani
1993, section 9.4), what single settings deviate from the fit (`scatter`), and what a launch gives to all settings alike
(`launch`, known from two launches on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kanstudy.analysis.calibration import fitting, links, memory
from kanstudy.analysis.calibration.constants import Constants
from kanstudy.analysis.calibration.domain import HOW, Domain, domain_of
from kanstudy.analysis.calibration.fitting import Node
from kanstudy.analysis.calibration.links import Links
from kanstudy.analysis.calibration.readings import TOGETHER, read, step_blocks
from kanstudy.analysis.calibration.resampling import DRAWS, refits
from kanstudy.analysis.calibration.scatter import Scatter, Scatters, scatters_of
from kanstudy.analysis.calibration.spread import RankSpread, StepSpread, ranks_of, spread_of
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.network.network import Network
from kanstudy.analysis.nodes import layout
from kanstudy.analysis.results import surroundings
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.record import Record
from kanstudy.sizes import widths_text

LEAST_POINTS = 6
"""Of one rank alone: one more than the constants of its step."""
_DISTURBED = 0.5
"""Share of disturbed rounds above which a point is left out."""
_NODE_POINTS = 3
"""Of the ranks of a node: one more than the constants of DDP's own cost."""
_STREAMS = {"gloo": 2, "nccl": 1}


class CalibrationError(ValueError):
    """Records that calibrate nothing; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class FittedPoint:
    """A point of one rank alone: its time a step as measured and as fitted, s."""

    point_id: str
    layer_widths: str
    grid_size: int | None
    rows: int
    measured_s: float
    fitted_s: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A fitted machine, on which up to `node_ranks` ran at once: `constants`, the estimate, and `draws`, refits.

    `ranks`, `steps`, `scatter` and `launch` are what is random, `domain` what is covered; `points` are measured and
    fitted side by side, `notes` say what was not measured or not trusted.
    """

    profile: str
    source: str
    device_name: str
    backend: str
    threads_per_rank: int
    node_ranks: int
    launches: int
    rounds: int
    constants: Constants
    draws: tuple[Constants, ...]
    ranks: RankSpread
    steps: StepSpread
    scatter: Scatters
    launch: Scatter
    memory: memory.MemoryFit
    domain: Domain
    points: tuple[FittedPoint, ...]
    point_ids: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def machine(self) -> MachineModel:
        """The fitted machine, one node of it, without noise."""
        return self.constants.on(base_machine(self.device_name, self.backend, self.node_ranks, self.ranks))

    @property
    def table(self) -> pd.DataFrame:
        """A row a point of one rank alone: layer_widths, grid_size, rows, measured_s, fitted_s, residual (of the
        logarithm), point_id."""
        frame = pd.DataFrame([vars(point) for point in self.points])
        return frame.assign(residual=np.log(frame["measured_s"] / frame["fitted_s"]))


def base_machine(name: str, backend: str, node_ranks: int, ranks: RankSpread) -> MachineModel:
    """What is known of a machine before anything is fitted."""
    algorithm = backend if backend in ("gloo", "nccl") else "ring"
    return MachineModel(
        name=name,
        rank_slowness=ranks.slowness,
        ranks_per_node=node_ranks,
        streams=_STREAMS.get(backend, 1),
        network=Network(algorithm=algorithm, name=name, basis="measured"),
    )


def calibrate(records: Sequence[Record]) -> Calibration:
    """The calibration that records of one machine give.

    Raises `CalibrationError` where they do not suffice, `NotCovered` where they are of several kinds of model.
    """
    usable = [record for record in records if record.status == "ok" and not record.oversubscribed]
    _check_one_machine(usable)
    of_one = [record for record in usable if record.world_size == 1 and "serial_global" in record.arms]
    of_node = [record for record in usable if "ddp_noop" in record.arms]
    if len(of_one) < LEAST_POINTS:
        raise CalibrationError(
            f"{len(of_one)} complete points of one rank alone: a calibration needs at least {LEAST_POINTS}; measure:"
            f" {HOW}"
        )
    alone, node = [read(r) for r in _calm(of_one, LEAST_POINTS)], [read(r) for r in _calm(of_node, _NODE_POINTS)]
    node_ranks = max((max(layout(reading.record)) for reading in node), default=1)
    ranks = ranks_of([r.rank_logs for r in node if r.rank_logs is not None and r.point.placement == "packed"])
    first = usable[0]
    machine = base_machine(first.device_name or "unknown", first.backend, node_ranks, ranks)
    found = links.fit(of_node, machine.network, DRAWS)
    machine = replace(machine, network=found.network)
    observed, setup = fitting.observe(alone, node, ranks), fitting.node_of(node, ranks, machine)
    constants = fitting.estimate(observed, setup)
    fitted = fitting.fitted(observed, setup, constants)
    draws = refits(observed, fitted, setup, constants, found, np.random.default_rng(0))
    block_sd = float(np.sqrt(np.mean([reading.block_sd**2 for reading in node]))) if node else 0.0
    scatter, launch = scatters_of(alone, node, observed, fitted, setup.noop_s, constants.curve.n_costs)
    return Calibration(
        profile=first.profile,
        source=first.source,
        device_name=machine.name,
        backend=first.backend,
        threads_per_rank=first.threads_per_rank,
        node_ranks=node_ranks,
        launches=len(alone[0].log_times),
        rounds=min(reading.rounds for reading in [*alone, *node]),
        constants=constants.with_links(found.network, found.tiers),
        draws=draws,
        ranks=ranks,
        steps=spread_of(step_blocks([r.record for r in node], TOGETHER if node_ranks > 1 else ("ddp_noop",)), block_sd),
        scatter=scatter,
        launch=launch,
        memory=memory.fit([reading.record for reading in [*alone, *node]], [r.point for r in [*alone, *node]]),
        domain=domain_of([reading.point for reading in alone]),
        points=tuple(
            FittedPoint(
                point_id=reading.record.point_id,
                layer_widths=widths_text(reading.point.layer_widths),
                grid_size=reading.point.grid_size,
                rows=reading.point.global_batch_size,
                measured_s=float(measured),
                fitted_s=float(curve),
            )
            for reading, measured, curve in zip(alone, observed.steps.time_s, fitted.steps.time_s, strict=True)
        ),
        point_ids=tuple(reading.record.point_id for reading in [*alone, *node]),
        notes=_notes(records, usable, len(alone) + len(node), node_ranks, found, setup),
    )


def _check_one_machine(records: Sequence[Record]) -> None:
    for name in ("source", "device_name", "backend", "threads_per_rank"):
        found = sorted({str(getattr(record, name)) for record in records})
        if len(found) > 1:
            raise CalibrationError(f"{name} of the calibration's records is {' and '.join(found)}: must be one")
    if len({surroundings(record) for record in records}) > 1:
        raise CalibrationError("the calibration's records are of other nodes or versions: measure them again as one")
    if len({len({item.launch for item in arm.rounds}) for r in records for arm in r.arms.values()}) > 1:
        raise CalibrationError("the calibration's points have unequal numbers of launches: complete them, the same way")


def _calm(records: Sequence[Record], least: int) -> Sequence[Record]:
    """Those of which at least half of the rounds were not disturbed, which alone are read; all, if else too few."""
    calm = [record for record in records if not _is_disturbed(record)]
    return calm if len(calm) >= least else records


def _is_disturbed(record: Record) -> bool:
    found = blocks(record)
    return found.dropped > _DISTURBED * len(found.disturbed)


def _notes(
    records: Sequence[Record], usable: Sequence[Record], n_fitted: int, node_ranks: int, found: Links, node: Node
) -> tuple[str, ...]:
    notes = []
    if left_out := len(records) - len(usable):
        notes.append(f"{left_out} points are not complete or have more ranks than cores, and are not in it")
    if disturbed := sum(map(_is_disturbed, usable)):
        used = disturbed - (len(usable) - n_fitted)
        fate = f"{used} of them used, as too few would be left" if used else "left out"
        notes.append(f"{disturbed} of {len(usable)} points were disturbed in more than half of their rounds: {fate}")
    if node_ranks == 1:
        notes.append("one rank alone: contention is not known, and taken as none")
    if found.note:
        notes.append(found.note)
    if node_ranks > 1 and not any(len(gradient_buckets(point)) > 1 for point in node.points):
        notes.append("no point has several gradient buckets: that backward slows down while they travel is not known")
    return tuple(notes)
