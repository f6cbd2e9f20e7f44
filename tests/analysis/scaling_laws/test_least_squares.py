from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanstudy.analysis.scaling_laws.fits import akaike_weight
from kanstudy.analysis.scaling_laws.least_squares import CONDITION_LIMIT, METHOD, Fit, fit
from kanstudy.analysis.scaling_laws.models import ALPHA_BETA, AMDAHL, GUSTAFSON, USL, Model

SIZES = 2.0 ** np.arange(7)
MESSAGES = 2.0 ** np.arange(10, 26, 2)
LAWS = {
    "Amdahl": (AMDAHL, SIZES, (0.98, 0.06)),
    "Gustafson": (GUSTAFSON, SIZES, (0.97, 0.12)),
    "USL": (USL, SIZES, (0.99, 0.05, 2e-3)),
    "alpha-beta": (ALPHA_BETA, MESSAGES, (60e-6, 3e9)),
}


def noisy(model: Model, values, x: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    return model.curve(np.array(values), x) * np.exp(noise * rng.standard_normal(len(x)))


def test_the_laws_are_those_of_the_books() -> None:
    p = np.array([1.0, 4.0, 16.0])
    assert AMDAHL.curve(np.array([1.0, 0.1]), p) == pytest.approx([1, 1 / (0.1 + 0.9 / 4), 1 / (0.1 + 0.9 / 16)])
    assert GUSTAFSON.curve(np.array([1.0, 0.1]), p) == pytest.approx(p - 0.1 * (p - 1))
    # without coherency the universal law is Amdahl's, with s for σ
    assert USL.curve(np.array([1.0, 0.1, 0.0]), p) == pytest.approx(AMDAHL.curve(np.array([1.0, 0.1]), p))
    many = np.arange(1, 200)
    peak = many[np.argmax(USL.curve(np.array([1.0, 0.04, 1e-3]), many))]
    assert abs(peak - np.sqrt((1 - 0.04) / 1e-3)) < 1
    assert ALPHA_BETA.curve(np.array([1e-5, 1e9]), np.array([0.0, 1e6])) == pytest.approx([1e-5, 1e-5 + 1e-3])


@pytest.mark.parametrize("name", LAWS)
def test_points_on_the_law_give_its_parameters_back(name: str) -> None:
    model, x, values = LAWS[name]
    found = fit(model, x, model.curve(np.array(values), x))
    assert not found.refused
    for estimate, value in zip(found.parameters.values(), values, strict=True):
        assert estimate.value == pytest.approx(value, rel=1e-5)
        assert (estimate.method, estimate.n, estimate.coverage) == (METHOD, len(x), 0.95)
    assert found.residual_sd < 1e-6
    value, low, high = found.predicted(4 * x)
    assert value == pytest.approx(model.curve(np.array(values), 4 * x))
    assert (low <= value).all()
    assert (value <= high).all()


@settings(max_examples=60, deadline=None)
@given(
    serial=st.floats(0.02, 0.5),
    coherency=st.floats(1e-3, 1e-2),
    scale=st.floats(0.5, 2e4),
    alpha=st.floats(1e-6, 1e-3),
    bandwidth=st.floats(1e8, 1e10),
    seed=st.integers(0, 10**6),
)
def test_noise_moves_the_parameters_no_further_than_their_intervals_say(
    serial, coherency, scale, alpha, bandwidth, seed
) -> None:
    """Within eight times the reach: with 4 degrees of freedom a t beyond that has a probability of 2e-5."""
    rng = np.random.default_rng(seed)
    truths = [(AMDAHL, SIZES, (scale, serial)), (GUSTAFSON, SIZES, (scale, serial))]
    truths += [(USL, SIZES, (scale, serial, coherency)), (ALPHA_BETA, MESSAGES, (alpha, bandwidth))]
    for model, x, values in truths:
        found = fit(model, x, noisy(model, values, x, 0.003, rng))
        if found.refused:  # latency that no message shows, or contention that noise hides
            assert "must lie" in found.reason
            continue
        for item, estimate, value in zip(model.parameters, found.parameters.values(), values, strict=True):
            of = np.log if item.scale else float
            reach = of(estimate.high) - of(estimate.value)
            assert abs(of(estimate.value) - of(value)) < 8 * reach, (model.name, item.name)


def test_a_unit_of_work_changes_the_scale_alone() -> None:
    y = noisy(USL, (1.0, 0.05, 2e-3), SIZES, 0.02, np.random.default_rng(1))
    one, other = fit(USL, SIZES, y), fit(USL, SIZES, 1234.5 * y)
    assert other.parameters["scale"].value == pytest.approx(1234.5 * one.parameters["scale"].value)
    for name in ("contention", "coherency"):
        assert other.parameters[name].value == pytest.approx(one.parameters[name].value, rel=1e-5)
        assert other.parameters[name].high == pytest.approx(one.parameters[name].high, rel=1e-4)
    assert other.aicc == pytest.approx(one.aicc, abs=1e-4)


def test_least_squares_means_least() -> None:
    model, x, values = LAWS["USL"]
    y = noisy(model, values, x, 0.05, np.random.default_rng(2))
    found = fit(model, x, y)
    assert found.residuals == pytest.approx(np.log(y / model.curve(found.values, x)))
    best = (found.residuals**2).sum()
    for place in range(3):
        for factor in (0.99, 1.01):
            other = np.array(found.values)
            other[place] *= factor
            assert (np.log(y / model.curve(other, x)) ** 2).sum() > best


def test_too_few_world_sizes_are_refused_however_often_each_was_measured() -> None:
    for model, enough in ((AMDAHL, 4), (USL, 5)):
        for n in range(enough):
            x = np.repeat(SIZES[:n], 3)
            found = fit(model, x, AMDAHL.curve(np.array([1, 0.1]), x) * np.linspace(1, 1.1, len(x)))
            assert found.refused
            assert f"need at least {enough}" in found.reason
            assert all(np.isnan(estimate.value) for estimate in found.parameters.values())
            with pytest.raises(ValueError, match="was not fitted"):
                found.predicted(x)
    found = fit(AMDAHL, SIZES[:4], noisy(AMDAHL, (1, 0.1), SIZES[:4], 0.01, np.random.default_rng(0)))
    assert not found.refused
    assert "4 world sizes" not in found.reason


def test_parameters_that_mean_nothing_are_refused() -> None:
    superlinear = SIZES**1.1
    found = fit(AMDAHL, SIZES, superlinear)
    assert found.refused
    assert "serial fraction s -" in found.reason
    assert "between 0 and 1" in found.reason
    slower = fit(AMDAHL, SIZES, SIZES**-0.3)
    assert slower.refused
    assert "between 0 and 1" in slower.reason
    flattens = fit(USL, SIZES, SIZES / (1 + 0.05 * (SIZES - 1) - 2e-4 * SIZES * (SIZES - 1)))
    assert flattens.refused
    assert "coherency κ" in flattens.reason
    large = 2.0 ** np.arange(20, 26)
    no_latency = fit(ALPHA_BETA, large, large**1.05 / 1e9)
    assert no_latency.refused
    assert "latency" in no_latency.reason


def test_parameters_that_stand_in_for_each_other_are_refused() -> None:
    far = np.array([1.0, 1.01, 1.02, 1.03, 1.04])
    found = fit(USL, far, USL.curve(np.array([1.0, 0.3, 0.01]), far))
    assert found.refused
    assert "ill-conditioned" in found.reason
    assert found.condition > CONDITION_LIMIT


@pytest.mark.parametrize("name", LAWS)
def test_what_the_condition_limit_lets_through_is_what_is_usually_measured(name: str) -> None:
    model, x, values = LAWS[name]
    for places in (x[:5], x):
        found = fit(model, places, model.curve(np.array(values), places))
        assert 1 <= found.condition < CONDITION_LIMIT / 2


def test_aicc_is_that_of_the_books_and_missing_where_it_is_infinite() -> None:
    y = noisy(AMDAHL, (1, 0.1), SIZES, 0.05, np.random.default_rng(3))
    found = fit(AMDAHL, SIZES, y)
    rss, n, k = (found.residuals**2).sum(), 7, 3  # the variance is a parameter, too
    assert found.aicc == pytest.approx(n * np.log(rss / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1))
    four = fit(AMDAHL, SIZES[:4], y[:4])
    assert not four.refused
    assert np.isnan(four.aicc)
    assert np.isnan(Fit(AMDAHL, SIZES, y, "refused").aicc)


def test_weights_sum_to_one_and_follow_the_difference() -> None:
    found = [akaike_weight(value, [10.0, 12.0, np.nan]) for value in (10.0, 12.0, np.nan)]
    assert found[0] / found[1] == pytest.approx(np.e)
    assert found[0] + found[1] == pytest.approx(1)
    assert np.isnan(found[2])
    assert np.isnan(akaike_weight(10.0, [10.0, np.nan]))  # nothing to compare with


def test_aicc_prefers_the_law_that_the_points_came_from() -> None:
    sizes = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64], dtype=float)
    rng = np.random.default_rng(4)
    for truth, values in ((AMDAHL, (1.0, 0.05)), (USL, (1.0, 0.05, 5e-4))):
        right = 0
        for _ in range(40):
            y = noisy(truth, values, sizes, 0.03, rng)
            fits = {model.name: fit(model, sizes, y) for model in (AMDAHL, USL)}
            best = min((item for item in fits.values() if not item.refused), key=lambda item: item.aicc)
            right += best.model is truth
        assert right >= 34, truth.name


