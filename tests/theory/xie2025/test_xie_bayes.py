"""The posterior mean's loss: Wishart integrals against known moments and against sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xie_laws import random_covariance

from iclearn.theory.xie2025 import Law, bayes_loss, optimum, wishart_expectation


@given(st.integers(1, 25), st.integers(1, 25))
@settings(deadline=None, max_examples=40)
def test_wishart_integrals_give_the_known_moments(dim, num):
    assert wishart_expectation(np.ones_like, dim, num) == pytest.approx(min(dim, num), rel=1e-12)
    assert wishart_expectation(lambda x: x, dim, num) == pytest.approx(dim * num, rel=1e-12)
    square = dim * num * (dim + num + 1)
    assert wishart_expectation(lambda x: x**2, dim, num) == pytest.approx(square, rel=1e-12)
    if num > dim + 1:
        inverse = dim / (num - dim - 1)
        assert wishart_expectation(lambda x: 1 / x, dim, num, 1e-12) == pytest.approx(inverse, rel=1e-9)


def sampled_excess(dim: int, num: int, noise: float, seed: int) -> tuple[float, float]:
    """E tr(I + XᵀX/σ²)⁻¹ by the definition, with its standard error."""
    x = np.random.default_rng(seed).standard_normal((60_000, num, dim))
    values = np.linalg.eigvalsh(np.eye(dim) + x.swapaxes(1, 2) @ x / noise)
    traces = np.sum(1 / values, 1)
    return float(traces.mean()), float(traces.std() / np.sqrt(len(traces)))


@pytest.mark.parametrize(
    ("dim", "num", "noise"), [(10, 10, 0.25), (10, 10, 1.0), (3, 8, 0.5), (7, 4, 2.0), (1, 1, 0.1)]
)
def test_the_exact_loss_is_what_sampling_gives(dim, num, noise):
    mean, error = sampled_excess(dim, num, noise, seed=dim)
    exact = bayes_loss(Law.isotropic(dim, num, prior_norm=2.0, noise=noise))
    assert exact.standard_error == 0
    assert abs(exact.loss - mean) < 4 * error


@pytest.mark.parametrize(("num", "noise"), [(3, 0.5), (7, 2.0)])
def test_a_wider_prior_is_less_noise_in_other_units(num, noise):
    """w = √s w' with labels in units of √s: E tr Cov(w | context) = s E tr Cov(w' | context) at the noise σ²/s."""
    wide = bayes_loss(Law(np.zeros(4), num, prior=2.5 * np.eye(4), noise=noise)).loss
    assert wide == pytest.approx(2.5 * bayes_loss(Law.isotropic(4, num, noise=noise / 2.5)).loss, rel=1e-11)
    inputs = bayes_loss(Law(np.zeros(4), num, inputs=2.5 * np.eye(4), noise=noise)).loss
    assert inputs == pytest.approx(wide, rel=1e-11), "only Λ^½ΣΛ^½ counts"


def test_one_input_is_an_ordinary_integral():
    from scipy.integrate import quad

    noise = 0.3
    density = lambda z: np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / (1 + z**2 / noise)  # noqa: E731
    expected = quad(density, -np.inf, np.inf, epsabs=1e-13)[0]
    assert bayes_loss(Law.isotropic(1, 1, noise=noise)).loss == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("dim", "num"), [(4, 9), (4, 4), (9, 4)])
def test_limits_of_the_noise(dim, num):
    unseen = float(max(dim - num, 0))
    assert bayes_loss(Law.isotropic(dim, num)).loss == unseen
    assert bayes_loss(Law.isotropic(dim, num, noise=1e-12)).loss == pytest.approx(unseen, abs=1e-5)
    assert bayes_loss(Law.isotropic(dim, num, noise=1e9)).loss == pytest.approx(dim, rel=1e-7)


@pytest.mark.parametrize(("num", "noise"), [(6, 0.4), (3, 0.4), (3, 0.0)])
def test_other_priors_are_sampled_and_say_how_well(num, noise):
    nearly = np.eye(5) + 1e-9 * np.diag(np.arange(5.0))
    drawn = bayes_loss(Law(np.ones(5), num, prior=nearly, noise=noise), num_samples=40_000)
    exact = bayes_loss(Law(np.ones(5), num, noise=noise))
    assert abs(drawn.loss - exact.loss) < 4 * drawn.standard_error + 1e-8
    assert drawn.standard_error < 0.01


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0.0, 0.2, 2.0]))
@settings(deadline=None, max_examples=10)
def test_nothing_beats_bayes(seed, num, noise):
    rng = np.random.default_rng(seed)
    law = Law(rng.standard_normal(3), num, random_covariance(rng, 3), random_covariance(rng, 3), noise)
    bayes = bayes_loss(law, num_samples=2000)
    assert bayes.loss - 4 * bayes.standard_error < optimum(law).step_loss
    assert 0 <= bayes.loss <= law.label_variance
