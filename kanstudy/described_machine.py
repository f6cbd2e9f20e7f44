"""The machine that a profile describes, as cost models take it: where the profile meets what is computed from it.

For commands and notebooks alike. What a profile does not state is refused with the key that is missing.
"""

from __future__ import annotations

import dataclasses

from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.of_profile import of_profile
from kanstudy.analysis.network import network
from kanstudy.analysis.network.link import TIERS
from kanstudy.analysis.network.network import Network
from kanstudy.analysis.prediction.site import PredictionError, Site
from kanstudy.spec import PointSpec
from kanstudy.study.profile import Profile, ProfileError, builtin_profiles


def network_of(profile: Profile) -> Network | None:
    """The network of the profile's `[network]`; None where it has none."""
    if profile.network is None:
        return None
    return network.of_profile(dataclasses.asdict(profile.network), profile.name)


def machine_of(profile: Profile, point: PointSpec) -> MachineModel:
    """The machine of `[device]`, `[network]` and `[cluster]`, for models of the point's kind.

    Raises `ProfileError` naming the table or key that is missing.
    """
    links, cluster = network_of(profile), profile.cluster
    if links is None:
        raise ProfileError(
            f"{profile.path}: has no [network], whose constants a model of the machine needs; its keys are in"
            f" {builtin_profiles()['cluster_template']}"
        )
    try:
        return of_profile(
            point,
            dataclasses.asdict(profile.device_constants),
            links,
            ranks_per_node=cluster.ranks_per_node if cluster else None,
            nodes=cluster.nodes if cluster else None,
        )
    except ValueError as error:
        raise ProfileError(f"{profile.path} [device]: {error}") from error


def is_own(profile: Profile, calibration: Calibration) -> bool:
    """Whether a calibration is of the profile's machine: measured with a profile of that name, on a device whose name
    has that of `[device]` in it, if that is stated."""
    return calibration.profile == profile.name and profile.device_constants.name in calibration.device_name


def site_of(profile: Profile, calibration: Calibration) -> Site:
    """Where the profile's ranks lie, for predictions from a calibration, on as many nodes as they take.

    Another machine's calibration brings its computation alone: the links are those that the profile states. Of the
    profile's own the links are as calibrated, and as stated where none was, such as between nodes where only one was
    there. Raises `PredictionError` where the links of another machine's calibration are not stated.
    """
    constants, stated, own = calibration.constants, network_of(profile), is_own(profile, calibration)
    if stated is None and not own:
        raise PredictionError(
            f"the calibration is of {calibration.profile} ({calibration.device_name}), and {profile.path}"
            " states no [network]: one machine's network is not taken for another's; state it there"
        )
    known = {"inside": constants.inside_latency_s, "between": constants.between_latency_s} if own else {}
    tiers = tuple(tier for tier in TIERS if known.get(tier) is None)
    return Site(
        ranks_per_node=profile.cluster.ranks_per_node if profile.cluster else calibration.node_ranks,
        network=stated if tiers else None,
        stated=tiers,
        memory_bytes=profile.device_constants.memory_gib * 2**30 or None,
    )
