"""What a launch measures: one start of all ranks, which measures many points on nested process groups.

Standard library only: both the planner (no torch) and the worker (torch) import this module.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from kanstudy.spec import PointSpec, SpecError, build, is_number, is_whole, point_from_dict, require, require_one_of

DEVICES = ("cpu", "cuda")
BACKENDS = ("gloo", "nccl")


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One launch: what all ranks of one torchrun (or one allocation) measure; the worker's PLAN file.

    `rounds[point_id]` complete rounds of each point are wanted of launch number `launch` (from 0, of `launches`), at
    most so many of points in `target_width` (`kanstudy.stopping`). `data_files[data_key(point)]` is the `.npz` that
    holds the point's data. All points are measured over the same `link`. Ranks run `threads_per_rank` threads each and,
    if `pin`, stay on cores of their own. A collective that takes longer than `collective_timeout_s` ends the launch. No
    new round begins that would not end before `deadline_unix_s`.
    """

    profile: str
    experiment: str
    points: tuple[PointSpec, ...]
    data_files: dict[str, str]
    results_dir: str
    progress_file: str
    rounds: dict[str, int]
    launch: int = 0
    launches: int = 1
    device: str = "cpu"
    backend: str = "gloo"
    threads_per_rank: int = 1
    pin: bool = True
    oversubscribed: bool = False
    collective_timeout_s: float = 300.0
    deadline_unix_s: float | None = None
    seed: int = 0
    target_width: dict[str, float] = dataclasses.field(default_factory=dict)
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(self.points))
        require(len(self.points) > 0, "points", self.points, "at least one")
        ids = [point.point_id for point in self.points]
        require(len(ids) == len(set(ids)), "points", ids, "distinct")
        require_one_of("device", self.device, DEVICES)
        require_one_of("backend", self.backend, BACKENDS)
        links = sorted({point.link for point in self.points})
        require(len(links) == 1, "points", links, "all of the same link")
        require(set(self.rounds) == set(ids), "rounds", sorted(self.rounds), "given for every point and no other")
        for point_id, rounds in self.rounds.items():
            require(is_whole(rounds, 1), f"rounds[{point_id}]", rounds, "a whole number >= 1")
        for point_id, width in self.target_width.items():
            allowed = point_id in ids and is_number(width, 0) and width > 0
            require(allowed, f"target_width[{point_id}]", width, "a width > 0, of a point of the launch")
        for name in ("launches", "threads_per_rank"):
            require(is_whole(getattr(self, name), 1), name, getattr(self, name), "a whole number >= 1")
        require(is_whole(self.launch, 0), "launch", self.launch, "a whole number >= 0")
        require(
            is_number(self.collective_timeout_s, 1), "collective_timeout_s", self.collective_timeout_s, "seconds >= 1"
        )
        for point in self.points:
            require(not point.injection or self.device == "cpu", "device", self.device, "cpu where causes are injected")
            require(not point.link or self.device == "cpu", "device", self.device, "cpu where the link is emulated")
            require(data_key(point) in self.data_files, "data_files", data_key(point), "a file for each data set")

    @property
    def link(self) -> str:
        """The emulated link that all points are measured over; empty where there is none."""
        return self.points[0].link

    @property
    def world_size(self) -> int:
        """Ranks to start: the largest world size of all points."""
        return max(point.world_size for point in self.points)


def data_key(point: PointSpec) -> str:
    """The name under which a launch knows the point's data: data set, rows and seed."""
    return f"{point.dataset}/{point.n_samples}/{point.seed}"


def to_json(run: RunSpec) -> str:
    """The text of a PLAN file, for `run_spec_from_json`."""
    return json.dumps(dataclasses.asdict(run), indent=1)


def run_spec_from_json(text: str) -> RunSpec:
    """A `RunSpec` from the text of a PLAN file; `SpecError` on anything that is not one."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the plan is not JSON: {error}") from error
    points = values.get("points") if isinstance(values, dict) else None
    if not isinstance(points, list) or not all(isinstance(point, dict) for point in points):
        raise SpecError("the plan must be an object with a list of points")
    return build(RunSpec, values | {"points": tuple(point_from_dict(point) for point in points)})
