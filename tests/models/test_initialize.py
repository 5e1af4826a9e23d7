"""Initial weights: variances of every scheme, zero blocks, and that disguises start where attention starts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init
from iclearn.models import Attention, ConvSum, CubicMLP
from iclearn.tasks import LinearRegression

TASK = LinearRegression(dim=3, context_len=4, out_dim=2)
ONE = LinearRegression(dim=3, context_len=4)
HEADS, RANK, SCALE, ENTRY = 3000, 2, 0.3, 5


def initial(family, task=TASK, heads=HEADS, seed: Any = 0, dtype: Any = jnp.float64, **init) -> Any:
    rank = RANK if family in ("separate", "separate_reduced", "conv") else 1
    spec = Attention(family, num_heads=heads, rank=rank)
    return spec.initial(task, Init(SCALE, **init), seed, dtype)


def assert_variance(weights: Any, expected: float) -> None:
    """Sample variance of Gaussians: standard error √(2/n) of itself. Mean: standard error √(variance/n)."""
    entries = np.asarray(weights).ravel()
    off = (np.mean(entries**2) / expected - 1) * np.sqrt(len(entries) / 2)
    assert abs(off) < 4, f"variance {off:.1f} standard errors from {expected}"
    assert abs(entries.mean()) < 4 * np.sqrt(expected / len(entries))


VARIANCES = [
    ("merged", "per_head", {"value": SCALE**2, "kq": SCALE**2}),
    ("merged", "stacked", {"value": SCALE**2, "kq": SCALE**2}),
    ("merged", "entries", {"value": SCALE**2, "kq": SCALE**2}),
    ("separate", "entries", {"value": SCALE**2, "key": SCALE**2, "query": SCALE**2}),
    (
        "separate",
        "per_head",
        {"value": SCALE**2, "key": SCALE**2 / (RANK * ENTRY), "query": SCALE**2 / (RANK * ENTRY)},
    ),
    (
        "separate",
        "stacked",
        {
            "value": SCALE**2 / (HEADS * ENTRY**2),
            "key": SCALE**2 / (HEADS * RANK * ENTRY),
            "query": SCALE**2 / (HEADS * RANK * ENTRY),
        },
    ),
]


@pytest.mark.parametrize(("family", "scheme", "variances"), VARIANCES)
def test_variances(family, scheme, variances):
    model = initial(family, scheme=scheme, zero_blocks=False)
    for name, expected in variances.items():
        assert_variance(model.weights()[name], expected)


@pytest.mark.parametrize(("family", "scheme", "variances"), [VARIANCES[0], VARIANCES[3], VARIANCES[-1]])
def test_zero_blocks_start_at_zero_and_the_rest_as_without(family, scheme, variances):
    with_blocks, without = initial(family, scheme=scheme), initial(family, scheme=scheme, zero_blocks=False)
    assert all(not np.any(block) for block in with_blocks.zero_blocks())
    assert all(np.all(np.asarray(block) != 0) for block in without.zero_blocks())
    for name, weight in with_blocks.weights().items():
        kept = np.asarray(weight) != 0
        np.testing.assert_array_equal(np.asarray(weight)[kept], np.asarray(without.weights()[name])[kept])
        assert kept.any()
    assert variances["value"] > 0


def test_sizes_of_a_head_are_of_order_init():
    """per_head: |v|, ‖k‖, ‖q‖ of a head have mean squares init², about init², about init²."""
    model = initial("separate", ONE, zero_blocks=False)
    weights = model.weights()
    for name, share in [("key", 1.0), ("query", 3 / 4)]:
        squares = (np.asarray(weights[name]) ** 2).sum((1, 2)) / (share * SCALE**2)
        assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(HEADS)


def test_disguises_start_from_the_weights_of_attention():
    merged, separate = initial("merged", ONE, 4), initial("separate", ONE, 4)
    reduced, mlp = initial("merged_reduced", ONE, 4), initial("mlp", ONE, 4)
    smaller, conv = initial("separate_reduced", ONE, 4), initial("conv", ONE, 4)
    assert isinstance(mlp, CubicMLP)
    assert isinstance(conv, ConvSum)
    w = merged.cubic_coefficients()
    np.testing.assert_array_equal(reduced.cubic_coefficients(), w)
    np.testing.assert_allclose(mlp.cubic_coefficients(), w, rtol=1e-13)
    np.testing.assert_array_equal(smaller.cubic_coefficients(), separate.cubic_coefficients())
    np.testing.assert_allclose(conv.cubic_coefficients(), separate.cubic_coefficients(), rtol=1e-13)


def test_an_mlp_of_many_outputs_has_weights_of_its_own():
    model = initial("mlp", TASK, 500)
    assert model.weights()["first"].shape == (500, 2 * 9)
    assert_variance(model.weights()["first"], SCALE**2)
    assert_variance(model.weights()["second"], SCALE**2)


@pytest.mark.parametrize("family", ["merged", "separate"])
def test_seeds_alone_and_vmapped(family):
    seeds = jnp.arange(3)
    together = jax.vmap(lambda s: initial(family, ONE, 4, seed=s).weights())(seeds)
    for lane in range(3):
        alone = initial(family, ONE, 4, seed=lane).weights()
        for name in alone:
            np.testing.assert_array_equal(together[name][lane], alone[name])
    assert np.abs(np.asarray(together["value"][0] - together["value"][1])).max() > 1e-3


def test_float32_weights_are_the_float64_ones_rounded():
    wide, narrow = initial("separate", ONE, 4), initial("separate", ONE, 4, dtype=jnp.float32)
    for name, weight in wide.weights().items():
        assert narrow.weights()[name].dtype == jnp.float32
        np.testing.assert_array_equal(narrow.weights()[name], np.asarray(weight, np.float32))


def test_given_weights_are_not_drawn():
    with pytest.raises(IclearnError, match="this recipe starts from given weights: pass them as weights="):
        Attention("merged").initial(ONE, Init(scheme="given"), 0, jnp.float64)
