"""Every family of models: its prediction against a naive one, and as coefficients times features."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import naive_attention as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.prompt import Prompt
from iclearn.models import Attention
from iclearn.models.base import AbstractFeatureModel
from iclearn.store import weights_from

NORMALIZE = ("none", "context", "tokens")


@eqx.filter_jit
def two_ways(model: AbstractFeatureModel, prompt: Prompt) -> Any:
    """The prediction, and the one through the features; None for the second where there are none."""
    features = model.feature_map
    through = None if features is None else features(prompt) @ model.coefficients()
    return model.predict(prompt), through


class Case:
    """Random full weight matrices in the public layout, and one prompt of which the first `present` pairs are there."""

    def __init__(self, dim, out_dim, heads, rank, context, seed, zero_blocks=False):
        rng = np.random.default_rng(seed)
        entry = dim + out_dim
        self.dim, self.out_dim, self.heads, self.rank = dim, out_dim, heads, rank
        self.value = rng.normal(size=(heads, entry, entry))
        self.kq = rng.normal(size=(heads, entry, entry))
        self.key, self.query = rng.normal(size=(2, heads, rank, entry))
        if zero_blocks:
            self.value[:, dim:, :dim] = 0
            self.kq[:, :dim, dim:] = 0
            self.key[:, :, dim:] = 0
        self.x, self.y = rng.normal(size=(context, dim)), rng.normal(size=(context, out_dim))
        self.x_query = rng.normal(size=(dim,))

    def prompt(self, present: int | None = None) -> Prompt:
        mask = np.arange(len(self.x)) < (len(self.x) if present is None else present)
        return Prompt(jnp.asarray(self.x), jnp.asarray(self.y), jnp.asarray(self.x_query), jnp.asarray(mask))

    def full(self, family: str, normalize: str, softmax: bool = False) -> Any:
        public = {
            "merged": {"weights_kq": self.kq, "weights_value": self.value},
            "separate": {"weights_key": self.key, "weights_query": self.query, "weights_value": self.value},
        }[family]
        found, arrays = weights_from(public, self.out_dim)
        assert found == family
        spec = Attention(
            family,  # type: ignore[arg-type]
            num_heads=self.heads,
            rank=self.rank if family == "separate" else 1,
            softmax=softmax,
            normalize=normalize,  # type: ignore[arg-type]
        )
        return spec.rebuild(self.dim, arrays)

    def expected(self, family: str, normalize: str, *, softmax: bool = False, present: int | None = None):
        kq = self.kq if family == "merged" else naive.products(self.key, self.query)
        x, y = self.x[:present], self.y[:present]
        return naive.prediction(x, y, self.x_query, kq, self.value, softmax=softmax, normalize=normalize)


sizes = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 4),
        "out_dim": st.integers(1, 2),
        "heads": st.integers(1, 3),
        "rank": st.integers(1, 2),
        "context": st.integers(1, 5),
        "seed": st.integers(0, 999),
    }
)


@settings(deadline=None, max_examples=8)
@given(sizes, st.sampled_from(NORMALIZE))
def test_full_attention_is_naive_attention(size, normalize):
    case = Case(**size)
    for family in ("merged", "separate"):
        got, through = two_ways(case.full(family, normalize), case.prompt())
        np.testing.assert_allclose(got, case.expected(family, normalize), rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(through, got, rtol=1e-10, atol=1e-11)


@settings(deadline=None, max_examples=6)
@given(sizes, st.sampled_from(NORMALIZE))
def test_reduced_models_are_attention_with_zero_blocks(size, normalize):
    case = Case(**size, zero_blocks=True)
    for family in ("merged", "separate"):
        full = case.full(family, normalize)
        expected = case.expected(family, normalize)
        reduced = full.reduced()
        got, through = two_ways(reduced, case.prompt())
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(through, expected, rtol=1e-10, atol=1e-11)
        assert all(not np.any(block) for block in full.zero_blocks())
        assert reduced.zero_blocks() == ()


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_reduced_attention_is_the_mlp_and_the_sum_of_conv_nets(normalize):
    """Three ways of computing one function of one prompt, each by its own operations, to 1e-12."""
    case = Case(dim=3, out_dim=1, heads=4, rank=2, context=5, seed=3, zero_blocks=True)
    merged = case.full("merged", normalize).reduced()
    separate = case.full("separate", normalize).reduced()
    for attention, disguise in [(merged, merged.as_mlp()), (separate, separate.as_conv())]:
        expected, _ = two_ways(attention, case.prompt())
        got, through = two_ways(disguise, case.prompt())
        assert type(disguise) is not type(attention)
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        np.testing.assert_allclose(through, expected, rtol=1e-12)


def test_the_mlp_reads_columns_stacked_features():
    """z = vec(β x_qᵀ) with index j·dim + i for β_i x_j, and W₂W₁z, written out."""
    case = Case(dim=2, out_dim=2, heads=3, rank=1, context=4, seed=0)
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(3, 8)), rng.normal(size=(2, 3))
    model = Attention("mlp", num_heads=3).rebuild(2, {"first": first, "second": second})
    beta = case.y.T @ case.x
    z = np.array([beta[o, i] * case.x_query[j] for o in range(2) for j in range(2) for i in range(2)])
    got, through = two_ways(model, case.prompt())
    np.testing.assert_allclose(got, second @ first @ z, rtol=1e-12)
    np.testing.assert_allclose(through, second @ first @ z, rtol=1e-12)


def test_cubic_coefficients_act_on_beta_and_the_query():
    case = Case(dim=3, out_dim=2, heads=2, rank=2, context=4, seed=5, zero_blocks=True)
    beta = case.x.T @ case.y
    for family in ("merged", "separate"):
        w = case.full(family, "none").cubic_coefficients()
        got = np.einsum("ojit,io,j->t", w, beta, case.x_query)
        np.testing.assert_allclose(got, case.expected(family, "none"), rtol=1e-10)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("family", ["merged", "separate"])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_softmax_and_masks_against_all_rows_of_naive_attention(family, softmax, normalize):
    """Absent pairs are no tokens: they neither weigh in the softmax nor count in the normalization."""
    case = Case(dim=2, out_dim=2, heads=3, rank=2, context=6, seed=2)
    model = case.full(family, normalize, softmax)
    for present in (6, 3, 1):
        got, _ = two_ways(model, case.prompt(present))
        expected = case.expected(family, normalize, softmax=softmax, present=present)
        np.testing.assert_allclose(got, expected, rtol=1e-11)


def test_softmax_attention_has_no_features_and_does_not_overflow():
    case = Case(dim=2, out_dim=1, heads=2, rank=1, context=3, seed=4)
    case.kq = case.kq * 1e4  # scores far beyond the range of exp
    model = case.full("merged", "none", softmax=True)
    assert model.feature_map is None
    got, _ = two_ways(model, case.prompt())
    np.testing.assert_allclose(got, case.expected("merged", "none", softmax=True), rtol=1e-10)


def test_ready_made_weights_of_a_trace_are_read_too():
    case = Case(dim=2, out_dim=1, heads=2, rank=1, context=3, seed=4)
    model = case.full("separate", "none")
    family, arrays = weights_from({f"weight_{n}": np.asarray(w) for n, w in model.weights().items()})
    assert family == "separate"
    again = Attention("separate", num_heads=2).rebuild(2, arrays)
    np.testing.assert_array_equal(two_ways(again, case.prompt())[0], two_ways(model, case.prompt())[0])
