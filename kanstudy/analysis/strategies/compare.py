"""Strategies side by side on one machine: time of a step, what is sent, memory, and where each stops fitting.

All times are those of the machine model without its noise, and predicted. Kahira et al. 2021 ("An Oracle for Guiding
Large-Scale Model/Hybrid Parallel Training of Convolutional Neural Networks") compare strategies of CNNs in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from kanstudy.analysis.machine_model.memory import peak_memory_bytes
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import layer_bytes, word_bytes
from kanstudy.analysis.strategies.messages import COLLECTIVES, Message, step_messages, stepped_bytes
from kanstudy.analysis.strategies.placement import Group, replica_groups, slowest_s, tensor_groups
from kanstudy.analysis.strategies.strategy import Held, Strategy, held, obstacle, strategies
from kanstudy.analysis.tables.layouts import SCALE, Column
from kanstudy.sizes import whole_number
from kanstudy.spec import PointSpec

STRATEGIES = {
    "strategy": Column("strategy"),
    "world_size": SCALE["world_size"],
    "tensor_ranks": Column("of them hold a model together"),
    "rank": Column("place", 1, 0),
    "step_time_s": Column("step (ms)", 1e3, 3),
    "compute_s": Column("computation (ms)", 1e3, 3),
    "exposed_s": Column("exposed communication (ms)", 1e3, 3),
    "parallel_efficiency": Column("parallel efficiency", digits=3),
    **{f"{name}_bytes": Column(f"{name.replace('_', '-')} (MiB)", 1 / 2**20, 2) for name in COLLECTIVES},
    "sent_bytes": Column("sent a rank (MiB)", 1 / 2**20, 2),
    "memory_bytes": Column("memory a rank (MiB)", 1 / 2**20, 1),
    "fits": Column("fits"),
    "reason": Column("note"),
    "source": Column("source"),
}
LIMITS = {
    "strategy": Column("strategy"),
    "fits_from": Column("fits from (ranks)", 1, 0),
    "fits_up_to": Column("up to", 1, 0),
    "reason": Column("note"),
    "source": Column("source"),
}


def compare(point: PointSpec, machine: MachineModel, world_sizes: Sequence[int]) -> pd.DataFrame:
    """Every strategy at every world size, a row each.

    All train the same rows at a world size: `point`'s global batch where it scales strongly, its local batch times the
    ranks where weakly. Columns, beside those that name the strategy:

    - `compute_s`: the slowest rank's forward, backward and optimizer; `exposed_s`: what communication adds;
      `step_time_s`: both; `communication_s`: all messages, one after another, hidden ones too;
    - `parallel_efficiency` against one rank, on which the same work is taken to fit; `throughput` of all ranks, rows/s;
    - `<collective>_bytes`: what a rank hands to torch's collectives in a step; `sent_bytes`: what it sends, and
      receives, of that over a ring;
    - `memory_bytes` of the fullest rank; `fits`, and if not the `reason`; `rank` among those that fit at a world size,
      1 for the shortest step.

    Raises `ValueError` unless the model is a KAN and world sizes are whole numbers >= 1.
    """
    if point.model != "kan":
        raise ValueError(f"model = {point.model!r}: must be kan, whose layers the strategies split")
    sizes = [whole_number("world_sizes", size, 1) for size in dict.fromkeys(world_sizes)]
    if not sizes:
        raise ValueError("world_sizes is empty: must be whole numbers >= 1")
    frame = pd.DataFrame([_row(point, machine, strategy, size) for size in sizes for strategy in strategies(size)])
    frame["rank"] = frame["step_time_s"].where(frame["fits"]).groupby(frame["world_size"]).rank(method="min")
    return frame


def fastest(comparison: pd.DataFrame) -> pd.DataFrame:
    """Of each strategy at each world size one row: the hybrid with the shortest step that fits; where none does,
    the one that needs least memory."""
    ordered = comparison.sort_values(["fits", "rank", "memory_bytes"], ascending=[False, True, True], kind="stable")
    return ordered.drop_duplicates(["strategy", "world_size"]).sort_index()


def limits(comparison: pd.DataFrame) -> pd.DataFrame:
    """Of each strategy the smallest and the largest world size asked for at which it fits, blank where there is none,
    and why not at the next smaller and larger one, nor at those between."""
    rows = []
    for strategy, found in fastest(comparison).groupby("strategy", sort=False):
        found = found.sort_values("world_size", ignore_index=True)
        fitting = found.index[found["fits"]]
        near = found.iloc[max(0, fitting[0] - 1) : fitting[-1] + 2] if len(fitting) else found
        near = near[(near["reason"] != "") & ~near["reason"].str.partition(":")[0].duplicated()]  # one of each kind
        reasons = ("at " + near["world_size"].astype(str) + ", " + near["reason"]).tolist()
        rows.append(
            {
                "strategy": strategy,
                "fits_from": found["world_size"][fitting].min(),
                "fits_up_to": found["world_size"][fitting].max(),
                "reason": "; ".join(reasons),
                "source": "predicted",
            }
        )
    return pd.DataFrame(rows)


def _row(point: PointSpec, machine: MachineModel, strategy: Strategy, world_size: int) -> dict[str, object]:
    batch = point.global_batch_at(world_size)
    row: dict[str, object] = {
        "strategy": strategy.name(world_size),
        "world_size": world_size,
        "tensor_ranks": strategy.tensor_ranks,
        "replicas": world_size / strategy.tensor_ranks,
        "global_batch_size": batch,
        "source": "predicted",
        "machine": machine.name,
        "network_basis": machine.network.basis,
        "memory_limit_bytes": np.nan if machine.memory_bytes is None else machine.memory_bytes,
        "fits": False,
        "reason": obstacle(point, strategy, world_size, batch),
    }
    if row["reason"]:
        return row
    part = held(point, strategy, world_size, batch)
    needed = memory_bytes(part, strategy)
    row |= {"memory_bytes": needed, **_sent(part, strategy), **_times(point, part, strategy, machine)}
    if machine.memory_bytes is not None and needed > machine.memory_bytes:
        return row | {"reason": f"memory: {needed / 2**30:.3g} of {machine.memory_bytes / 2**30:.3g} GiB"}
    return row | {"fits": True}


def memory_bytes(part: Held, strategy: Strategy) -> int:
    """The most bytes that the rank with the largest slices holds in a step: the machine model's for what it trains, the
    optimizer's state of its share alone (Rajbhandari et al. 2020, section 5), and a buffer for the largest message of
    activations. How long a backend keeps further buffers is its own decision."""
    whole = peak_memory_bytes(part, "ddp" if part.world_size > 1 else "concurrent", stepped_bytes(part, strategy))
    return whole + max((one.message_bytes for one in step_messages(part, strategy).activations), default=0)


def _sent(part: Held, strategy: Strategy) -> dict[str, float]:
    """Bytes by collective, and bytes sent."""
    sent = step_messages(part, strategy).all
    found: dict[str, float] = {
        f"{collective}_bytes": sum(message.message_bytes for message in sent if message.collective == collective)
        for collective in COLLECTIVES
    }
    return found | {"sent_bytes": sum(message.sent_bytes for message in sent)}


def _times(point: PointSpec, part: Held, strategy: Strategy, machine: MachineModel) -> dict[str, float]:
    """What a step takes where all ranks run at once: as long as the slowest of them, and what communication adds."""
    ranks, rows = part.world_size * strategy.tensor_ranks, part.local_batch_size
    placed = replace(point, world_size=ranks, global_batch_size=ranks, n_samples=ranks, injection="")
    slowness, crowding, layout = machine.slowness(ranks), machine.crowding(placed), machine.layout(placed)
    forward, backward, optimizer = (slowness.max() * crowding * phase for phase in machine.phases_s(part, rows))
    others = (sum(layer_bytes(part)) - sum(stepped_bytes(part, strategy))) / word_bytes(part)
    optimizer -= slowness.max() * crowding * machine.optimizer_s_per_parameter * others
    if part.world_size > 1:  # DDP's own work
        backward += slowness.max() * machine.ddp_own_s(part)

    neighbours, replicas = (groups(layout, strategy.tensor_ranks) for groups in (tensor_groups, replica_groups))

    def alone_s(messages: tuple[Message, ...], groups: set[Group]) -> float:
        return sum(slowest_s(groups, machine.network, one.collective, one.message_bytes) for one in messages)

    def within_s(messages: tuple[Message, ...], groups: set[Group]) -> float:
        """Of any that may be as large as a bucket: what a bucket's takes beyond its time by itself counts for it."""
        own = (machine.bucket_s + machine.bucket_s_per_byte * one.message_bytes for one in messages)
        return alone_s(messages, groups) + sum(own)

    sent = step_messages(part, strategy)
    waited_for = within_s(sent.activations, neighbours) + within_s(sent.parameters, replicas)
    waited_for += alone_s(sent.buffers, replicas)
    outlasts = 0.0
    if sent.gradients:
        bucket_s = partial(slowest_s, replicas, machine.network, sent.gradients[0].collective)
        outlasts = float(machine.outlasting_s(part, np.array(backward), bucket_s))
    step = forward + backward + optimizer + waited_for + outlasts
    one_rank_s = slowness.mean() * sum(machine.phases_s(point, point.global_batch_at(1)))
    share = ranks if point.scaling == "strong" else 1
    return {
        "compute_s": forward + backward + optimizer,
        "exposed_s": waited_for + outlasts,
        "communication_s": waited_for + within_s(sent.gradients, replicas),
        "step_time_s": step,
        "parallel_efficiency": one_rank_s / step / share,
        "throughput": part.global_batch_size / step,
    }
