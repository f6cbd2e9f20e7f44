"""From a calibration to more ranks: step time, efficiency, its factors, exposed communication, memory, with bands.

The chain of times is that of the attribution (`kanstudy.analysis.attribution.chain`), so that the factors multiply to
the efficiency exactly. Bands go from the 2.5 to the 97.5 % quantile of draws from all that is uncertain: constants,
settings beside the fit, the spread of ranks and steps, the launch. With no more ranks than were calibrated, over links
that were, those are 95 % intervals. Else they are *scenario ranges*, which have no level: over assumed links they hold
each of their constants from half to twice what is stated (`site`), and beyond the calibrated ranks they hold only if
its laws go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import FACTORS, links
from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.calibration.scatter import Scatter
from kanstudy.analysis.calibration.spread import Waits
from kanstudy.analysis.machine_model import overlap
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import buffer_bytes, rows
from kanstudy.analysis.prediction.site import Site, check, links_text, machines
from kanstudy.analysis.prediction.widening import Widening
from kanstudy.analysis.series import told_apart
from kanstudy.analysis.statistics.intervals import LEVEL
from kanstudy.sizes import widths_text
from kanstudy.spec import ARMS, PointSpec

NEW_LAUNCH = "prediction interval for a new launch"
ONE_LAUNCH = "prediction interval, from one launch"
SCENARIO = "scenario range"
_COUNT = 400
_TELLING = 10.0
"""How many times the low end of a step's band may be its high end; a wider one predicts nothing."""
_SHORTEST_BLOCK = 4
_BANDED = ("step_time_s", "parallel_efficiency", "speedup", "throughput", "exposed_s", "overhead", *FACTORS)


def predict(
    calibration: Calibration,
    points: Iterable[PointSpec],
    site: Site | None = None,
    widening: Widening | None = None,
) -> pd.DataFrame:
    """A row a point: its `series`, what stays the same over world sizes, and what else it is, then `_BANDED` with
    `_low` and `_high`; memory_bytes, fits; interval, its level (NaN: none) and what it `holds`, in words; network,
    source.

    Without a `site` the ranks lie as the calibration's. A `widening` comes from held-out settings.
    Columns of factors are NaN where they do not apply (batch in weak scaling). Raises `NotCovered`, `TooFewSteps` or
    `PredictionError` where the calibration does not carry a point.
    """
    site = site or Site(ranks_per_node=calibration.node_ranks)
    found, points = machines(calibration, site), list(points)
    with np.errstate(all="ignore"):  # of a hopeless calibration a band may reach anywhere
        rows = [_row(calibration, point, site, found, widening or Widening()) for point in points]
    return _with_series(pd.DataFrame(rows), [point.global_batch_at(1) for point in points])


def tells_nothing(frame: pd.DataFrame) -> str:
    """What to do where the step's band is so wide that nothing is predicted; empty where it is not."""
    is_wide = ~(frame["step_time_s_high"] <= _TELLING * frame["step_time_s_low"])
    if not is_wide.any():
        return ""
    sizes = ", ".join(str(size) for size in sorted(set(frame.loc[is_wide, "world_size"])))
    return (
        f"on {sizes} rank(s) a band spans more than {_TELLING:g} times its low end, which predicts nothing: the"
        " calibration has too few rounds, or other programs disturbed it; measure it with more, on machines at rest"
    )


def _with_series(frame: pd.DataFrame, series_batch: Sequence[int]) -> pd.DataFrame:
    """With `series`: scaling, model, widths, and what else tells curves apart, such as the batch that stays."""
    if frame.empty:
        return frame
    labels = frame["scaling"] + " scaling, " + frame["model"].str.upper() + " " + frame["layer_widths"]
    keys = frame[["placement", "grid_size", "bucket_cap_mb"]].assign(series_batch=series_batch, label=labels)
    return frame.assign(series=told_apart(labels, keys))


def _row(
    calibration: Calibration,
    point: PointSpec,
    site: Site,
    found: Sequence[MachineModel],
    widening: Widening,
) -> dict[str, object]:
    check(calibration, point, site)
    point = replace(point, arms=ARMS, operator=calibration.domain.operator)
    layout = found[0].layout(point)
    central = _chain(calibration, point, found[:1], None)
    drawn = _chain(calibration, point, found[1:], np.random.default_rng(0))
    row: dict[str, object] = {
        "scaling": point.scaling,
        "model": point.model,
        "layer_widths": widths_text(point.layer_widths),
        "grid_size": point.grid_size,
        "bucket_cap_mb": point.bucket_cap_mb,
        "placement": point.placement,
        "nodes": len(layout),
        "world_size": point.world_size,
        "local_batch_size": point.local_batch_size,
        "global_batch_size": point.global_batch_size,
    }
    values, draws = _quantities(point, central), _quantities(point, drawn)
    for name in _BANDED:
        row |= _band(name, float(values[name][0]), draws[name], widening.factor(name))
    memory = calibration.memory.peak_bytes(point)
    return row | {
        "memory_bytes": memory,
        "fits": None if site.memory_bytes is None else memory <= site.memory_bytes,
        **_interval(calibration, site, layout, widening),
        "network": links_text(calibration, site, layout),
        "device_name": calibration.device_name,
        "calibration_source": calibration.source,
        "source": "predicted",
    }


def _interval(calibration: Calibration, site: Site, layout: Sequence[int], widening: Widening) -> dict[str, object]:
    """The kind of the bands, their level, and what they hold."""
    holds = f"{SCENARIO} (what the calibration is uncertain by"
    if site.assumes(layout):
        holds += ", and each assumed constant of the links from half to twice its value)"
    elif sum(layout) > calibration.node_ranks:
        holds += f", if what up to {calibration.node_ranks} ranks showed goes on beyond)"
    else:
        known = ONE_LAUNCH if calibration.launches == 1 and not widening.settings else NEW_LAUNCH
        return {"interval": known, "level": widening.level, "holds": f"{widening.level:.0%} {known}"}
    return {"interval": SCENARIO, "level": np.nan, "holds": holds}


