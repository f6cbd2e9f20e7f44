from __future__ import annotations

import numpy as np
import pytest

from kanstudy.analysis.held_out.conformal import conformal


def test_with_one_launch_each_it_is_split_conformal():
    distances = [np.array([float(value)]) for value in range(1, 11)]
    found = conformal(distances)
    assert (found.level, found.factor, found.settings) == (0.9, 10.0, 10)  # ceil(11 * 0.9) = 10th of 10
    assert found.coverage_left_out == pytest.approx(0.9)  # the largest alone is beyond what the others say


@pytest.mark.parametrize(("settings", "level"), [(4, None), (5, 0.8), (9, 0.8), (10, 0.9), (19, 0.9), (20, 0.95)])
def test_the_level_is_what_the_settings_carry(settings, level):
    found = conformal([np.ones(3)] * settings)
    if level is None:
        assert np.isnan([found.level, found.factor, found.coverage_left_out]).all()
    else:
        assert (found.level, found.factor, found.coverage_left_out) == (level, 1.0, 1.0)


def test_a_new_launch_of_a_new_setting_is_covered_at_least_at_the_level():
    """Settings that differ a lot, launches within them little: launches pooled would cover too little."""
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(2000):
        settings = np.abs(rng.standard_normal(11)) * 3
        launches = [setting * np.exp(0.1 * rng.standard_normal(5)) for setting in settings]
        found = conformal(launches[:-1])
        covered.append(launches[-1][0] <= found.factor)
        assert found.level == 0.9
    assert np.mean(covered) > 0.9 - 0.02
