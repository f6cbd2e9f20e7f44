"""The plans of the check of predictions: links to learn from, and held-out settings that nothing is fitted to.

Held-out settings share model, data and training with the profile's calibration, and none of its widths, batches,
bucket sizes or links: communication-heavy ones, of small batches and wide layers, since where communication hardly
counts a prediction of none does as well. Their order is that of `kanstudy bench prediction`: calibrate, freeze what is
predicted, measure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kanstudy import emulated_link
from kanstudy.spec import ARMS, PointSpec, SpecError
from kanstudy.study import experiments
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile
from kanstudy.study.strict import ProfileError

EXPERIMENT = "held_out"
LINKS_EXPERIMENT = "links"
RANKS_EXPERIMENT = "held_out_ranks"
SETTINGS = (
    "96,96:256:0.1",
    "40,40:96:25",
    "112,112:64:0.05",
    "96,96:512:25",
    "112,48:192:0.05",
    "24,120:128:25",
    "80,80:1024:0.2",
    "120,120:32:25",
)
"""`HIDDEN,WIDTHS:GLOBAL_BATCH:BUCKET_CAP_MB`; all are measured as the ranks lie, the first two over each link too."""
LINKS = ("50mbit:0ms", "80mbit:2ms", "120mbit:0.5ms", "160mbit:1ms", "200mbit:0.2ms")
"""Held-out links: below some 50 Mbit/s a check takes long, above some 200 the cores are the limit, not the link."""
TRAINING_LINKS = ("60mbit:0ms", "100mbit:3ms", "140mbit:1.5ms", "180mbit:0.5ms")
ALLREDUCE_BYTES = (256, 16384, 131072, 524288)
HELD_OUT_BYTES = (1024, 65536, 262144)
CALIBRATION_ROUNDS, CALIBRATION_LAUNCHES = 3, 3
ROUNDS, LAUNCHES = 2, 5
"""Few rounds and many launches: a prediction is for a new launch, so that the launch is the replicate."""
_OVER_LINKS = 2
_CALIBRATION_BLOCK_S = 0.06
_TIMING: dict[str, Any] = {"block_s": 0.04, "warmup_steps": 3, "warmup_s": 0.05, "phase_steps": 5}
_SETTING = re.compile(r"(\d+(?:,\d+)*):(\d+):(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Setting:
    """What is varied: hidden widths, the global batch, DDP's bucket cap in MiB."""

    hidden_widths: tuple[int, ...]
    global_batch_size: int
    bucket_cap_mb: float

    @classmethod
    def parse(cls, text: str) -> Setting:
        """The setting that is written so; `ProfileError` says how it must be."""
        match = _SETTING.fullmatch(text)
        if not match:
            raise ProfileError(f"setting {text!r}: must be HIDDEN,WIDTHS:GLOBAL_BATCH:BUCKET_MB, such as {SETTINGS[0]}")
        return cls(tuple(map(int, match[1].split(","))), int(match[2]), float(match[3]))


def calibration_plan(profile: Profile) -> ExperimentPlan:
    """The profile's calibration, in shorter blocks and several launches; `ProfileError` where it has none."""
    points = experiments.plan(profile, "calibration").points
    if not points:
        raise ProfileError(f"{profile.path}: nothing to calibrate with: add a [[study.calibration]]")
    points = tuple(dataclasses.replace(point, block_s=_CALIBRATION_BLOCK_S) for point in points)
    return ExperimentPlan(
        profile=profile,
        experiment="calibration",
        points=points,
        rounds={point.point_id: CALIBRATION_ROUNDS for point in points},
        launches=CALIBRATION_LAUNCHES,
    )


def links_plan(profile: Profile) -> ExperimentPlan:
    """Blocking all-reduces over the links to learn from; nothing else is measured there but a tiny step."""
    return _messages_plan(profile, LINKS_EXPERIMENT, TRAINING_LINKS, _template(profile).world_size, ALLREDUCE_BYTES)


