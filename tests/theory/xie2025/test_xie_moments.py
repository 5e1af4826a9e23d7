"""Exact moments against exact quadrature, and the loss of any attention against sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xie_laws import laws, random_law, sample, standard_errors_off

from iclearn.core.errors import IclearnError
from iclearn.models.features import GramQuery
from iclearn.theory.xie2025 import (
    Law,
    LSAWeights,
    feature_moments,
    gram_moments,
    lsa_coefficients,
    lsa_loss,
)


def quadrature_moments(law: Law) -> tuple[np.ndarray, np.ndarray, float]:
    """All moments by Gauss-Hermite quadrature over every normal variable: exact, since none has a power above 4."""
    dim, context = law.dim, law.context_len
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    count = dim + context * dim + context + dim
    points = np.array(list(itertools.product(nodes, repeat=count)))
    mass = np.array(list(itertools.product(weights / weights.sum(), repeat=count))).prod(1)
    z_w, z_x, z_noise, z_q = np.split(points, np.cumsum([dim, context * dim, context]), axis=1)
    root = np.linalg.cholesky(law.inputs)
    w = law.mean + z_w @ np.linalg.cholesky(law.prior).T
    x = z_x.reshape(-1, context, dim) @ root.T
    y = np.einsum("ncd,nd->nc", x, w) + np.sqrt(law.noise) * z_noise
    query = z_q @ root.T
    tokens = np.concatenate([x, y[..., None]], -1)
    gram = tokens.swapaxes(1, 2) @ tokens / context
    rows, cols = GramQuery(dim, 1, "context").pairs
    attended = np.einsum("ns,nj->nsj", gram[:, rows, cols], query).reshape(len(points), -1)
    features = np.concatenate([query, attended], 1)
    target = np.sum(w * query, 1)
    return (features * mass[:, None]).T @ features, features.T @ (mass * target), float(mass @ target**2)


@pytest.mark.parametrize(("dim", "context", "noise"), [(1, 3, 0.6), (2, 1, 0.4), (2, 2, 0.0), (2, 2, 0.9)])
def test_feature_moments_are_exact_and_ordered_as_the_model_reads_them(dim, context, noise):
    law = random_law(np.random.default_rng(dim + context), dim, context, noise)
    second, cross, constant = feature_moments(law)
    expected = quadrature_moments(law)
    np.testing.assert_allclose(second, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(cross, expected[1], rtol=1e-12, atol=1e-12)
    assert constant == pytest.approx(expected[2], rel=1e-13)


def test_moments_have_the_size_the_model_needs():
    moments = feature_moments(Law.isotropic(10, 10, 3))
    assert moments.second.shape == (670, 670)
    assert moments.cross.shape == (670,)
    assert moments.second.shape[0] == 10 + GramQuery(10, 1, "context").size
    assert np.linalg.eigvalsh(moments.second)[0] > 0


@given(laws(), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_the_loss_of_a_random_lsa_is_the_quadratic_form_of_its_features(law, num_heads, seed):
    rng = np.random.default_rng(seed)
    size = law.dim + 1
    weights = LSAWeights(
        rng.standard_normal((num_heads, size)),
        rng.standard_normal((num_heads, size, size)),
        rng.standard_normal(law.dim),
    )
    second, cross, constant = feature_moments(law)
    flat = lsa_coefficients(weights).ravel()
    form = flat @ second @ flat - 2 * cross @ flat + constant
    assert lsa_loss(law, *weights) == pytest.approx(form, rel=1e-11)
    assert lsa_loss(gram_moments(law), *weights) == lsa_loss(law, *weights)


@pytest.mark.parametrize(("num_heads", "noise", "seed"), [(1, 0.0, 0), (2, 0.5, 1), (5, 0.0, 2)])
def test_the_loss_of_a_random_lsa_is_what_sampling_gives(num_heads, noise, seed):
    rng = np.random.default_rng(seed)
    law = random_law(rng, 3, 6, noise)
    p, q, guess = (0.5 * rng.standard_normal(shape) for shape in [(num_heads, 4), (num_heads, 4, 4), (law.dim,)])
    draws = sample(law, 200_000, seed)
    g = draws.query @ guess
    read = np.column_stack([draws.query, g])
    prediction = g + np.einsum("ha,nab,hbc,nc->n", p, draws.gram, q, read, optimize=True)
    assert standard_errors_off(prediction, draws.target, lsa_loss(law, p, q, guess)) < 4


def test_heads_act_only_through_their_sum():
    rng = np.random.default_rng(3)
    law = random_law(rng, 3, 5, 0.2)
    p, q = rng.standard_normal((6, 4)), rng.standard_normal((6, 4, 4))
    tensor = np.einsum("ha,hbc->abc", p, q)
    merged = lsa_loss(law, np.eye(4), tensor)  # d+1 heads do what six did
    assert merged == pytest.approx(lsa_loss(law, p, q), rel=1e-12)


@pytest.mark.parametrize(
    ("given_arguments", "message"),
    [
        ({"mean": np.zeros((2, 2))}, "must be a vector"),
        ({"context_len": 0}, "context_len must be at least 1, not 0"),
        ({"noise": -1.0}, "must be finite and at least 0"),
        ({"inputs": np.eye(3)}, r"needs \(2, 2\)"),
        ({"prior": np.diag([1.0, 0.0])}, "positive definite"),
        ({"prior": np.array([[1.0, 0.5], [0.0, 1.0]])}, "symmetric"),
    ],
)
def test_an_impossible_law_is_refused_in_one_line(given_arguments, message):
    arguments = {"mean": np.ones(2), "context_len": 3} | given_arguments
    with pytest.raises(IclearnError, match=message) as error:
        Law(**arguments)
    assert "\n" not in str(error.value)


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(IclearnError, match=r"need \(heads, 3\)"):
        lsa_loss(Law(np.ones(2), 3), np.ones((1, 4)), np.ones((1, 4, 4)))
    with pytest.raises(IclearnError, match="the guess has shape"):
        Law(np.ones(2), 3).guess(np.ones(3))
