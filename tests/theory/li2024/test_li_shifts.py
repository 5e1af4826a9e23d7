"""Shift identities, in both directions, and when the converse fails."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.theory.li2024 import (
    data_for_weight_shift,
    data_shift_target,
    loss,
    prediction,
    weight_for_data_shift,
    weight_shift_target,
)

NUM = 500
sizes = st.sampled_from([(3, 6), (20, 5)])
seeds = st.integers(0, 2**32 - 1)


def draw(size: tuple[int, int], seed: int) -> tuple[jax.Array, ...]:
    rng = np.random.default_rng(seed)
    words, dim = size
    data, moved = rng.standard_normal((2, NUM, words, dim))
    weights, change = rng.standard_normal((2, NUM, dim))
    return tuple(jnp.asarray(a) for a in (data, moved, weights, change, rng.dirichlet(np.ones(words), NUM)))


predict = jax.jit(jax.vmap(prediction))
find_weights = jax.jit(jax.vmap(weight_for_data_shift))


@given(sizes, seeds)
@settings(deadline=None, max_examples=20)
def test_a_shift_is_a_change_of_target(size, seed):
    data, moved, weights, change, target = draw(size, seed)
    new_weights, new_data = weights + change, data + moved
    by_weight = jax.vmap(weight_shift_target)(data, target, weights, new_weights)
    np.testing.assert_allclose(predict(data, new_weights) - target, predict(data, weights) - by_weight, atol=1e-13)
    by_data = jax.vmap(data_shift_target)(data, new_data, target, weights)
    np.testing.assert_allclose(predict(new_data, weights) - target, predict(data, weights) - by_data, atol=1e-13)
    after, before = jax.vmap(loss)(new_data, target, weights), jax.vmap(loss)(data, by_data, weights)
    np.testing.assert_allclose(after, before, atol=1e-13)


@given(sizes, seeds)
@settings(deadline=None, max_examples=20)
def test_a_weight_shift_is_a_data_shift(size, seed):
    data, _, weights, change, _ = draw(size, seed)
    # rounding grows with ‖A‖‖Δx‖: weights of length between ½ and 2 keep the identity at 1e-13
    length = jnp.asarray(np.random.default_rng(seed).uniform(0.5, 2, (NUM, 1)))
    weights = length * weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
    new_data = jax.vmap(data_for_weight_shift)(data, weights, change)
    np.testing.assert_allclose(
        jnp.einsum("nwd,nd->nw", new_data, weights),
        jnp.einsum("nwd,nd->nw", data, weights + change),
        rtol=1e-13,
        atol=1e-13,
    )
    np.testing.assert_allclose(predict(new_data, weights), predict(data, weights + change), atol=1e-13)


@given(sizes, seeds)
@settings(deadline=None, max_examples=20)
def test_a_data_shift_in_range_is_a_weight_shift(size, seed):
    data, _, weights, change, _ = draw(size, seed)
    rng = np.random.default_rng(seed + 1)
    unit = weights / jnp.sum(weights**2, 1, keepdims=True)
    # (A' − A)x = A·change + constant, and anything that x does not see
    logits = jnp.einsum("nwd,nd->nw", data, change) + rng.standard_normal((NUM, 1))
    unseen = jnp.asarray(rng.standard_normal(data.shape))
    unseen = unseen - jnp.einsum("nwd,nd,ne->nwe", unseen, weights, unit)
    new_data = data + logits[..., None] * unit[:, None, :] + unseen
    shift = find_weights(data, new_data, weights)
    assert float(shift.unreachable.max()) < 1e-10
    np.testing.assert_allclose(predict(data, weights + shift.change), predict(new_data, weights), atol=1e-10)


@given(seeds)
@settings(deadline=None, max_examples=10)
def test_a_data_shift_out_of_range_is_not(seed):
    data, moved, weights, _, _ = draw((20, 5), seed)  # 20 words, and range(A) + span(1) has 6 dimensions
    shift = find_weights(data, data + moved, weights)
    assert float(shift.unreachable.min()) > 1e-3
    # the distance left is that to range(A) + span(1), by another route
    for i in range(5):
        space = np.linalg.qr(np.column_stack([data[i], np.ones(20)]))[0]
        wanted = np.asarray(moved[i] @ weights[i])
        left = np.linalg.norm(wanted - space @ (space.T @ wanted))
        np.testing.assert_allclose(shift.unreachable[i], left, rtol=1e-11)
    # and it is how far the log-probabilities are apart, up to a constant: so the two predictions differ
    apart = jnp.log(predict(data, weights + shift.change)) - jnp.log(predict(data + moved, weights))
    apart = jnp.linalg.norm(apart - apart.mean(1, keepdims=True), axis=1)
    np.testing.assert_allclose(apart, shift.unreachable, rtol=1e-9)


@given(seeds)
@settings(deadline=None, max_examples=10)
def test_with_fewer_words_than_dimensions_every_data_shift_is_a_weight_shift(seed):
    data, moved, weights, _, _ = draw((3, 6), seed)
    shift = find_weights(data, data + moved, weights)
    assert float(shift.unreachable.max()) < 1e-10