def _chain(
    calibration: Calibration, point: PointSpec, machines: Sequence[MachineModel], rng: np.random.Generator | None
) -> dict[str, np.ndarray]:
    """The columns of the chain, s a step (draws,); without `rng` the one without all scatter."""
    count = 1 if rng is None else _COUNT
    which = np.arange(count) % len(machines)

    def of(values: Sequence[float] | Sequence[tuple[float, float, float]]) -> np.ndarray:
        return np.array(values)[which]

    def scattered(part: Scatter) -> np.ndarray:
        return np.zeros(count) if rng is None else part.draws(count, rng)

    alone = of([sum(machine.phases_s(point, point.global_batch_size)) for machine in machines])
    phases = of([machine.phases_s(point, point.local_batch_size) for machine in machines])
    crowding = of([machine.crowding(point) for machine in machines])
    own_s = of([machine.ddp_own_s(point) for machine in machines])
    parts = calibration.scatter
    local = np.exp(scattered(parts.compute))
    same_rows = point.world_size == 1 or point.scaling == "weak"
    baseline = local if same_rows else np.exp(scattered(parts.compute))
    if max(machines[0].layout(point)) > 1:
        crowding = crowding * np.exp(scattered(parts.contention))
    alone_s, local_s = alone * baseline, phases.sum(axis=1) * local
    together_s = crowding * local_s
    noop_s = (together_s + own_s) * np.exp(scattered(parts.ddp))
    waits = _waits(calibration, point, float(np.median(noop_s)), rng)
    backward_s = (crowding * phases[:, 1] * local + own_s) * waits.every
    exposed_s = _exposed_s(point, machines, which, backward_s) * np.exp(scattered(parts.exposed))
    arm = {name: np.exp(scattered(parts.arm)) for name in ARMS}
    columns = {
        "serial_global": waits.mean * alone_s * arm["serial_global"],
        "serial_local_mean": waits.mean * local_s * arm["serial_local"],
        "serial_local": waits.alone * local_s * arm["serial_local"],
        "concurrent": waits.block * together_s * arm["concurrent"],
        "ddp_noop": waits.block * noop_s * arm["ddp_noop"],
        "ddp_noop_every_step": waits.every * noop_s * arm["ddp_noop"],
        "ddp": (waits.every * noop_s + exposed_s) * arm["ddp"],
    }
    launch = np.exp(scattered(calibration.launch))
    return {name: launch * times for name, times in columns.items()}


def _waits(calibration: Calibration, point: PointSpec, step_s: float, rng: np.random.Generator | None) -> Waits:
    """How ranks wait for each other, over the time of the nominal device; without `rng` as is to be expected."""
    p, steps = point.world_size, max(_SHORTEST_BLOCK, round(point.block_s / step_s))
    if rng is None:
        fixed = np.random.default_rng(0)
        return calibration.steps.waits(calibration.ranks.draws(p, 60, fixed, is_certain=True), steps, fixed).expected
    slowness = calibration.ranks.draws(p, min(_COUNT, max(40, 40_000 // p)), rng)
    return calibration.steps.waits(slowness, steps, rng).repeated(_COUNT)


def _exposed_s(
    point: PointSpec, machines: Sequence[MachineModel], which: np.ndarray, backward_s: np.ndarray
) -> np.ndarray:
    """What communication outlasts backward, s (draws,)."""
    times = [machine.bucket_times_s(point) for machine in machines]
    delays, transfers = (np.array(part)[which] for part in zip(*times, strict=True))
    slowdown = np.array([[machine.overlap_slowdown] for machine in machines])[which]
    exposed = overlap.exposed_s(
        backward_s, machines[0].ready_shares(point), delays, transfers, machines[0].streams, slowdown
    )
    if not point.sync_buffers:
        return exposed
    layout = machines[0].layout(point)
    broadcast = [machine.network.broadcast_s(buffer_bytes(point), layout) for machine in machines]
    return exposed + np.array(broadcast)[which]


def _quantities(point: PointSpec, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`_BANDED` of the columns, each (draws,)."""
    ddp_s, scale = columns["ddp"], 1 / point.world_size if point.scaling == "strong" else 1.0
    pairs = links(point)
    factors = {name: columns[before] / columns[after] for name, (before, after) in pairs.items()}
    if "batch" in factors:
        factors["batch"] = scale * factors["batch"]
    baseline, _ = next(iter(pairs.values()))
    efficiency = scale * columns[baseline] / ddp_s
    return {name: factors.get(name, np.full_like(ddp_s, np.nan)) for name in FACTORS} | {
        "step_time_s": ddp_s,
        "parallel_efficiency": efficiency,
        "speedup": efficiency * point.world_size,
        "throughput": rows(point, "ddp") * point.world_size / ddp_s,
        "exposed_s": ddp_s - columns["ddp_noop_every_step"],
        "overhead": 1 - columns["ddp_noop"] / ddp_s,
    }


def _band(name: str, value: float, draws: np.ndarray, wider: float) -> dict[str, float]:
    """The value with the range of its draws, which are spread about their own median."""
    if np.isnan(value):
        return {name: np.nan, f"{name}_low": np.nan, f"{name}_high": np.nan}
    low, middle, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    if name in ("exposed_s", "overhead"):  # differences, which may be negative
        ends = [value + wider * (end - middle) for end in (low, high)]
    else:
        ends = [value * float(np.exp(wider * np.log(end / middle))) for end in (low, high)]
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
