"""What a job costs before it is submitted: time, device-hours and the share of them in which ranks wait idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kanstudy.layout import layout_text
from kanstudy.study.jobs.slurm import SIGNAL_S
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile
from kanstudy.study.progress import duration

_PREFLIGHT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of all plans in one allocation: `time_s` seconds, `device_hours` of all its ranks together, and the share of
    them that ranks spend outside of the group that is measured. Of adaptive rounds, the most."""

    time_s: float
    device_hours: float
    idle_share: float


def estimate(plans: Mapping[str, ExperimentPlan], ranks: int) -> Costs:
    """What the plans cost on an allocation of so many ranks, if nothing of them is measured yet."""
    time_s = sum((plan.estimated_s() for plan in plans.values()), _PREFLIGHT_S)
    busy = [(plan.point_s(point), point.world_size) for plan in plans.values() for point in plan.points]
    idle_s = sum(seconds * (ranks - world_size) for seconds, world_size in busy)
    return Costs(time_s=time_s, device_hours=time_s * ranks / 3600, idle_share=idle_s / (time_s * ranks))


def plan_text(plans: Mapping[str, ExperimentPlan], profile: Profile) -> str:
    """The plan for reading: what is measured on how many ranks and how they lie, how long that takes, what it costs."""
    cluster = profile.cluster
    assert cluster is not None
    nodes = f"{cluster.nodes} nodes x {cluster.ranks_per_node} ranks"
    what = f" ({profile.study.description})" if profile.study.description else ""
    lines = [f"Profile {profile.name}{what}: one allocation of {nodes}, {profile.device} with {profile.backend}"]
    for name, plan in plans.items():
        rounds = sorted(set(plan.rounds.values()))
        most = "up to " if plan.target_width else ""
        launches = f", {plan.launches} launches" if plan.launches > 1 else ""
        lines.append(
            f"  {name}: {len(plan.points)} points, {most}{' or '.join(map(str, rounds))} rounds{launches},"
            f" about {duration(plan.estimated_s())}"
        )
        layouts = (layout_text(cluster.layout(point.world_size, point.placement)) for point in plan.points)
        lines.append(f"    on nodes x ranks: {', '.join(dict.fromkeys(layouts))}")
    lines += dict.fromkeys(f"Note: {remark}" for plan in plans.values() for remark in plan.remarks)
    costs = estimate(plans, cluster.ranks)
    unit = "GPU" if profile.device == "cuda" else "rank"
    price = profile.device_constants.price_per_hour
    money = f", about {costs.device_hours * price:.0f} {profile.device_constants.currency}" if price else ""
    lines.append(
        f"Together about {duration(costs.time_s)}, {costs.device_hours:.1f} {unit}-hours{money}; in"
        f" {costs.idle_share:.0%} of them {unit}s wait while fewer are measured, the price of the same nodes for all"
    )
    if costs.time_s + SIGNAL_S > cluster.time_limit_s:
        lines.append(
            f"That is more than time_limit = {cluster.time_limit!r} leaves: what is not measured by then is the next"
            " job's, submitted in the same way"
        )
    return "\n".join(lines)
