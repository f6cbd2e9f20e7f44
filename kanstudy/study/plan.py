"""The plan of one experiment: its points, how often each is measured, and about how long that takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kanstudy.sizes import widths_text
from kanstudy.spec import PointSpec
from kanstudy.study.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

_AROUND_A_BLOCK_S = 0.08  # a fresh model, its wrapping, the ranks' meeting, the reference kernel
_START_S, _START_A_RANK_S = 4.0, 1.0  # torchrun and the import of torch
_ALLREDUCE_S = 1.0  # a message size


@dataclass(frozen=True, kw_only=True)
class ExperimentPlan:
    """What one experiment measures under a profile.

    Of each point `rounds[point_id]` complete rounds are wanted in each of `launches` launches; of those in
    `target_width` at most so many: until the interval of E is that narrow (`kanstudy.stopping`). Every record
    keeps `provenance`, besides what all have. `note` says why, if there are no points; `remarks` what is odd about the
    data.
    """

    profile: Profile
    experiment: str
    points: tuple[PointSpec, ...]
    rounds: dict[str, int]
    launches: int = 1
    target_width: dict[str, float] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def links(self) -> tuple[str, ...]:
        """The links of the points, each once; a launch measures those of one."""
        return tuple(dict.fromkeys(point.link for point in self.points))

    @property
    def world_size(self) -> int:
        """Ranks that a launch starts: the largest world size; 0 without points."""
        return max((point.world_size for point in self.points), default=0)

    def point_s(self, point: PointSpec) -> float:
        """About how many seconds the point takes, all launches together; more where a step outlasts the warm-up.
        Of an adaptive point, the most."""
        block_s = point.warmup_s + point.block_s + _AROUND_A_BLOCK_S
        prepare_s = len(point.arms) * block_s + _ALLREDUCE_S * len(point.allreduce_bytes)
        return self.launches * self.rounds[point.point_id] * point.blocks_per_round * block_s + prepare_s

    def estimated_s(self) -> float:
        """About how many seconds the whole plan takes if nothing of it is measured yet."""
        start_s = _START_S + _START_A_RANK_S * self.world_size
        return sum(map(self.point_s, self.points)) + self.launches * len(self.links) * start_s

    def table(self) -> pd.DataFrame:
        """The plan for reading: one row a point, times in minutes.

        `idle_rank_minutes` is what the ranks that a point does not use wait for it: the price of one launch that
        holds all world sizes.
        """
        import pandas as pd

        rows = []
        for point in self.points:
            minutes = self.point_s(point) / 60
            rows.append(
                {
                    "point": point.point_id,
                    "dataset": point.dataset,
                    "model": point.model,
                    "layer_widths": widths_text(point.layer_widths),
                    "grid_size": point.grid_size,
                    "operator": point.operator,
                    "world_size": point.world_size,
                    "local_batch_size": point.local_batch_size,
                    "global_batch_size": point.global_batch_size,
                    "bucket_cap_mb": point.bucket_cap_mb,
                    "sync_buffers": point.sync_buffers,
                    "arms": " ".join(point.arms),
                    "rounds": self.rounds[point.point_id],
                    "target_width": self.target_width.get(point.point_id),
                    "launches": self.launches,
                    "minutes": round(minutes, 1),
                    "idle_rank_minutes": round(minutes * (self.world_size - point.world_size), 1),
                }
            )
        if not rows:
            return pd.DataFrame()
        frame = pd.DataFrame(rows).astype({"grid_size": "Int64"})
        return frame if self.target_width else frame.drop(columns="target_width")
