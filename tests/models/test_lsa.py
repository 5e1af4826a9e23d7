"""Linear self-attention with a guess: the formula as written, the group of many, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.core.recipe import Init
from iclearn.models import LSA, LSATogether
from iclearn.models.predictors import GradientDescent
from iclearn.tasks import LinearRegression


def task(dim: int) -> LinearRegression:
    return LinearRegression(dim=dim, context_len=5, prior_mean=tuple(np.linspace(-1, 1, dim)), num_prompts=None)


def prompt_of(rng: np.random.Generator, dim: int, context: int) -> Prompt:
    x, y, query = rng.normal(size=(context, dim)), rng.normal(size=(context, 1)), rng.normal(size=dim)
    return full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(query))


def as_written(p: np.ndarray, q: np.ndarray, w_q: np.ndarray, prompt: Prompt) -> float:
    """ŷ = g + Σ_h p_hᵀ G Q_h [x_q; g], head by head, over the pairs that are there."""
    kept = np.asarray(prompt.mask)
    tokens = np.concatenate([prompt.x, prompt.y], -1)[kept]
    gram = tokens.T @ tokens / kept.sum()
    guess = float(w_q @ prompt.query)
    last = np.append(prompt.query, guess)
    return guess + sum(float(a @ gram @ b @ last) for a, b in zip(p, q, strict=True))


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 4),
    heads=st.integers(1, 4),
    kind=st.integers(0, 2),
    gone=st.integers(0, 2),
)
def test_prediction_is_the_formula(seed: int, dim: int, heads: int, kind: int, gone: int) -> None:
    rng = np.random.default_rng(seed)
    given_guess = rng.normal(size=dim)
    spec = (LSA(heads), LSA(heads, "given", tuple(given_guess)), LSA(heads, "trainable"))[kind]
    model = spec.initial(task(dim), Init(1.0), seed, jnp.float64)
    prompt = prompt_of(rng, dim, 5)
    prompt = Prompt(prompt.x, prompt.y, prompt.query, jnp.arange(5) < 5 - gone)
    w_q = np.asarray((np.zeros(dim), given_guess, model.weights().get("guess"))[kind])
    expected = as_written(np.asarray(model.p), np.asarray(model.q), w_q, prompt)
    np.testing.assert_allclose(model.predict(prompt)[0], expected, rtol=1e-10, atol=1e-10)
    linear = model.coefficients()[:, 0] @ model.feature_map(prompt)
    np.testing.assert_allclose(linear, expected, rtol=1e-10, atol=1e-10)


def test_one_head_computes_one_gradient_step_from_its_guess() -> None:
    rng = np.random.default_rng(0)
    start, dim = rng.normal(size=3), 3
    q = np.zeros((1, dim + 1, dim + 1))
    q[0, :dim, :dim] = 0.3 * np.eye(dim)
    model = LSA(1, "given", tuple(start)).rebuild(dim, {"p": np.append(-start, 1.0)[None], "q": q})
    prompt = prompt_of(rng, dim, 6)
    np.testing.assert_allclose(model.predict(prompt), GradientDescent(start, 0.3).predict(prompt), rtol=1e-12)


def test_a_group_predicts_what_its_members_predict_alone() -> None:
    members = (LSA(1, "trainable"), LSA(1), LSA(4), LSA(2, "trainable"))
    spec = LSATogether(members)
    group = spec.initial(task(3), Init(0.7), 5, jnp.float64)
    prompt = prompt_of(np.random.default_rng(1), 3, 4)
    alone = [member.initial(task(3), Init(0.7), 5, jnp.float64).predict(prompt)[0] for member in members]
    np.testing.assert_allclose(group.predict(prompt), alone, rtol=1e-12)
    np.testing.assert_allclose(group.feature_map(prompt) @ group.coefficients(), alone, rtol=1e-12)
    taken = [spec.member(i, 3, group.weights()).predict(prompt)[0] for i in range(4)]
    np.testing.assert_allclose(taken, alone, rtol=1e-12)


def test_padded_heads_and_fixed_guesses_have_no_gradient() -> None:
    group = LSATogether((LSA(1), LSA(3, "trainable"))).initial(task(2), Init(0.5), 0, jnp.float64)
    prompt = prompt_of(np.random.default_rng(2), 2, 4)
    slopes = jax.grad(lambda g: jnp.sum((g.predict(prompt) - 1) ** 2))(group)
    assert not np.any(slopes.p[0, 1:])
    assert not np.any(slopes.q[0, 1:])
    assert not np.any(slopes.guess[0])
    assert np.all(slopes.guess[1] != 0)
    assert np.all(slopes.p[1] != 0)


def test_a_fixed_guess_is_no_weight() -> None:
    fixed = LSA(2, "given", (1.0, 2.0)).initial(task(2), Init(), 0, jnp.float64)
    assert set(fixed.weights()) == {"p", "q"}
    assert len(jax.tree.leaves(fixed)) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LSA(0), "num_heads must be at least 1, not 0"),
        (lambda: LSA(1, "given"), "has given="),
        (lambda: LSA(1, "none", (1.0,)), "has given="),
        (lambda: LSATogether(()), "at least one member"),
        (lambda: LSATogether((LSA(1, "given", (1.0,)),)), "guess none or trainable"),
        (lambda: LSA(1, "given", (1.0,)).initial(task(2), Init(), 0, jnp.float64), "1 entries for dim 2"),
        (lambda: LSA().initial(LinearRegression(dim=2, out_dim=2), Init(), 0, jnp.float64), "one output"),
        (lambda: LSA().initial(task(2), Init(scheme="stacked"), 0, jnp.float64), "not stacked"),
        (lambda: LSA(1, "trainable").rebuild(2, {"p": np.zeros((1, 3))}), "missing q, guess"),
    ],
)
def test_refusals(make, words: str) -> None:
    with pytest.raises(IclearnError, match=words):
        make()
