"""Guidelines from a calibration: predictions for one model on one site, each with the range of its constants.

A range is the 95 % range over refits of the calibration, for which settings are compared refit by refit: how sure the
constants are, of assumed links how far off these may be, not what a launch adds. What the calibration does not cover
is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from kanstudy.analysis.calibration.domain import NotCovered
from kanstudy.analysis.calibration.spread import TooFewSteps
from kanstudy.analysis.guidelines.compression import compression
from kanstudy.analysis.guidelines.question import Question, Untold, range_text, refit_range
from kanstudy.analysis.guidelines.ranks import TOPOLOGY, ranks
from kanstudy.analysis.guidelines.sentences import COLUMNS
from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.work import n_parameters
from kanstudy.analysis.prediction.isoefficiency import with_hidden_width
from kanstudy.analysis.prediction.predict import predict
from kanstudy.analysis.prediction.site import PredictionError
from kanstudy.spec import PointSpec

_REFUSALS = (Untold, NotCovered, PredictionError, TooFewSteps)
FULL_SPEED = 0.9
"""Share of a rank's best throughput from which on its batch counts as large enough."""
CAPS_MB = (1.0, 5.0, 25.0, 100.0)
"""Bucket caps that are compared; 25 MiB is DDP's default."""


def predicted(question: Question) -> pd.DataFrame:
    """One row a guideline, as `guidelines`: ranks, placement, local batch, bucket cap, compression, model size."""
    topics: dict[str, Callable[[Question], Iterator[dict]]] = {
        "ranks": _ranks,
        TOPOLOGY: _topology,
        "least local batch": _least_local_batch,
        "bucket cap": _bucket_cap,
        "compression": compression,
        "model size": _model_size,
    }
    rows: list[dict] = []
    for topic, of in topics.items():
        try:
            rows += of(question)
        except _REFUSALS as error:  # it says what is missing
            rows.append(question.told(topic, False, f"{question.head}: {topic} cannot be told: {error}"))
    return pd.DataFrame(rows, columns=COLUMNS)


def _ranks(question: Question) -> Iterator[dict]:
    """As of measured sizes, of those that are predicted: up to the first that the calibration does not carry."""
    found, calibration = [], question.calibration
    for p in sorted(question.world_sizes):
        try:
            point = question.point.at(p, question.point.placement)
            found.append(predict(calibration, [point], question.site))
        except _REFUSALS:
            if not found:
                raise
            break
    frame = pd.concat(found, ignore_index=True)
    ends = ("", "_low", "_high")
    frame = frame.rename(columns={f"parallel_efficiency{end}": f"efficiency{end}" for end in ends})
    frame = frame.assign(series=question.head.rpartition(",")[0], trusted=True, reason="")
    frame["point_id"] = f"from the calibration's {len(calibration.point_ids)} points"
    what = f"{question.point.scaling} scaling, {' and '.join(dict.fromkeys(frame['interval']))}"
    ids = " ".join(calibration.point_ids)
    for row in ranks(frame, what, "no larger size is predicted"):
        yield row | {"point_ids": ids}


def _topology(question: Question) -> Iterator[dict]:
    points = {placement: replace(question.point, placement=placement) for placement in ("packed", "spread")}
    machine = question.machines[0]
    if len({machine.layout(point) for point in points.values()}) == 1:
        return
    yield _fastest(question, TOPOLOGY, "placement", points)


def _bucket_cap(question: Question) -> Iterator[dict]:
    if question.point.world_size == 1:
        return
    question.check(question.point)
    points: dict[str, PointSpec] = {}
    for cap in CAPS_MB:
        point = replace(question.point, bucket_cap_mb=cap)
        if gradient_buckets(point) not in [gradient_buckets(other) for other in points.values()]:
            points[f"{cap:g} MiB"] = point
    if len(points) == 1:
        caps = f"{min(CAPS_MB):g} to {max(CAPS_MB):g} MiB"
        text = f"{question.head}: every bucket cap from {caps} gives the same buckets, so that it makes no difference"
        yield question.told("bucket cap", True, text)
        return
    yield _fastest(question, "bucket cap", "bucket cap", points)


def _fastest(question: Question, topic: str, what: str, points: dict[str, PointSpec]) -> dict:
    """The setting with the shortest step, if it is shorter than each other refit by refit."""
    question.check(*points.values())
    machines = question.machines
    steps_s = {name: np.array([expected(point, m).step_time_s for m in machines]) for name, point in points.items()}
    best, *others = sorted(steps_s, key=lambda name: steps_s[name][0])
    ratios = {name: refit_range(steps_s[name] / steps_s[best]) for name in others}
    listed = ", ".join(f"with {name} {range_text(ratio)} times as long" for name, ratio in ratios.items())
    head = f"{question.head}: the step is shortest with {what} {best} ({1e3 * steps_s[best][0]:.3g} ms), {listed}"
    if all(low > 1 for _, low, _ in ratios.values()):
        return question.told(topic, True, head)
    return question.told(topic, False, f"{question.head}: which {what} is fastest cannot be told: {listed}")


def _least_local_batch(question: Question) -> Iterator[dict]:
    """Rows from which on a rank alone has nine tenths of the throughput of the largest calibrated batch."""
    question.check(question.point)
    least, most = question.calibration.domain.rows
    found = np.array([_rows_at_full_speed(machine, question.point, least, most) for machine in question.machines])
    if found[0] == least:
        raise Untold(f"already {least} rows, the fewest that are calibrated, have {100 * FULL_SPEED:g} % of the best")
    text = (
        f"{question.head.rpartition(',')[0]}: a rank reaches {100 * FULL_SPEED:g} % of its best throughput, that of "
        f"{most} rows, from {range_text(refit_range(found), 0)} rows on"
    )
    yield question.told("least local batch", True, text)


def _rows_at_full_speed(machine: MachineModel, point: PointSpec, least: int, most: int) -> int:
    def throughput(rows: int) -> float:
        return rows / sum(machine.phases_s(point, rows))

    enough = FULL_SPEED * throughput(most)
    low, high = least - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if throughput(middle) >= enough else (middle, high)
    return high


def _model_size(question: Question) -> Iterator[dict]:
    """The largest hidden width that a rank's memory holds, by the closed form scaled to what was measured."""
    limit, memory = question.site.memory_bytes, question.calibration.memory
    if limit is None:
        raise Untold("the memory of a rank is not stated")
    spread = np.exp(2 * memory.residual_sd)
    found = [_largest_width(question, limit * scale) for scale in (1, 1 / spread, spread)]
    if not found[0]:
        raise Untold("not even a hidden width of 1 fits")
    point = replace(question.point, layer_widths=with_hidden_width(question.point.layer_widths, found[0]))
    text = (
        f"{point.model.upper()}, {point.local_batch_size} rows a rank: {limit / 2**30:.3g} GiB hold hidden widths up "
        f"to {found[0]} [{found[1]}, {found[2]}], {n_parameters(point)} parameters"
    )
    yield question.told("model size", True, text)


def _largest_width(question: Question, limit: float) -> int:
    def fits(width: int) -> bool:
        widths = with_hidden_width(question.point.layer_widths, width)
        return question.calibration.memory.peak_bytes(replace(question.point, layer_widths=widths)) <= limit

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
