"""Errors of predictors linear in the labels: closed forms, brute averages, and how much less they spread."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.models.predictors import (
    Averaging,
    ConjugateGradients,
    LeastSquares,
    Ridge,
)
from iclearn.probes import linear_errors

DIM, TOKENS = 4, 10


@pytest.fixture(scope="module")
def inputs() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, TOKENS, DIM))


def test_least_squares_without_noise_has_no_spread(inputs):
    found = linear_errors(LeastSquares(), inputs)
    np.testing.assert_allclose(found.mean, np.maximum(1 - np.arange(TOKENS) / DIM, 0), atol=1e-12)
    np.testing.assert_allclose(found.stderr, 0, atol=1e-12)


def test_means_are_the_closed_forms(inputs):
    noise, i = 0.25, np.arange(1, TOKENS)
    averaging = linear_errors(Averaging(), inputs, noise)
    gaps = np.asarray(averaging.mean[1:]) - ((DIM + 1) / i + noise / i)
    assert (np.abs(gaps) < 4 * np.asarray(averaging.stderr[1:])).all()
    fitted = linear_errors(LeastSquares(), inputs, noise)
    for n, mean in ((1, 1 - 1 / 4 + noise / 4 * 1 / 2), (2, 0.5 + noise / 4 * 2), (8, noise / 3), (9, noise / 4)):
        assert abs(float(fitted.mean[n]) - mean) < 4 * float(fitted.stderr[n]) + 1e-12


def test_the_mean_is_that_of_drawn_tasks_and_spreads_more_without_it(inputs):
    """The same sequences with drawn tasks, noise and their own next inputs as queries."""
    model, rng, noise = Ridge(0.3), np.random.default_rng(1), 0.2
    prior, cov = np.diag([2.0, 1.0, 0.5, 0.1]), np.eye(DIM)
    w = rng.normal(size=(len(inputs), DIM)) * np.sqrt(np.diag(prior))
    clean = np.einsum("ptd,pd->pt", inputs, w)
    shown = clean + noise**0.5 * rng.normal(size=clean.shape)
    answers = jax.jit(jax.vmap(model.predict_prefixes))(jnp.asarray(inputs), jnp.asarray(shown[..., None]))[..., 0]
    drawn = (np.asarray(answers) - clean) ** 2 / DIM
    found = linear_errors(model, inputs, noise, prior=prior, query=cov)
    spread = drawn.std(0, ddof=1) / len(inputs) ** 0.5
    assert (np.abs(drawn.mean(0) - np.asarray(found.mean)) < 4 * (spread + np.asarray(found.stderr))).all()
    assert (np.asarray(found.stderr)[1:] < spread[1:] / 3).all()


def test_predictors_that_are_not_linear_in_the_labels_are_refused(inputs):
    with pytest.raises(icl.IclearnError, match="ConjugateGradients is not linear in labels and query"):
        linear_errors(ConjugateGradients(2), inputs[:3])
