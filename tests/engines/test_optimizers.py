"""Update rules: each against its definition written out, on a loss written out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from engine_cases import DATA, recipe, run
from naive_loss import merged_loss

from iclearn.core.dataset import Arrays
from iclearn.core.recipe import Optimizer, Record

STEPS = 12
EVERY = Record(weights=50, candidates=50)
assert isinstance(DATA.train, Arrays)
TRAIN: Arrays = DATA.train


@jax.jit
def loss_and_gradient(weights):
    return jax.value_and_grad(lambda w: merged_loss(TRAIN, w["value"], w["kq"]))(weights)


def trained(rule: str, **options):
    made = recipe("merged", "gd", steps=STEPS, record=EVERY, engine="moments")
    return run(made.replace(optimizer=Optimizer(rule, **options)))  # type: ignore[arg-type]


def by_hand(start, update, state):
    """Losses before each update, and the weights after the last."""
    weights, losses = start, []
    for _ in range(STEPS):
        loss, gradient = loss_and_gradient(weights)
        losses.append(float(loss))
        weights, state = update(weights, gradient, state)
    return losses, weights


def plain(lr):
    return lambda w, g, s: ({n: w[n] - lr * g[n] for n in w}, s)


def heavy_ball(lr, momentum):
    def update(w, g, s):
        s = {n: momentum * s[n] + g[n] for n in w}
        return {n: w[n] - lr * s[n] for n in w}, s

    return update


def adam(lr, decay=0.0, b1=0.9, b2=0.999, eps=1e-8):
    def update(w, g, s):
        first, second, count = s
        count += 1
        first = {n: b1 * first[n] + (1 - b1) * g[n] for n in w}
        second = {n: b2 * second[n] + (1 - b2) * g[n] ** 2 for n in w}
        new = {}
        for n in w:
            mean, square = first[n] / (1 - b1**count), second[n] / (1 - b2**count)
            new[n] = w[n] - lr * (mean / (np.sqrt(square) + eps) + decay * w[n])
        return new, (first, second, count)

    return update


def zeros(weights):
    return {n: np.zeros_like(a) for n, a in weights.items()}


CASES = [
    ("gd", {"lr": 0.01}, plain(0.01), lambda w: None),
    ("sgd", {"lr": 0.01}, plain(0.01), lambda w: None),
    ("momentum", {"lr": 0.005, "momentum": 0.8}, heavy_ball(0.005, 0.8), zeros),
    ("adam", {"lr": 0.02}, adam(0.02), lambda w: (zeros(w), zeros(w), 0)),
    ("adamw", {"lr": 0.02, "weight_decay": 0.3}, adam(0.02, 0.3), lambda w: (zeros(w), zeros(w), 0)),
]


@pytest.mark.parametrize(("rule", "options", "update", "state"), CASES, ids=[c[0] for c in CASES])
def test_each_rule_is_its_definition(rule, options, update, state):
    trace = trained(rule, **options)
    start = {n: np.asarray(a) for n, a in trace.weights(0).items()}
    losses, weights = by_hand(start, update, state(start))
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-9)
    for name, final in trace.weights().items():
        np.testing.assert_allclose(final, weights[name], rtol=1e-8, atol=1e-10)
    assert trace.final_loss < 0.9 * losses[0], "every rule makes the loss fall"


def test_adam_is_optax_s():
    trace = trained("adam", lr=0.02)
    transformation = optax.adam(0.02)
    weights = {n: jnp.asarray(a) for n, a in trace.weights(0).items()}
    state = transformation.init(weights)
    for step in range(STEPS):
        loss, gradient = loss_and_gradient(weights)
        np.testing.assert_allclose(float(trace.loss[step]), float(loss), rtol=1e-10)
        updates, state = transformation.update(gradient, state, weights)
        weights = optax.apply_updates(weights, updates)


def test_gd_is_sgd_on_the_full_batch_bit_for_bit():
    gd, sgd = trained("gd", lr=0.01), trained("sgd", lr=0.01)
    np.testing.assert_array_equal(gd.loss, sgd.loss)
    for name, weights in gd.weights().items():
        np.testing.assert_array_equal(weights, sgd.weights()[name])


def test_time_is_that_of_gradient_flow_where_there_is_one():
    """One step of gradient descent advances t/τ by 2·lr; momentum and Adam have no such time."""
    np.testing.assert_allclose(trained("gd", lr=0.01).data["time"], 0.02 * np.arange(STEPS))
    assert "time" not in trained("adam", lr=0.02).data.coords
