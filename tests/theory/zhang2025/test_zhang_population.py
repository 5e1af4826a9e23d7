"""The population loss against sampled prompts, and the force against its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    eigenpairs,
    force,
    gain_of,
    inflation,
    population_loss,
    second_moment,
    spectrum,
)

seeds = st.integers(0, 10**6)


def random_covariance(rng: np.random.Generator, dim: int) -> np.ndarray:
    factor = rng.normal(size=(dim, dim))
    return factor @ factor.T / dim + 0.05 * np.eye(dim)


@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize(("dim", "context_len", "normalize"), [(3, 4, "context"), (2, 7, "none"), (4, 2, "tokens")])
def test_loss_is_the_mean_squared_error_over_prompts(dim, context_len, normalize, noise):
    rng = np.random.default_rng(dim)
    cov = random_covariance(rng, dim)
    gain = gain_of(normalize, context_len)
    effective = rng.normal(size=(dim, dim)) / gain
    num = 200_000
    root = np.linalg.cholesky(cov)
    x = rng.normal(size=(num, context_len + 1, dim)) @ root.T
    w = rng.normal(size=(num, dim))
    y = np.einsum("pnd,pd->pn", x, w)
    y[:, :-1] += noise**0.5 * rng.normal(size=(num, context_len))
    scale = {"context": 1 / context_len, "none": 1.0, "tokens": 1 / (context_len + 1)}[normalize]
    seen = np.einsum("pn,pnd->pd", y[:, :-1], x[:, :-1]) * scale
    errors = (y[:, -1] - np.einsum("pi,ij,pj->p", seen, effective, x[:, -1])) ** 2
    expected = float(population_loss(effective, cov, context_len, gain=gain, noise=noise))
    assert abs(errors.mean() - expected) < 5 * errors.std() / num**0.5


noises = st.sampled_from([0.0, 0.1, 3.0])


@given(seeds, st.sampled_from([1, 4]), st.integers(1, 50), st.floats(0.3, 40), noises)
@settings(max_examples=20, deadline=None)
def test_force_is_minus_half_the_gradient_and_gain_only_rescales(seed, dim, context_len, gain, noise):
    rng = np.random.default_rng(seed)
    cov, effective = random_covariance(rng, dim), rng.normal(size=(dim, dim))
    slope = jax.grad(lambda w: population_loss(w, cov, context_len, gain=gain, noise=noise))(jnp.asarray(effective))
    pushed = force(jnp.asarray(effective), jnp.asarray(cov), context_len, gain, noise)
    np.testing.assert_allclose(pushed, -slope / 2, rtol=1e-10, atol=1e-10 * np.abs(slope).max())
    plain = population_loss(effective, cov, context_len, noise=noise)
    scaled = population_loss(effective / gain, cov, context_len, gain=gain, noise=noise)
    np.testing.assert_allclose(scaled, plain, rtol=1e-11)


@given(seeds, st.sampled_from([1, 4]), st.integers(1, 50), noises)
@settings(max_examples=20, deadline=None)
def test_inflation_is_the_second_moment_over_the_square(seed, dim, context_len, noise):
    cov = random_covariance(np.random.default_rng(seed), dim)
    values, vectors = eigenpairs(cov)
    moment = vectors.T @ np.asarray(second_moment(cov, context_len, noise)) @ vectors
    np.testing.assert_allclose(moment, np.diag(values**2 * inflation(values, context_len, noise=noise)), atol=1e-11)
    np.testing.assert_allclose(vectors * values @ vectors.T, cov, atol=1e-12)


def test_infinite_context_has_no_inflation():
    assert inflation([0.5, 0.2], np.inf).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [[], [0.5, 0.0], [0.5, -1.0], [np.nan], [[1.0]]])
def test_spectra_that_are_none_are_refused(bad):
    with pytest.raises(IclearnError, match="eigenvalues must be"):
        spectrum(bad)


@pytest.mark.parametrize("bad", [-0.1, np.inf, np.nan])
def test_noise_that_is_no_variance_is_refused(bad):
    with pytest.raises(IclearnError, match="noise, a variance, must be finite and not negative"):
        inflation([0.5], 31, noise=bad)


def test_unknown_normalization_names_the_choices():
    with pytest.raises(IclearnError, match="context, none, tokens"):
        gain_of("batch", 4)
