"""Links of a site: which are stated and which calibrated, who is said to have measured them, what assuming costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibrated import MACHINE, NETWORK, exact, noisy, records, strong_point

from kanstudy.analysis.calibration.calibration import calibrate
from kanstudy.analysis.machine_model.expected import expected
from kanstudy.analysis.network.link import TIERS
from kanstudy.analysis.network.network import Link
from kanstudy.analysis.prediction.predict import NEW_LAUNCH, ONE_LAUNCH, SCENARIO, predict
from kanstudy.analysis.prediction.site import PredictionError, Site, machines
from kanstudy.analysis.prediction.widening import Widening

FABRIC = replace(NETWORK, name="fabric", inside=Link(latency_s=2e-4, bytes_per_s=1e9), basis="assumed")


def of(network, **changes):
    return Site(ranks_per_node=2, network=network, **changes)


@pytest.mark.parametrize("basis", ["assumed", "profile"])
@pytest.mark.parametrize("p", [8, 64])
def test_assumed_constants_have_a_range_and_measured_ones_none(basis: str, p: int) -> None:
    """Of the known machine without noise nothing else is uncertain: the step lies between those over links with every
    constant half as good and twice as good, and where communication counts it is not known closely."""
    assumed, measured = (
        predict(exact(), [strong_point(p)], of(replace(FABRIC, basis=known))).iloc[0] for known in (basis, "measured")
    )
    assert assumed["step_time_s"] == measured["step_time_s"]
    assert measured["step_time_s_high"] / measured["step_time_s_low"] < 1.03
    ends = [
        Link(latency_s=times * link.latency_s, bytes_per_s=link.bytes_per_s / times)
        for times in (0.5, 2)
        for link in (FABRIC.inside, FABRIC.between)
    ]
    networks = [replace(FABRIC, inside=inside, between=between) for inside, between in (ends[:2], ends[2:])]
    best, worst = (expected(strong_point(p), replace(MACHINE, network=network)).step_time_s for network in networks)
    assert 0.98 * best < assumed["step_time_s_low"] < 0.9 * assumed["step_time_s"]
    assert 1.1 * assumed["step_time_s"] < assumed["step_time_s_high"] < 1.02 * worst


def test_every_constant_of_assumed_links_is_drawn_and_no_other() -> None:
    first, *drawn = machines(exact(), of(FABRIC, stated=("between",)))
    assert first.network.between == FABRIC.between
    for name in ("latency_s", "bytes_per_s"):
        times = np.array([getattr(one.network.between, name) for one in drawn]) / getattr(FABRIC.between, name)
        assert 0.5 <= times.min() < 0.6
        assert 1.7 < times.max() <= 2
        calibrated = [getattr(one.network.inside, name) for one in drawn]
        assert calibrated == pytest.approx([getattr(NETWORK.inside, name)] * len(drawn), rel=2e-3)


def test_scenario_ranges_have_no_level_and_say_what_they_hold() -> None:
    calibration = calibrate(records(noisy(0), seed=3))
    two, eight = strong_point(2), strong_point(8)
    certain = replace(FABRIC, basis="measured")

    def found(point, site, widening=None) -> tuple[str, float, str]:
        row = predict(calibration, [point], site, widening).iloc[0]
        return row["interval"], row["level"], row["holds"]

    assert found(two, of(certain)) == (ONE_LAUNCH, 0.95, f"95% {ONE_LAUNCH}")
    assert found(two, None, Widening(level=0.8, settings=9)) == (NEW_LAUNCH, 0.8, f"80% {NEW_LAUNCH}")
    for point, site, words in (
        (two, of(FABRIC), "each assumed constant of the links from half to twice its value"),
        (eight, of(FABRIC), "each assumed constant of the links from half to twice its value"),
        (eight, of(certain), "if what up to 2 ranks showed goes on beyond"),
    ):
        interval, level, holds = found(point, site)
        assert interval == SCENARIO
        assert np.isnan(level)
        assert words in holds
        assert "%" not in holds


def test_inside_a_node_calibrated_links_stay_what_they_are_whatever_is_stated_between() -> None:
    calibration = calibrate(records(noisy(0), seed=3))
    point = strong_point(2)
    plain = predict(calibration, [point]).iloc[0]
    beside = predict(calibration, [point], of(FABRIC, stated=("between",))).iloc[0]
    assert beside.equals(plain)
    assert plain["exposed_s_low"] < plain["exposed_s_high"]


def test_every_link_is_of_who_measured_or_assumed_it() -> None:
    for source in ("measured", "simulated"):
        calibration = replace(exact(), source=source)
        own = f"{calibration.device_name} ({source})"
        for point, site, text in (
            (strong_point(2), None, own),
            (strong_point(1), None, "none"),
            (strong_point(2), of(FABRIC), "fabric (assumed)"),
            (strong_point(8), of(FABRIC), "fabric (assumed)"),
            (strong_point(2), of(FABRIC, stated=("between",)), own),
            (
                strong_point(8),
                of(FABRIC, stated=("between",)),
                f"inside nodes {own}, between nodes fabric (assumed)",
            ),
        ):
            assert predict(calibration, [point], site).iloc[0]["network"] == text


@pytest.mark.parametrize("tier", TIERS)
def test_the_stated_links_alone_take_the_place_of_calibrated_ones(tier: str) -> None:
    slow = replace(FABRIC, **{tier: Link(latency_s=1e-2, bytes_per_s=1e7)}, basis="measured")
    point = strong_point(8)
    found = predict(exact(), [point], of(slow, stated=("between",))).iloc[0]
    network = replace(slow, inside=NETWORK.inside)
    assert found["step_time_s"] == pytest.approx(
        expected(point, replace(MACHINE, network=network)).step_time_s, rel=3e-3
    )


def test_calibrated_links_are_not_read_as_those_of_another_algorithm() -> None:
    ring = replace(FABRIC, algorithm="ring")
    with pytest.raises(
        PredictionError, match=r"algorithm = 'ring' of \[network\]: the links inside nodes .* must be 'gloo'"
    ):
        predict(exact(), [strong_point(8)], of(ring, stated=("between",)))
    predict(exact(), [strong_point(8)], of(ring))
    predict(exact(), [strong_point(2, placement="spread")], of(ring, stated=("between",)))
