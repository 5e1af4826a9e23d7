"""Gradient and Hessian in closed form against automatic differentiation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.theory.li2024 import gradient, hessian, logit_hessian, loss, prediction, softmax_jacobian


def instances(num: int, words: int, dim: int, scale: float, seed: int):
    """Documents, targets in the simplex and weights; logits of standard deviation about `scale`."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((num, words, dim))
    target = rng.dirichlet(np.full(words, 0.5), num)
    weights = scale * rng.standard_normal((num, dim)) / np.sqrt(dim)
    return jnp.asarray(data), jnp.asarray(target), jnp.asarray(weights)


@jax.jit
def both_ways(data, target, weights):
    closed = jax.vmap(gradient)(data, target, weights), jax.vmap(hessian)(data, target, weights)
    first = jax.vmap(jax.grad(loss, argnums=2))(data, target, weights)
    return closed, (first, jax.vmap(jax.hessian(loss, argnums=2))(data, target, weights))


@given(st.sampled_from([(2, 1), (3, 5), (40, 8)]), st.floats(0.01, 8), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_derivatives_are_those_of_the_loss(size, scale, seed):
    words, dim = size
    closed, automatic = both_ways(*instances(50, words, dim, scale, seed))
    for ours, theirs in zip(closed, automatic, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_softmax_jacobian_is_its_derivative_and_loses_constants():
    data, target, weights = (a[0] for a in instances(1, 6, 3, 1.0, 0))
    f = prediction(data, weights)
    assert float(f.sum()) == pytest.approx(1, rel=1e-15)
    expected = jax.jit(jax.jacobian(jax.nn.softmax))(data @ weights)
    np.testing.assert_allclose(softmax_jacobian(f), expected, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(softmax_jacobian(f) @ jnp.ones(6), 0, atol=1e-16)
    squared = lambda z: 0.5 * jnp.sum((jax.nn.softmax(z) - target) ** 2)  # noqa: E731
    curved = jax.jit(jax.hessian(squared))(data @ weights)
    np.testing.assert_allclose(logit_hessian(f, target), curved, rtol=1e-12, atol=1e-15)


def test_the_first_step_from_zero_is_the_one_of_the_experiment():
    data, target, _ = (a[0] for a in instances(1, 9, 4, 1.0, 1))
    centered = data - data.mean(0)
    np.testing.assert_allclose(gradient(centered, target, jnp.zeros(4)), -centered.T @ target / 9, atol=1e-16)


def test_huge_logits_stay_finite():
    data, target, weights = (a[0] for a in instances(1, 5, 2, 1.0, 2))
    for function in (loss, gradient, hessian):
        assert bool(jnp.all(jnp.isfinite(function(1e4 * data, target, weights))))
