"""The flow of all weights: it is the gradient's, it conserves, and aligned heads obey (21) exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    SeparateWeights,
    conserved_separate,
    gradient,
    gradient_flow,
    head_course,
    loss_of,
    random_merged,
    random_separate,
    read_weights,
    realize,
    saddle_weights,
    velocity,
)

VALUES = np.array([0.5, 0.3, 0.2])
COV = jnp.diag(jnp.asarray(VALUES))
COUNT = 2001  # the same number of times everywhere: compiled once


@pytest.mark.parametrize("family", ["merged", "separate"])
def test_velocity_is_minus_half_the_gradient(family):
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(4, 4))
    cov = jnp.asarray(factor @ factor.T)
    weights = random_merged(4, 3, 1.0, 0) if family == "merged" else random_separate(4, 3, 2, 1.0, 0)
    slope = gradient(weights, cov, 5, gain=2.5)
    moved = jax.jit(lambda w: velocity(w, cov, 5, gain=2.5))(weights)
    for one, other in zip(jax.tree.leaves(moved), jax.tree.leaves(slope), strict=True):
        np.testing.assert_allclose(one, -other / 2, rtol=1e-10, atol=1e-9)


def test_separate_flow_conserves_and_descends():
    weights = random_separate(3, 3, 2, 0.5, 1)
    path = gradient_flow(weights, COV, 31, np.linspace(0, 40, COUNT), gain=31.0)
    loss = np.asarray(loss_of(path, COV, 31, gain=31.0))
    assert loss[0] - loss[-1] > 0.1
    assert (np.diff(loss) < 1e-10).all()
    for kept in conserved_separate(path):
        np.testing.assert_allclose(kept, np.broadcast_to(kept[0], kept.shape), atol=1e-8)


@pytest.mark.parametrize("gain", [1.0, 31.0])
def test_aligned_heads_follow_the_scalar_ode_each_on_its_own(gain):
    limits = saddle_weights(VALUES, 31, gain=gain)
    starts = limits * np.array([0.05, 0.2, 0.1])
    pairs = jnp.asarray(np.diag(starts)[:, None, :])
    times = np.linspace(0, 150 / gain ** (2 / 3), COUNT)
    path = gradient_flow(SeparateWeights(jnp.asarray(starts), pairs, pairs), COV, 31, times, gain=gain)
    for head, lam in enumerate(VALUES):
        course = head_course(times, float(lam), 1.0, 31, float(starts[head]), gain=gain)
        np.testing.assert_allclose(path.value[:, head], course, rtol=1e-7)
        np.testing.assert_allclose(path.query[:, head, 0, head], course, rtol=1e-7)
    assert float(path.value[-1, 0]) == pytest.approx(limits[0], rel=1e-2)


def test_near_a_saddle_the_next_head_follows_the_scalar_ode():
    base = realize((0,), VALUES, 31, 3, gain=31.0)
    small = 1e-3
    pair = jnp.zeros((3, 1, 3)).at[1, 0, 1].set(small)
    start = SeparateWeights(base.value.at[1].set(small), base.key + pair, base.query + pair)
    times = np.linspace(0, 600, COUNT)
    path = gradient_flow(start, COV, 31, times, gain=31.0)
    course = head_course(times, 0.3, 1.0, 31, small, gain=31.0)
    np.testing.assert_allclose(path.value[:, 1], course, rtol=1e-6)
    np.testing.assert_allclose(path.value[:, 0], base.value[0], rtol=1e-7)


def test_weights_of_every_model_are_read():
    merged = random_merged(3, 2, 1.0, 0)
    full_value = np.zeros((2, 1, 4))
    full_value[:, 0, -1] = merged.value
    full_kq = np.concatenate([np.asarray(merged.kq), np.zeros((2, 3, 1))], -1)
    for arrays in (
        {"value": full_value, "kq": full_kq},
        {"value": np.asarray(merged.value)[:, None, None], "kq": merged.kq},
        {"second": np.asarray(merged.value)[None], "first": np.asarray(merged.kq).reshape(2, 9)},
    ):
        np.testing.assert_array_equal(read_weights(arrays).effective(), merged.effective())
    with pytest.raises(IclearnError, match="one output"):
        read_weights({"value": np.zeros((2, 3, 3)), "kq": np.zeros((2, 3, 3))})
    with pytest.raises(IclearnError, match="weights named key, value cannot be read"):
        read_weights({"value": np.zeros(2), "key": np.zeros((2, 1, 3))})


def test_times_that_do_not_increase_are_refused():
    weights = random_separate(3, 3, 1, 0.1, 0)
    with pytest.raises(IclearnError, match="increasing"):
        gradient_flow(weights, COV, 31, np.array([1.0, 0.5]))
