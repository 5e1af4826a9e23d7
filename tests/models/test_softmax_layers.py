"""Layers for softmax regression, gradient descent on documents, and its line search."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from iclearn.core.errors import IclearnError
from iclearn.core.prompt import Batch, Document
from iclearn.core.recipe import Init
from iclearn.models.predictors.softmax_descent import SoftmaxDescent, line_search, mean_loss
from iclearn.models.softmax_layers import LabelAttention, QueryAttention, SoftmaxLayer, StackedAttention, tokens
from iclearn.tasks import LinearRegression
from iclearn.tasks.softmax_regression import SoftmaxRegression
from iclearn.theory.li2024 import gd_weights, prediction

DIM = 3


def batch_of(count: int = 6, seed: int = 0, words: int = 10, **changes) -> Batch[Document]:
    task = SoftmaxRegression(context_len=words, dim=DIM, num_prompts=count, **changes)
    batch = task.source(seed, "float64").everything()
    assert isinstance(batch, Batch)
    return batch


def first(batch: Batch[Document]) -> Document:
    return jax.tree.map(lambda a: a[0], batch.prompt)


def gradient_step_layer(lr: float, words: int) -> LabelAttention:
    entry = DIM + 1
    return LabelAttention(
        query=jnp.eye(entry)[-1], key=jnp.eye(entry), value=(lr / words) * jnp.eye(DIM, entry), labels="log"
    )


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), lr=st.floats(0.1, 30), scale=st.floats(0.1, 3))
def test_layer_a_contains_the_gradient_step_exactly(seed, lr, scale):
    batch = batch_of(seed=seed, scale=scale)
    layer, descent = gradient_step_layer(lr, 10), SoftmaxDescent(jnp.asarray(lr))
    np.testing.assert_allclose(
        jax.vmap(layer.predict)(batch.prompt), jax.vmap(descent.predict)(batch.prompt), rtol=1e-11
    )


def test_labels_of_words_are_their_centered_logits_or_probabilities():
    """Words are centered, so that log b − mean is Ax itself; n b − 1 has the mean 0 as well."""
    document = first(batch_of(scale=0.7))
    log, raw = (np.asarray(tokens(document, labels)) for labels in ("log", "raw"))
    np.testing.assert_array_equal(log[:, :-1], document.context)
    x, left, *_ = np.linalg.lstsq(np.asarray(document.context), log[:, -1], rcond=None)
    assert left[0] < 1e-24
    assert np.linalg.norm(x) == pytest.approx(0.7)
    np.testing.assert_allclose(jax.nn.softmax(jnp.asarray(log[:, -1])), document.target, rtol=1e-12)
    np.testing.assert_allclose((raw[:, -1] + 1) / 10, document.target, rtol=1e-12)


def test_layer_b_tends_to_the_gradient_step_at_first_order():
    document, lr = first(batch_of()), 4.0
    descent = SoftmaxDescent(jnp.asarray(lr))
    gaps = []
    for size in (1e-2, 1e-3):
        value = (lr / (10 * size)) * jnp.eye(DIM + 1)[-1]
        layer = QueryAttention(size * jnp.eye(DIM, DIM + 1), value)
        logits = layer.logits(document)
        gap = logits - descent.logits(document)
        gaps.append(float(jnp.abs(gap - gap.mean()).max()))
    assert gaps[1] < 0.02
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.1)


def test_one_unit_with_one_head_is_layer_a():
    document = first(batch_of())
    key, value = (
        jax.random.normal(jax.random.key(0), (DIM + 1, DIM + 1)),
        jax.random.normal(jax.random.key(1), (DIM, DIM + 1)),
    )
    query = jnp.append(jnp.zeros(DIM), 0.8)
    layer = LabelAttention(query, key, value)
    full = jnp.concatenate([value, jnp.zeros((1, DIM + 1))])
    stack = StackedAttention(query, key[None, None], full[None, None])
    np.testing.assert_allclose(stack.predict(document), layer.predict(document), rtol=1e-12)


def test_two_units_can_take_two_steps_of_softmax_regression_on_cross_entropy():
    """x_2 = x_1 + c(Aᵀb − Aᵀf(x_1)): the second unit subtracts what its second head reads by a_i·x_1."""
    document, c = first(batch_of()), 0.3
    entry = DIM + 1
    to_x = c * jnp.eye(entry).at[-1, -1].set(0)
    by_label = jnp.zeros((entry, entry)).at[-1, -1].set(1.0)
    by_word = jnp.eye(entry).at[-1, -1].set(0)
    nothing = jnp.zeros((entry, entry))
    # Words must stay as they are: their label entry attends too, so only the state is followed here.
    a, b = document.context, document.target
    x1 = c * b @ a
    x2 = x1 + c * (b @ a - jax.nn.softmax(a @ x1) @ a)
    from iclearn.models.softmax_layers import attention_unit, tokens

    words, state = tokens(document, "log"), jnp.eye(entry)[-1:]
    state = attention_unit(state, words, jnp.stack([by_label, nothing]), jnp.stack([to_x, nothing]))
    state = attention_unit(state, words, jnp.stack([by_label, by_word]), jnp.stack([to_x, -to_x]))
    np.testing.assert_allclose(state[0, :DIM], x2, rtol=1e-12)


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_descent_follows_the_closed_form_gradient(steps):
    document, lr = first(batch_of(scale=1.5)), 6.0
    x = jnp.zeros(DIM)
    for _ in range(steps):
        x = gd_weights(document.context, document.target, x, lr)
    found = SoftmaxDescent(jnp.asarray(lr), steps)
    np.testing.assert_allclose(found.estimate(document), x, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.predict(document), prediction(document.query, x), rtol=1e-12)


@pytest.mark.parametrize("form", ["log_label", "query", "raw_label", "stack"])
def test_sensitivity_is_the_derivative_of_the_logits(form):
    document = first(batch_of())
    task = SoftmaxRegression(context_len=10, dim=DIM)
    model = SoftmaxLayer(form).initial(task, Init(0.3), 1, "float64")
    size = 1e-6
    found = np.asarray(model.sensitivity(document))
    for word, axis in ((0, 0), (4, 2)):
        moved = [
            model.logits(eqx.tree_at(lambda d: d.query, document, document.query.at[word, axis].add(sign * size)))[word]
            for sign in (1, -1)
        ]
        assert found[word, axis] == pytest.approx(float(moved[0] - moved[1]) / (2 * size), rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(model.predict(document).sum(), 1, rtol=1e-12)


@pytest.mark.parametrize(("steps", "scale"), [(1, 0.5), (1, 2.0), (3, 0.5)])
def test_line_search_agrees_with_scipy(steps, scale):
    batch = batch_of(count=60, scale=scale)
    loss = jax.jit(lambda lr: mean_loss(SoftmaxDescent(lr, steps), batch))
    lr, least = line_search(batch, steps)
    grid = np.linspace(0.2, 40, 60)
    near = grid[np.argmin([float(loss(jnp.asarray(g))) for g in grid])]
    wanted = minimize_scalar(
        lambda g: float(loss(jnp.asarray(g))), bounds=(near - 1, near + 1), method="bounded", options={"xatol": 1e-6}
    )
    assert float(lr) == pytest.approx(wanted.x, rel=1e-3)
    assert float(least) <= float(wanted.fun) * (1 + 1e-8)


def test_first_step_is_a_mean_of_the_words():
    document = first(batch_of())
    found = SoftmaxDescent(jnp.asarray(5.0)).estimate(document)
    np.testing.assert_allclose(found, 5.0 / 10 * document.context.T @ document.target, rtol=1e-12)


def test_initial_weights_and_rebuilding():
    task = SoftmaxRegression(context_len=10, dim=DIM)
    model = SoftmaxLayer().initial(task, Init(0.0), 0, "float64")
    assert isinstance(model, LabelAttention)
    np.testing.assert_allclose(model.query, [0, 0, 0, 0.7])
    np.testing.assert_allclose(model.key, 0.7 * np.eye(4))
    assert not np.any(model.value)
    noisy = SoftmaxLayer("stack", 2, 3).initial(task, Init(0.02), 5, "float32")
    again = SoftmaxLayer("stack", 2, 3).rebuild(DIM, noisy.weights())
    assert eqx.tree_equal(noisy, again)
    assert all(w.dtype == jnp.float32 for w in noisy.weights().values())
    assert noisy.weights()["kq"].shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SoftmaxLayer("query", depth=2), "stack"),
        (lambda: SoftmaxLayer("stack", depth=0), "depth"),
        (lambda: SoftmaxLayer().initial(LinearRegression(), Init(), 0, "float64"), "documents"),
        (lambda: SoftmaxLayer().rebuild(3, {"query": np.zeros(4)}), "missing key"),
        (lambda: SoftmaxDescent(jnp.asarray(1.0), -1), "steps"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(IclearnError, match=words):
        make()
