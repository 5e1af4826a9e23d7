"""Named streams: the same numbers alone, vmapped over seeds, and under jit; different names are different numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from iclearn.core.drawn_normals import DRAWN, drawn_normals, keep_draws
from iclearn.core.rng import normal, paired_normals, random_rotation, standard_normals, stream

SEEDS = jnp.arange(5)


def numbers(seed, name="data"):
    return jax.random.normal(stream(seed, name), (3,))


def test_streams_are_the_same_alone_vmapped_and_jitted():
    alone = np.stack([numbers(int(s)) for s in SEEDS])
    np.testing.assert_array_equal(jax.vmap(numbers)(SEEDS), alone)
    np.testing.assert_array_equal(jax.jit(jax.vmap(numbers))(SEEDS), alone)


def test_names_and_seeds_make_different_streams():
    draws = [tuple(np.asarray(numbers(s, n))) for s in range(20) for n in ("data", "data.train", "init", "steps")]
    assert len(set(draws)) == len(draws)


def test_float32_and_float64_draws_are_the_same_numbers():
    key = stream(3, "data")
    narrow, wide = normal(key, (1000,), jnp.float32), normal(key, (1000,), jnp.float64)
    assert (narrow.dtype, wide.dtype) == (jnp.float32, jnp.float64)
    np.testing.assert_array_equal(narrow.astype(jnp.float64), wide)


def test_standard_normals_are_double_and_independent_of_each_other():
    first, second = standard_normals(stream(0, "init"), ((4000,), (4000,)))
    assert first.dtype == jnp.float64
    error = 1 / np.sqrt(4000)  # standard error of a mean of 4000 products of standard normals
    assert abs(float(jnp.mean(first * second))) < 4 * error
    assert abs(float(jnp.mean(first))) < 4 * error
    assert abs(float(jnp.var(first)) - 1) < 4 * error * np.sqrt(2)


def test_paired_normals_are_normal_and_independent():
    """Moments, the distribution, the tail, and the two halves (the two numbers of a pair), in standard errors."""
    count = 1_000_001
    drawn = np.asarray(paired_normals(stream(5, "steps"), count)).astype(float)
    assert abs(drawn.mean()) * np.sqrt(count) < 4
    assert abs(drawn.var() - 1) * np.sqrt(count / 2) < 4
    assert abs(stats.skew(drawn)) * np.sqrt(count / 6) < 4
    assert abs(stats.kurtosis(drawn)) * np.sqrt(count / 24) < 4
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    for edge in (2, 3, 4):
        wanted = 2 * count * stats.norm.sf(edge)
        assert abs((np.abs(drawn) > edge).sum() - wanted) < 4 * np.sqrt(wanted)
    half = count // 2 + 1
    first, second = drawn[: half - 1], drawn[half : 2 * half - 1]
    for left, right in ((first, second), (first**2, second**2), (first[1:], first[:-1]), (np.abs(first), second)):
        assert abs(np.corrcoef(left, right)[0, 1]) * np.sqrt(half) < 4.5


def test_paired_normals_are_the_same_alone_and_vmapped():
    alone = np.stack([paired_normals(stream(int(s), "steps"), 101) for s in SEEDS])
    np.testing.assert_array_equal(jax.vmap(lambda s: paired_normals(stream(s, "steps"), 101))(SEEDS), alone)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_rotations_are_orthogonal(dim):
    q = np.asarray(random_rotation(stream(1, "covariance"), dim))
    np.testing.assert_allclose(q @ q.T, np.eye(dim), atol=1e-14)


def test_rotations_are_uniform():
    """E q_ij = 0, E q_ij² = 1/D and E q_11 q_22 = E q_12 q_21 = 0 under the uniform measure with both signs of det."""
    count, dim = 4000, 3
    q = np.asarray(jax.vmap(lambda s: random_rotation(stream(s, "r"), dim))(jnp.arange(count)))
    assert abs(q.mean(0) * np.sqrt(dim * count)).max() < 5, "in standard errors"
    square_error = np.sqrt(3 / (dim * (dim + 2)) - 1 / dim**2) / np.sqrt(count)
    assert abs((q**2).mean(0) - 1 / dim).max() < 5 * square_error
    negative = (np.linalg.det(q) < 0).mean()
    assert abs(negative - 0.5) < 5 * 0.5 / np.sqrt(count)


@pytest.mark.parametrize("seed", [0, 10, 2**40 + 5, 2**63 - 1])
def test_streams_and_small_arrays_by_numpy_are_those_of_jax(seed):
    key = stream(seed, "init")
    folded = jax.jit(lambda s: stream(s, "init"))(seed)
    np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(folded))
    shapes = ((8, 1, 5), (4,), (16, 16))
    traced = jax.jit(lambda k: standard_normals(k, shapes))(key)
    for drawn, wanted in zip(standard_normals(key, shapes), traced, strict=True):
        np.testing.assert_array_equal(drawn, wanted)
    for dim in (2, 5, 16, 17):
        wanted = jax.jit(random_rotation, static_argnums=1)(key, dim)
        np.testing.assert_allclose(random_rotation(key, dim), wanted, atol=1e-13)


@pytest.mark.parametrize(
    ("first", "lanes", "rows"), [(0, 1, 7), (48, 16, 5), (0, 128, 32), (1024, 1024, DRAWN // 1024 + 3)]
)
def test_draws_of_fixed_sets_are_those_of_jax_bit_by_bit(first, lanes, rows):
    """Also where one call of the program has no room for them."""
    key = stream(4, "data.train")
    expected = np.asarray(jax.random.normal(key, (first + lanes, rows), jnp.float32))[first:]
    words = np.asarray(jax.random.key_data(key))
    np.testing.assert_array_equal(drawn_normals(words, first, lanes, rows).T, expected)
    with keep_draws():
        drawn = drawn_normals(words, first, lanes, rows)
        assert drawn_normals(words, first, lanes, rows) is drawn
        np.testing.assert_array_equal(drawn.T, expected)
    assert drawn_normals(words, first, lanes, rows) is not drawn
