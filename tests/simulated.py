"""Records of a machine that is known, and the truth behind them.

`simulate` draws what the worker would have written; `truth` is what the attribution of infinitely many undisturbed
rounds of the same blocks would find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kanstudy.analysis import metrics
from kanstudy.analysis.machine_model.expected import Expected, of_times
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.simulation.simulate import draw, record_of
from kanstudy.analysis.statistics.blocks import CHAIN
from kanstudy.analysis.statistics.paired_arms import WITHIN
from kanstudy.record import Record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import ARMS, PointSpec

TRUTH_ROUNDS = 20_000


def one_node(latency_s: float = 0.0, bytes_per_s: float = math.inf) -> Network:
    """A network of one node only, with a ring on it."""
    return Network(inside=Link(latency_s=latency_s, bytes_per_s=bytes_per_s))


def simulate(
    points: Sequence[PointSpec], machine: MachineModel, rounds: int, launches: int = 1, seed: int = 0
) -> list[Record]:
    """A record of each point, `rounds` complete rounds in each of `launches` launches, drawn with `seed`.

    A point that does not fit the machine's memory has a record of status `oom`.
    """
    return [record_of(point, machine, _run(point, rounds, launches, seed)) for point in points]


def truth(point: PointSpec, machine: MachineModel, rounds: int = TRUTH_ROUNDS) -> Expected:
    """The chain of medians at a point, and the factors and the efficiency that are its ratios.

    Closed form on a machine without noise; else a large deterministic draw of `rounds` undisturbed rounds (error
    about 1.3 sd / √rounds, where sd is that of a round's logarithm). The blocks are as long as the point's, since the
    slowest of several means over few steps is slower than over many. The baseline is the device of mean slowness.
    """
    noise = replace(machine.noise, burst_share=0.0, drift_per_round=0.0, level_shift=0.0, cold_steps=0)
    calm, rng = replace(machine, noise=noise), np.random.default_rng(0)
    count, chunk = (1 if noise == Noise(cold_factor=noise.cold_factor) else rounds), 500
    # launches of one round: what all rounds of a launch share is random here, too
    parts = [chain_times(point, calm, min(chunk, count - done), 1, rng) for done in range(0, count, chunk)]
    columns = {name: np.concatenate([part[name] for part in parts])[:, 0] for name in parts[0]}
    if "serial_global" in columns:
        slowness = machine.slowness(point.world_size)
        columns["serial_global"] = columns["serial_global"] * (slowness.mean() / slowness[0])
    logs = np.log(np.stack(list(columns.values()), axis=-1))
    names = list(columns)
    within = {names.index(column): names.index(arm) for column, arm in WITHIN.items() if column in names}
    medians = metrics.arm_log_medians(logs, [i for i, name in enumerate(names) if name in ARMS], within)
    level = np.median(logs[:, -1]) - medians[-1]
    times = dict(zip(columns, np.exp(medians + level).tolist(), strict=True))
    return of_times(point, times)


def chain_times(
    point: PointSpec, machine: MachineModel, launches: int, rounds: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The columns of the chain (launches, rounds), s a step, as `blocks` finds them in the records of these draws."""
    drawn = draw(point, machine, launches, rounds, rng)
    columns = {}
    for arm, found in drawn.items():
        means = found.times_s.mean(axis=-1)
        columns[arm] = means.max(axis=-1)
        if arm == "serial_local":
            columns["serial_local_mean"] = means.mean(axis=-1)
        if arm == "ddp_noop":
            columns["ddp_noop_every_step"] = found.times_s.max(axis=-2).mean(axis=-1)
    return {name: columns[name] for name in CHAIN if name in columns}


def _run(point: PointSpec, rounds: int, launches: int, seed: int) -> RunSpec:
    return RunSpec(
        profile="simulated",
        experiment=point.experiment,
        points=(point,),
        data_files={data_key(point): ""},
        results_dir="",
        progress_file="",
        rounds={point.point_id: rounds},
        launches=launches,
        seed=seed,
    )
