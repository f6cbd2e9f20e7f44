"""What is to be predicted of a profile: its strong and weak scaling at world sizes that need not be its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kanstudy.spec import PLACEMENTS, PointSpec, SpecError
from kanstudy.study import experiments
from kanstudy.study.profile import Profile
from kanstudy.study.strict import ProfileError

SCALINGS = {"strong": "strong_scaling", "weak": "weak_scaling"}


def points(profile: Profile, world_sizes: Sequence[int], scaling: str = "") -> list[PointSpec]:
    """Points of the profile's series of strong and of weak scaling (or of one of them) of the model that is calibrated,
    at each world size and in each placement that the profile measures and that differs from the others.

    A global batch that a world size does not divide raises `ProfileError`. Data of which there are too few rows are
    taken to be as many as needed.
    """
    if not profile.study.series["calibration"]:
        raise ProfileError(f"{profile.path}: has no series [[study.calibration]], which predictions rest on")
    model = profile.study.series["calibration"][0].models[0]
    wanted = [name for kind, name in SCALINGS.items() if scaling in ("", kind)]
    found: dict[PointSpec, None] = {}
    for name in wanted:
        for point in experiments.points(profile, name):
            if point.model == model and point.world_size == profile.world_sizes[0]:
                found |= dict.fromkeys(_at(point, world_sizes, profile))
    if not found:
        series = " or ".join(f"[[study.{name}]]" for name in wanted)
        raise ProfileError(f"{profile.path}: has no series {series} of a {model.upper()}, so that nothing is predicted")
    return list(found)


def _at(point: PointSpec, world_sizes: Sequence[int], profile: Profile) -> Iterator[PointSpec]:
    for p in world_sizes:
        try:
            sized = point.at(p, "packed")
        except SpecError as error:
            raise ProfileError(f"world size {p}: {error}") from error
        # spread is one rank a node, packed as many as a node has: of one rank, or of one a node, they are the same
        differ = profile.cluster is not None and p > 1 and profile.cluster.ranks_per_node > 1
        for placement in PLACEMENTS if differ else PLACEMENTS[:1]:
            if profile.cluster is None or placement in profile.cluster.placements:
                yield replace(sized, placement=placement)