def more_ranks_plan(profile: Profile, links: Sequence[str] = LINKS) -> ExperimentPlan:
    """Blocking all-reduces of twice as many ranks as there are cores for, over held-out links, with other sizes.

    So many ranks take turns on the cores, so that nothing is said of their steps; messages over a slow link hardly need
    a core. The records are marked oversubscribed.
    """
    ranks = 2 * _template(profile).world_size
    machine = dataclasses.replace(profile.machine, world_sizes=(ranks,), allow_oversubscription=True)
    crowded = dataclasses.replace(profile, machine=machine)
    return _messages_plan(crowded, RANKS_EXPERIMENT, [link for link in links if link], ranks, HELD_OUT_BYTES)


def _messages_plan(
    profile: Profile, experiment: str, links: Sequence[str], ranks: int, allreduce_bytes: Sequence[int]
) -> ExperimentPlan:
    base = _template(profile)
    point = dataclasses.replace(
        base,
        experiment=experiment,
        layer_widths=(base.layer_widths[0], 4, base.layer_widths[-1]),
        world_size=ranks,
        global_batch_size=ranks,
        arms=("ddp_noop",),
        allreduce_bytes=tuple(allreduce_bytes),
        **(_TIMING | {"phase_steps": 0}),
    )
    points = tuple(dataclasses.replace(point, link=link) for link in _checked(links, profile))
    return ExperimentPlan(
        profile=profile,
        experiment=experiment,
        points=points,
        rounds={point.point_id: 1 for point in points},
    )


def held_out_plan(
    profile: Profile,
    settings: Sequence[str] = SETTINGS,
    links: Sequence[str] = LINKS,
    rounds: int = ROUNDS,
    launches: int = LAUNCHES,
) -> ExperimentPlan:
    """Every setting as the ranks lie, and over each link the first two.

    Raises `ProfileError` for a setting or a link that is none, or one that the calibration contains.
    """
    base = _template(profile)
    asked = [Setting.parse(text) for text in settings]
    try:
        plain = [_point(base, setting) for setting in asked]
        linked = [
            dataclasses.replace(point, link=link) for link in _checked(links, profile) for point in plain[:_OVER_LINKS]
        ]
    except SpecError as error:
        raise ProfileError(f"held-out setting: {error}") from error
    points = tuple(dict.fromkeys([*plain, *linked]))
    _refuse_calibrated(points, profile)
    return ExperimentPlan(
        profile=profile,
        experiment=EXPERIMENT,
        points=points,
        rounds={point.point_id: rounds for point in points},
        launches=launches,
    )


def _template(profile: Profile) -> PointSpec:
    """A calibrated point of all ranks of this machine, which all held-out points resemble."""
    point = max(calibration_plan(profile).points, key=lambda point: point.world_size)
    if point.world_size < 2:
        raise ProfileError(f"{profile.path} [machine] world_sizes: must have 2 ranks or more, or nothing communicates")
    return point


def _point(base: PointSpec, setting: Setting) -> PointSpec:
    return dataclasses.replace(
        base,
        experiment=EXPERIMENT,
        scaling="strong",
        layer_widths=(base.layer_widths[0], *setting.hidden_widths, base.layer_widths[-1]),
        global_batch_size=setting.global_batch_size,
        bucket_cap_mb=setting.bucket_cap_mb,
        arms=ARMS,
        allreduce_bytes=(),
        **_TIMING,
    )


def _checked(links: Sequence[str], profile: Profile) -> list[str]:
    if links and profile.device != "cpu":
        raise ProfileError(f"{profile.path}: links are emulated between CPUs alone, its device is {profile.device}")
    for link in links:
        try:
            emulated_link.parse(link)
        except ValueError as error:
            raise ProfileError(f"link {link!r}: must be {error}") from error
    return list(links)


def _refuse_calibrated(points: Sequence[PointSpec], profile: Profile) -> None:
    """What is fitted to cannot be held out: widths of the calibration, and links that it learns from."""
    widths = {point.layer_widths for point in calibration_plan(profile).points}
    for point in points:
        if point.layer_widths in widths:
            hidden = ",".join(map(str, point.layer_widths[1:-1]))
            raise ProfileError(f"held-out widths {hidden}: are calibrated in {profile.path}, so not held out")
        if point.link in TRAINING_LINKS:
            raise ProfileError(
                f"held-out link {point.link!r}: is one of those to learn from: {', '.join(TRAINING_LINKS)}"
            )