def test_the_band_is_wider_the_farther_it_reaches_and_holds_new_points() -> None:
    rng = np.random.default_rng(5)
    beyond, inside = np.array([128.0, 256.0]), 0
    for _ in range(400):
        found = fit(AMDAHL, SIZES, noisy(AMDAHL, (1.0, 0.06), SIZES, 0.03, rng))
        _, low, high = found.predicted(beyond)
        width = np.log(high / low)
        assert width[1] > width[0]
        new = noisy(AMDAHL, (1.0, 0.06), beyond, 0.03, rng)
        inside += ((low < new) & (new < high)).sum()
    assert 0.92 < inside / 800 < 0.98


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_intervals_cover_their_parameters(name: str) -> None:
    """2,000 draws: a true coverage of 95 % comes out between 93.5 and 96.5 % with 99.8 % probability."""
    model, x, values = LAWS[name]
    rng = np.random.default_rng(6)
    covered = np.zeros(len(values))
    for _ in range(2000):
        found = fit(model, x, noisy(model, values, x, 0.03, rng))
        assert not found.refused, found.reason
        covered += [e.low < value < e.high for e, value in zip(found.parameters.values(), values, strict=True)]
    assert (covered / 2000 > 0.935).all(), covered
    assert (covered / 2000 < 0.965).all(), covered
