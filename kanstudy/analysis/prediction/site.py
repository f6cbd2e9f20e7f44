"""Where predicted ranks will lie, and the calibrated machine there: as estimated, then as it may be.

Links are as calibrated but for those that a site states. Where these are assumed, each of their constants is drawn
between half and twice of what is stated, as all assumed constants are (`machine_model.assumptions`), so that what is
predicted over them has the range of the assumptions. Stated constants that were measured are taken as they are.

A limit: that calibrated links go on as their formula does with more ranks than were measured is taken for granted. In
the reference check (`held_out_ranks`) 14 of 15 all-reduces of four ranks over emulated links, learned on two, were off
by at most 22 %, and one took twice as long as predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanstudy.analysis.calibration.calibration import Calibration
from kanstudy.analysis.calibration.constants import Constants
from kanstudy.analysis.machine_model.assumptions import changed, constants, drawn_times
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.network.link import TIERS, tiers_of
from kanstudy.analysis.network.network import Network
from kanstudy.network_words import NOT_MEASURED
from kanstudy.spec import PointSpec


class PredictionError(ValueError):
    """What cannot be predicted; the message says why and what would help."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the ranks will lie: `ranks_per_node` on each of `nodes` (None: as many as it takes); the `stated` of the
    links are those of `network` (None: all are the calibration's); `memory_bytes` of a rank (None: unknown)."""

    ranks_per_node: int
    nodes: int | None = None
    network: Network | None = None
    stated: tuple[str, ...] = TIERS
    memory_bytes: float | None = None

    @property
    def assumed(self) -> tuple[str, ...]:
        """The tiers of links whose constants nobody measured."""
        return self.stated if self.network is not None and self.network.basis in NOT_MEASURED else ()

    def assumes(self, layout: Sequence[int]) -> bool:
        """Whether ranks laid out so use a link that is assumed."""
        return bool(set(tiers_of(layout)) & set(self.assumed))


def check(calibration: Calibration, point: PointSpec, site: Site) -> None:
    """Raise `NotCovered`, `TooFewSteps` or `PredictionError` where the calibration does not carry the point."""
    calibration.domain.check(point, needs_global_batch=point.scaling == "strong" and point.world_size > 1)
    calibration.steps.check(point.world_size)  # before a layout, which is as long as there are nodes
    _check_layout(calibration, _placed(calibration, site).layout(point), site)


def machines(calibration: Calibration, site: Site) -> list[MachineModel]:
    """The site's machine without noise: as estimated first, then refit by refit, each with its own draw of all that
    is assumed. They are the same for every point."""
    rng, placed = np.random.default_rng(0), _placed(calibration, site)
    names = [name for name in constants(placed) if name.rpartition(" ")[0] in site.assumed]
    drawn = [_on(refit, changed(placed, drawn_times(names, rng)), site) for refit in calibration.draws]
    return [_on(calibration.constants, placed, site), *drawn]


def links_text(calibration: Calibration, site: Site, layout: Sequence[int]) -> str:
    """Which links ranks laid out so use, and where their constants come from; "none" of one rank."""
    texts = {
        tier: f"{site.network.name} ({site.network.basis})"
        if site.network is not None and tier in site.stated
        else f"{calibration.device_name} ({calibration.source})"
        for tier in tiers_of(layout)
    }
    if len(set(texts.values())) < 2:
        return next(iter(texts.values()), "none")
    return f"inside nodes {texts['inside']}, between nodes {texts['between']}"


def _placed(calibration: Calibration, site: Site) -> MachineModel:
    """The machine before the constants: where the ranks lie and what is between them."""
    own = calibration.machine
    return replace(own, ranks_per_node=site.ranks_per_node, nodes=site.nodes, network=site.network or own.network)


def _on(found: Constants, placed: MachineModel, site: Site) -> MachineModel:
    """The machine with these constants, but for links that the site states."""
    machine = found.on(placed)
    stated = {tier: getattr(placed.network, tier) for tier in (site.stated if site.network is not None else ())}
    return replace(machine, network=replace(machine.network, **stated))


def _check_layout(calibration: Calibration, layout: Sequence[int], site: Site) -> None:
    # of one rank alone nothing is known of neighbours, which the calibration's notes say
    if max(layout) > calibration.node_ranks > 1:
        raise PredictionError(
            f"{max(layout)} ranks on a node: {calibration.node_ranks} at once are calibrated, and contention is not"
            f" predicted beyond; measure the calibration with {max(layout)} ranks a node"
        )
    if site.network is not None:
        kept, own = set(tiers_of(layout)) - set(site.stated), calibration.machine.network.algorithm
        if kept and site.network.algorithm != own:
            raise PredictionError(
                f"algorithm = {site.network.algorithm!r} of [network]: the links {' and '.join(kept)} nodes are"
                f" calibrated as {own}'s, must be {own!r}"
            )
        return
    p = sum(layout)
    if len(layout) > 1 and calibration.constants.between_latency_s is None:
        raise PredictionError(
            f"world size {p} is on {len(layout)} nodes, and no network between nodes is calibrated: state"
            " [network] in the profile, or calibrate on two nodes with placements packed and spread in [cluster]"
        )
    if max(layout) > 1 and calibration.constants.inside_latency_s is None:
        why = "; ".join(calibration.notes) or "no all-reduce was measured"
        raise PredictionError(f"world size {p}: the links inside a node are not calibrated ({why})")
