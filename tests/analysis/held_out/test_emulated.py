from __future__ import annotations

import numpy as np
import pytest
from known_machine import HOSTS, MACHINE, PROFILE, calibration_records, measured

from kanstudy.analysis.calibration.calibration import calibrate
from kanstudy.analysis.held_out import emulated
from kanstudy.study import held_out


@pytest.fixture(scope="module")
def law():
    return emulated.learn(measured(held_out.links_plan(PROFILE).points, 1, 1))


def test_the_law_of_links_is_found_and_holds_on_others(law):
    own, per_latency, per_byte, per_rate = law.coefficients
    assert own == pytest.approx(HOSTS.latency_s, rel=0.02)
    assert per_byte == pytest.approx(1 / HOSTS.bytes_per_s, rel=0.05)
    assert (per_latency, per_rate) == pytest.approx((1, 1), rel=0.01)
    assert not set(law.links) & set(held_out.LINKS)


def test_two_links_are_too_few_to_learn_from():
    records = measured(held_out.links_plan(PROFILE).points[:2], 1, 1)
    with pytest.raises(emulated.LinksError, match="over 2 emulated links: must be 3 or more"):
        emulated.learn(records)


def test_over_a_slower_link_the_cores_are_busy_with_it_for_a_smaller_share(law):
    calibration = calibrate(calibration_records())
    near = 1 / MACHINE.network.inside.bytes_per_s
    for text in ("50mbit:0ms", "200mbit:1ms"):
        link, there = law.link(text), emulated.over(calibration, law, text)
        assert there.constants.inside_latency_s == link.latency_s
        share = near * link.bytes_per_s
        assert 0 < share < 0.1
        assert there.constants.overlap_slowdown == pytest.approx(share * calibration.constants.overlap_slowdown)
        assert there.scatter.exposed.sd <= calibration.scatter.exposed.sd + law.residual_sd
        assert len(there.draws) == len(calibration.draws)
        assert there.machine.network.inside.bytes_per_s == pytest.approx(link.bytes_per_s)


def test_draws_of_the_law_spread_as_its_residuals_do(law):
    noisy = measured(held_out.links_plan(PROFILE).points, 1, 1)
    rng = np.random.default_rng(3)
    for record in noisy:
        for item in record.allreduce:
            item.times_s = [time * float(np.exp(0.05 * rng.standard_normal())) for time in item.times_s[:1]]
    found = emulated.learn(noisy)
    assert found.freedom == sum(len(record.allreduce) for record in noisy) - 4
    assert found.residual_sd == pytest.approx(0.05, rel=0.5)
    rates = found.draws[:, 3]
    assert abs(rates.mean() - 1) < 0.1
    assert 0.005 < rates.std() < 0.1
    assert law.draws.std(axis=0).max() < 1e-9
