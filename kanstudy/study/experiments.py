"""The experiments: from a profile to the points that each measures. Pure, but for reading how large a data set is.

An experiment is a function from one of its series to points, in the order of models and world sizes, and an entry of
`EXPERIMENTS`; what a series may say, and which notebook shows it, stand in `kanstudy.study.series`. What cannot be
measured (a global batch that the world size does not divide, too few rows, a data set that cannot be used) is a
`ProfileError` that names file, series and value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from kanstudy.spec import ARMS, PointSpec
from kanstudy.stopping import LOOKS
from kanstudy.study import calibration as calibrating
from kanstudy.study.datasets.prepare import DatasetInfo, describe
from kanstudy.study.models import controls, models
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile
from kanstudy.study.series import (
    Calibration,
    CommunicationOverhead,
    ModelSizeScaling,
    OperatorScaling,
    Series,
    StrongScaling,
    WeakScaling,
)
from kanstudy.study.strict import ProfileError, allowed

__all__ = ["EXPERIMENTS", "plan", "plans", "points"]


def plan(
    profile: Profile, experiment: str, rounds: int = 0, launches: int = 1, launcher: str = "local"
) -> ExperimentPlan:
    """The plan of an experiment under a profile; `rounds` = 0 takes the profile's (0 there, too: adaptive).

    Raises `ProfileError` with one message for whatever cannot be measured. Whether this machine carries the ranks
    matters only to the launcher "local"; with "none" a plan for another machine can be read anywhere.
    """
    if experiment not in EXPERIMENTS:
        raise ProfileError(f"experiment {experiment!r}: must be {allowed(experiment, EXPERIMENTS)}")
    for name, value, least in (("rounds", rounds, 0), ("launches", launches, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ProfileError(f"{name} = {value!r}: must be a whole number >= {least}")
    if launcher == "local":
        profile.check_machine()
    found = points(profile, experiment)
    note = ""
    if not profile.study.series[experiment]:
        note = f"{experiment}: the profile {profile.name} has no series [[study.{experiment}]]"
    elif not found:
        note = f"{experiment}: nothing to measure at the world sizes {list(profile.world_sizes)}, it needs two ranks"
    return ExperimentPlan(
        profile=profile,
        experiment=experiment,
        points=tuple(found),
        rounds={point.point_id: rounds or series.rounds or LOOKS[-1] for point, series in found.items()},
        launches=launches,
        target_width={
            point.point_id: series.target_width for point, series in found.items() if not (rounds or series.rounds)
        },
        note=note,
        remarks=_remarks(profile, experiment),
    )


def plans(
    profile: Profile,
    only: Collection[str] = (),
    rounds: int = 0,
    launches: int = 1,
    launcher: str = "local",
    say: Callable[[str], object] | None = None,
) -> dict[str, ExperimentPlan]:
    """The plan of every experiment of which the profile has points, or of those in `only`, in running order.

    All are checked before anything starts: raises `ProfileError` as `plan` does, and for one in `only` without points.
    `say` hears why of other series nothing is measured.
    """
    found = {name: plan(profile, name, rounds, launches, launcher) for name in EXPERIMENTS if not only or name in only}
    for name, one in found.items():
        if not one.points and name in only:
            raise ProfileError(one.note)
        if not one.points and profile.study.series[name] and say is not None:
            say(one.note)
    return {name: one for name, one in found.items() if one.points}


def points(profile: Profile, experiment: str) -> dict[PointSpec, Series]:
    """The points of an experiment under a profile, each with its series; none where there are too few ranks."""
    found: dict[PointSpec, Series] = {}
    for number, series in enumerate(profile.study.series[experiment], start=1):
        where = f"{profile.path} [[study.{experiment}]] #{number}"
        try:
            data = describe(series.dataset, series.n_samples or None, series.seed)
            # a control can be the same model for two neighbours of a sweep: one point
            expanded = EXPERIMENTS[experiment](series, data, profile)
            own = dict.fromkeys(profile.cluster.placed(expanded) if profile.cluster else expanded, series)
            for point in own:
                _check_operator(point, profile)
        except ValueError as error:  # of the data, the specification or the sizes: all say what is wrong
            raise ProfileError(f"{where}: {error}") from error
        twice = own.keys() & found.keys()
        if twice:
            raise ProfileError(f"{where}: measures {min(p.point_id for p in twice)}, as a series before it does")
        found |= own
    return found


def strong_scaling(series: StrongScaling, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """The global batch stays. The whole chain of arms, at p = 1 what there is of it.

    Controls have one rank alone, and DDP with and without communication.
    """
    for model in models(series, data, series.hidden_widths, series.grid_size):
        for world_size in profile.world_sizes:
            yield PointSpec(
                experiment="strong_scaling",
                scaling="strong",
                world_size=world_size,
                global_batch_size=series.global_batch_size,
                arms=ARMS if world_size > 1 else ("serial_global", "ddp_noop", "ddp"),
                **model,
                **_common(series, data),
            )
    settings = {"experiment": "strong_scaling", "arms": ("serial_global", "ddp_noop", "ddp")} | _common(series, data)
    yield from controls(series, data, profile.world_sizes, settings)


def weak_scaling(series: WeakScaling, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """The local batch stays. The chain without the global batch on one rank."""
    for model in models(series, data, series.hidden_widths, series.grid_size):
        for world_size in profile.world_sizes:
            yield PointSpec(
                experiment="weak_scaling",
                scaling="weak",
                world_size=world_size,
                global_batch_size=series.local_batch_size * world_size,
                arms=("serial_local", "concurrent", "ddp_noop", "ddp") if world_size > 1 else ("serial_local", "ddp"),
                **model,
                **_common(series, data),
            )


def communication_overhead(series: CommunicationOverhead, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """DDP with and without communication over bucket sizes.

    One more point a world size has DDP's own default, buffers broadcast in every forward. The first point of each
    world size also runs the blocking all-reduces.
    """
    common = _common(series, data) | {"train_steps": 0}  # how gradients travel does not change what is learned
    measured_allreduce = set()
    for model in models(series, data, series.hidden_widths, series.grid_size):
        variants: list[dict[str, Any]] = [{"bucket_cap_mb": cap} for cap in series.bucket_caps_mb]
        if model["model"] == "kan":  # an MLP has no buffers
            variants.append({"sync_buffers": True})
        for world_size in profile.world_sizes:
            if world_size == 1:
                continue
            for variant in variants:
                first = world_size not in measured_allreduce
                measured_allreduce.add(world_size)
                yield PointSpec(
                    experiment="communication_overhead",
                    scaling="strong",
                    world_size=world_size,
                    global_batch_size=series.global_batch_size,
                    arms=("ddp_noop", "ddp"),
                    allreduce_bytes=series.allreduce_bytes if first else (),
                    **model,
                    **(common | variant),
                )
    if series.control_batches and series.bucket_cap_mb not in series.bucket_caps_mb:
        raise ValueError(
            f"bucket_cap_mb = {series.bucket_cap_mb!r}: must be one of bucket_caps_mb = {list(series.bucket_caps_mb)!r}"
            ", or the controls have no KAN to be compared with"
        )
    settings = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")} | common
    yield from controls(series, data, profile.world_sizes, settings)


def model_size_scaling(series: ModelSizeScaling, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """Widths x grid sizes at the largest world size."""
    for hidden_widths in series.hidden_widths_sweep:
        for grid_size in series.grid_sizes:
            for model in models(series, data, hidden_widths, grid_size):
                yield PointSpec(
                    experiment="model_size_scaling",
                    scaling="strong",
                    world_size=profile.world_sizes[-1],
                    global_batch_size=series.global_batch_size,
                    arms=("serial_global", "ddp_noop", "ddp"),
                    **model,
                    **_common(series, data),
                )


def operator_scaling(series: OperatorScaling, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """Operators x world sizes, the global batch stays.

    Each point has one rank alone, and DDP with and without communication, under its own operator.
    """
    names = series.operators
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"operators = {list(names)!r}: must be at least two, distinct")
    if "kan" not in series.models:
        raise ValueError(f"models = {list(series.models)!r}: must contain 'kan', an MLP has no operators")
    kan = next(models(series, data, series.hidden_widths, series.grid_size))
    for world_size in profile.world_sizes:
        if world_size == 1:  # every point measures its own rank alone
            continue
        for name in names:
            yield PointSpec(
                experiment="operator_scaling",
                scaling="strong",
                world_size=world_size,
                global_batch_size=series.global_batch_size,
                arms=("serial_global", "ddp_noop", "ddp"),
                **(kan | {"operator": name}),
                **_common(series, data),
            )


def calibration(series: Calibration, data: DatasetInfo, profile: Profile) -> Iterator[PointSpec]:
    """One rank alone over rows, widths and grids, and the ranks of one node at once."""
    return calibrating.points(series, data, calibrating.node_ranks(profile), _common(series, data))


EXPERIMENTS: dict[str, Callable[[Any, DatasetInfo, Profile], Iterator[PointSpec]]] = {
    "strong_scaling": strong_scaling,
    "weak_scaling": weak_scaling,
    "communication_overhead": communication_overhead,
    "model_size_scaling": model_size_scaling,
    "operator_scaling": operator_scaling,
    "calibration": calibration,
}
"""What each experiment makes of one of its series, in running order; `ValueError` says what cannot be measured."""


def _remarks(profile: Profile, experiment: str) -> tuple[str, ...]:
    """What is odd about the data sets of an experiment, each once."""
    infos = (describe(s.dataset, s.n_samples or None, s.seed) for s in profile.study.series[experiment])
    return tuple(dict.fromkeys(remark for info in infos for remark in info.remarks))


def _check_operator(point: PointSpec, profile: Profile) -> None:
    """Refuse here what would end a launch there."""
    if point.operator == "fused" and profile.device != "cpu":
        raise ValueError(
            f"operator 'fused' is for CPUs, the device is {profile.device}: name 'compiled' or 'reference'"
        )
    if point.operator == "fused" and point.spline_order == 0:
        raise ValueError("spline_order = 0: the operator 'fused' has orders from 1 on")


def _common(series: Series, data: DatasetInfo) -> dict[str, Any]:
    training = ("optimizer", "learning_rate", "dtype", "tf32", "bucket_cap_mb", "train_steps", "seed")
    timing = ("phase_steps", "block_s", "warmup_steps", "warmup_s")
    same = {name: getattr(series, name) for name in (*training, *timing)}
    return {"dataset": data.name, "n_samples": data.n_samples, **same}
