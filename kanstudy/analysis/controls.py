"""Is it the KAN? Each KAN beside MLPs with about as many parameters, whose gradients are those of matrix products.

The claim under test, of the published study: communication overhead is not a matter of the KAN's edge-wise gradient
structure. Two controls, told apart by their batch:

- *parameters*: the KAN's batch. The same rows and gradient bytes, but a step of another length;
- *step time*: another batch, so that the steps are about equally long, with the same gradient bytes. How equal is
  measured: `step_ratio`, of steps without communication; `matching_batch` is what would have made it 1. Of several
  other batches the one with the nearest step counts.

Exposed milliseconds, T_ddp - T_noop, are the test: a share is of a step, so that a longer step has a smaller one.
KAN and control are points of one launch, and their rounds are compared pair by pair (`statistics.paired_rounds`): each
difference is the median over pairs of what each pair says; from five launches on the mean over launches of that. What
slows both rounds of a pair alike falls out of `step_ratio`, and nearly out of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from kanstudy.analysis import metrics
from kanstudy.analysis.attribution.chain import baseline
from kanstudy.analysis.attribution.decomposition import efficiency
from kanstudy.analysis.communication.blocking import bucket_bytes
from kanstudy.analysis.results import launches, surroundings
from kanstudy.analysis.rows import columns, joined, quality
from kanstudy.analysis.series import SERIES_KEYS, series_keys, series_labels
from kanstudy.analysis.statistics import intervals
from kanstudy.analysis.statistics.intervals import MISSING, Estimate
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.analysis.statistics.paired_rounds import PairedRounds
from kanstudy.record import Record
from kanstudy.sizes import matched_layer_widths

PARAMETERS, STEP_TIME = "parameters", "step time"
HIGHER, LOWER, NO_DIFFERENCE, UNTOLD = "KAN higher", "KAN lower", "no difference can be told", "cannot be told"
COMPARED = ("exposed_ms", "overhead", "efficiency")
_ESTIMATES = ("step_ratio", *(f"{name}{end}" for name in COMPARED for end in ("", "_control", "_difference")))
_SIDES = ("gradient_bytes", "bytes_per_flop", "buckets")
_HEAD = ["series", "source", "profile", "experiment", "world_size", "global_batch_size", "control", "control_batch"]
_HEAD += ["device_name", "oversubscribed", *(f"{name}{end}" for name in _SIDES for end in ("", "_control"))]
_TAIL = ["matching_batch", "verdict", "verdict_overhead", "verdict_efficiency", "n_rounds", "n_disturbed", "launches"]
_TAIL += ["trusted", "method", "reason", "point_id", "control_point_id"]
_OWN = ("series_batch", "node_set", "model", "layer_widths", "grid_size", "spline_order", "operator")
_ALIKE = [SERIES_KEYS.index(name) for name in SERIES_KEYS if name not in _OWN]


def controls(records: Sequence[Record]) -> pd.DataFrame:
    """One row a KAN and control at a world size above one: control (`PARAMETERS` or `STEP_TIME`) and control_batch;
    gradient_bytes, bytes_per_flop (of gradient, over a rank's matrix products a step) and buckets (how many, and
    their KiB in the order in which they leave) of both; step_ratio (T_noop of the KAN over the control's);
    exposed_ms, overhead and efficiency of both, and their difference, KAN less control, all with intervals.

    `verdict` (of exposed_ms), `verdict_overhead` and `verdict_efficiency` are one of `HIGHER`, `LOWER`,
    `NO_DIFFERENCE` and `UNTOLD`. Records of different conditions are a row that says so, and are not compared.
    """
    rows = []
    for series, kan, control, others in _pairs(records):
        same = control.global_batch_size == kan.global_batch_size
        row: dict = {name: getattr(kan, name) for name in ("source", "profile", "experiment", "world_size")}
        row |= {"series": series, "global_batch_size": kan.global_batch_size, "point_id": kan.point_id}
        row |= {"control": PARAMETERS if same else STEP_TIME, "control_batch": control.global_batch_size}
        row |= {"control_point_id": control.point_id, "oversubscribed": kan.oversubscribed or control.oversubscribed}
        row |= {"device_name": kan.device_name} | _sides(kan, control)
        notes = [_quality("KAN", kan), _quality("MLP", control)]
        pair = Pair(kan, control)
        if surroundings(kan) != surroundings(control):
            why = "KAN and control were measured under different conditions (hosts, versions, threads)"
            row |= dict.fromkeys(("verdict", "verdict_overhead", "verdict_efficiency"), UNTOLD)
            rows.append(row | {"n_rounds": 0, "trusted": False, "reason": joined(why, *notes)})
            continue
        row |= columns("step_ratio", pair.step_ratio)
        for name in COMPARED:
            row |= columns(name, _own(kan, name)) | columns(f"{name}_control", _own(control, name))
            difference = pair.difference(name)
            row |= columns(f"{name}_difference", difference)
            verdict = "verdict" if name == "exposed_ms" else f"verdict_{name}"
            row[verdict] = _verdict(difference, pair.trusted)
        row |= {"matching_batch": _matching_batch(kan, others), "method": pair.difference("exposed_ms").method}
        row |= {"n_rounds": pair.n, "n_disturbed": pair.n_disturbed, "trusted": pair.trusted}
        row["launches"] = min(launches(kan), launches(control))
        if pair.n == 0 and all(PairedArms(record).n for record in (kan, control)):
            notes.append("no round is undisturbed in both")
        if 0 < pair.n < intervals.ORDER_STATISTICS_FROM and "too few" not in "".join(notes):
            notes.append(f"{pair.n} pairs of rounds: too few for an interval")
        rows.append(row | {"reason": joined(*notes)})
    values = [f"{name}{end}" for name in _ESTIMATES for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*_HEAD, *values, *_TAIL])


class Pair(PairedRounds):
    """The rounds of a KAN and its control, pair by pair."""

    def __init__(self, kan: Record, control: Record, all_rounds: bool = False) -> None:
        super().__init__(kan, control, all_rounds)
        self._sides = [_per_round(*side, self.pairs) for side in zip((kan, control), self.arms, strict=True)]

    def difference(self, name: str) -> Estimate:
        """KAN less control of one of `COMPARED`; `MISSING` where one of them was not measured."""
        return self.median(self.per_round(name))

    @cached_property
    def step_ratio(self) -> Estimate:
        """T_noop of the KAN over the control's."""
        return self.median(self.per_round("log_noop_s")).mapped(np.exp)

    def per_round(self, name: str) -> np.ndarray:
        """What each pair alone says of a difference (pairs,)."""
        kan, control = (side.get(name) for side in self._sides)
        return np.array([]) if kan is None or control is None else kan - control

    def of_rounds(self, name: str, control: bool) -> np.ndarray:
        """What each pair's round of the KAN, or of the `control`, says (pairs,), NaN where it was not measured."""
        return self._sides[control].get(name, np.full(self.n, np.nan))


def per_round(records: Sequence[Record]) -> pd.DataFrame:
    """What each pair of rounds alone says, for the dots of a figure: point_id and control_point_id, and of `COMPARED`
    KAN, control and difference; disturbed."""
    frames = []
    for _, kan, control, _ in _pairs(records):
        if surroundings(kan) != surroundings(control):
            continue
        pair = Pair(kan, control, all_rounds=True)
        values: dict = {"point_id": kan.point_id, "control_point_id": control.point_id, "disturbed": pair.disturbed}
        for name in COMPARED:
            own, other = (pair.of_rounds(name, side) for side in (False, True))
            values |= {name: own, f"{name}_control": other, f"{name}_difference": own - other}
        frames.append(pd.DataFrame(values))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _per_round(record: Record, arms: PairedArms, pairs: pd.Index) -> dict[str, np.ndarray]:
    """Each quantity in each round of a record, as far as it was measured."""
    if not arms.has("ddp_noop", "ddp"):
        return {}
    times = arms.times_s.loc[pairs]
    noop, ddp = times["ddp_noop"].to_numpy(), times["ddp"].to_numpy()
    found = {"log_noop_s": np.log(noop), "exposed_ms": 1e3 * (ddp - noop)}
    found["overhead"] = metrics.communication_overhead(noop, ddp)
    base, scale = baseline(record, arms)
    if arms.has(base):
        found["efficiency"] = scale * times[base].to_numpy() / ddp
    return found


def _own(record: Record, name: str) -> Estimate:
    """The record's own estimate, over all its rounds, as in the tables of its experiment."""
    arms = PairedArms(record)
    if name == "efficiency":
        return efficiency(record).value
    if name == "overhead":
        return arms.ratio("ddp_noop", "ddp").mapped(lambda ratio: metrics.communication_overhead(ratio, 1.0))
    exposed = _per_round(record, arms, arms.times_s.index).get("exposed_ms")
    return MISSING if exposed is None else arms.median(exposed)


def _sides(kan: Record, control: Record) -> dict:
    """What of the gradients stands beside the times."""
    row: dict = {}
    for end, record in (("", kan), ("_control", control)):
        flops = (record.flops_per_sample or np.nan) * record.local_batch_size
        row[f"gradient_bytes{end}"] = record.gradient_bytes
        row[f"bytes_per_flop{end}"] = np.nan if record.gradient_bytes is None else record.gradient_bytes / flops
        buckets = bucket_bytes(record)
        sizes = " + ".join(f"{size / 1024:.1f}" for size in buckets)
        row[f"buckets{end}"] = f"{len(buckets)}: {sizes}" if buckets else ""
    return row


def _matching_batch(kan: Record, mlps: Sequence[Record]) -> float:
    """The global batch at which the control's step without communication would be as long as the KAN's, in whole rows a
    rank: by the straight line through the measured batches, or in proportion where there is one or the line falls."""
    target = PairedArms(kan).time("ddp_noop").value
    times = {mlp.global_batch_size: PairedArms(mlp).time("ddp_noop").value for mlp in mlps}
    times = {batch: time for batch, time in times.items() if np.isfinite(time)}
    if not times or not np.isfinite(target):
        return np.nan
    nearest = min(times, key=lambda batch: abs(times[batch] - target))
    wanted = nearest * target / times[nearest]
    if len(times) > 1:
        slope, fixed = np.polyfit(list(times), list(times.values()), 1)
        wanted = (target - fixed) / slope if slope > 0 else wanted
    return kan.world_size * max(1.0, round(wanted / kan.world_size))


def _verdict(difference: Estimate, trusted: bool) -> str:
    if not (difference.has_interval and trusted):
        return UNTOLD
    if difference.includes(0):
        return NO_DIFFERENCE
    return HIGHER if difference.value > 0 else LOWER


def _quality(name: str, record: Record) -> str:
    note = quality(record, PairedArms(record))
    return f"{name}: {note}" if note else ""


def _pairs(records: Sequence[Record]) -> Iterator[tuple[str, Record, Record, list[Record]]]:
    """Every KAN on several ranks with its controls, named by the KAN's series, and all MLPs of its size there: that of
    the KAN's batch, and of other batches the one whose step is nearest to the KAN's in time."""
    keys = [
        (record.world_size, *(key[i] for i in _ALIKE))
        for record, key in zip(records, series_keys(records), strict=True)
    ]
    mlps: dict[tuple, list[Record]] = {}
    for record, key in zip(records, keys, strict=True):
        if record.model == "mlp":
            mlps.setdefault((*key, tuple(record.layer_widths)), []).append(record)
    found = []
    for record, key in zip(records, keys, strict=True):
        if record.model == "kan" and record.world_size > 1 and len(record.layer_widths) > 2:
            size = (record.layer_widths, record.grid_size, record.spline_order)
            of_size = mlps.get((*key, matched_layer_widths(*size)), [])  # type: ignore[arg-type]  # whole in a KAN's
            found += [(record, control, of_size) for control in _controls_of(record, of_size)]
    for series, triple in zip(series_labels([kan for kan, *_ in found]), found, strict=True):
        yield (series, *triple)


def _controls_of(kan: Record, mlps: Sequence[Record]) -> list[Record]:
    same = [mlp for mlp in mlps if mlp.global_batch_size == kan.global_batch_size]
    others = [mlp for mlp in mlps if mlp.global_batch_size != kan.global_batch_size]
    return same + sorted(others, key=lambda mlp: _apart(kan, mlp))[:1]


def _apart(kan: Record, mlp: Record) -> float:
    """How far apart two steps without communication are, in logarithms; infinite where one was not measured."""
    times = [PairedArms(record).time("ddp_noop").value for record in (kan, mlp)]
    return abs(float(np.log(times[0] / times[1]))) if np.isfinite(times).all() else np.inf
