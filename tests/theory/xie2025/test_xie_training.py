"""What theory says of training: Adam's noise floor, a small head beside a free guess, a second minimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from iclearn.engines.quadratic import QuadraticEngine
from iclearn.models import LSA, LSATogether
from iclearn.tasks import Covariance, LinearRegression
from iclearn.tasks.gram_moments import gram_form
from iclearn.theory.xie2025 import (
    Law,
    LSAWeights,
    adam_floor,
    carried_share,
    head_growth_rate,
    one_direction_loss,
    optimum,
    takeover_norm,
)

KEY = jax.random.key(0)  # exact engines draw nothing


def test_adam_comes_to_rest_at_its_floor() -> None:
    """Least squares with correlated inputs and noise: Adam on fresh batches against the law, σ_i in closed form."""
    mix = jnp.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 2.0]])
    batch, lr, noise = 16, 2e-3, 0.5

    def step(carry, key):
        weights, state = carry
        one, two = jax.random.split(key)
        x = jax.random.normal(one, (batch, 3)) @ mix.T
        residual = x @ weights + noise * jax.random.normal(two, (batch,))
        updates, state = optax.adam(lr).update(2 * x.T @ residual / batch, state)
        excess = jnp.sum((mix.T @ weights) ** 2)
        return (optax.apply_updates(weights, updates), state), excess

    def run(key):
        start = jnp.zeros(3)
        return jax.lax.scan(step, (start, optax.adam(lr).init(start)), jax.random.split(key, 20_000))[1][5_000:].mean()

    measured = float(jax.vmap(run)(jax.random.split(jax.random.key(0), 16)).mean())
    deviations = 2 * noise * np.linalg.norm(np.asarray(mix), axis=1)  # of 2·x_i·noise
    assert measured == pytest.approx(adam_floor(lr, batch, deviations), rel=0.05)


def test_a_small_head_grows_at_the_root_of_dim_without_a_mean() -> None:
    assert head_growth_rate(Law.isotropic(10, 10, 1e-9), 0.0) == pytest.approx(np.sqrt(10), rel=1e-6)
    assert head_growth_rate(Law.isotropic(10, 10, 0.3), 1.0) == pytest.approx(3.245, abs=1e-3)


def _weights(scale: float, dim: int = 4) -> LSAWeights:
    rng = np.random.default_rng(0)
    return LSAWeights(*(scale * rng.normal(size=s) for s in ((1, dim + 1), (1, dim + 1, dim + 1), (dim,))))


def test_a_small_head_followed_to_first_order_is_the_flow() -> None:
    """The share of w* it carries, against gradient flow of the exact loss by small Euler steps."""
    law, start = Law.isotropic(4, 6, 1.0), _weights(1e-4)
    task = LinearRegression(
        dim=4, context_len=6, covariance=Covariance.white(trace=None), prior_mean=tuple(law.mean), num_prompts=None
    )
    engine = QuadraticEngine(gram_form(task, 0, "float64"), ())
    model = LSATogether((LSA(1, "trainable"),)).rebuild(
        4, {"p": start.p[None], "q": start.q[None], "guess": start.guess[None]}
    )
    flat, rebuild = ravel_pytree(model)
    slope = jax.jit(jax.grad(lambda z: -0.5 * engine.loss(rebuild(z), KEY)))
    time, steps = 0.5, 4000
    end = jax.lax.fori_loop(0, steps, lambda _, z: z + time / steps * slope(z), flat)
    found = rebuild(end)
    p, q, guess = (np.asarray(a)[0] for a in (found.p, found.q, found.guess))
    gram = np.block([[np.eye(4), law.mean[:, None]], [law.mean[None], np.array([[5.0]])]])
    carried = p[0] @ gram @ (q[0][:, :4] + np.outer(q[0][:, 4], guess)) @ law.mean
    assert carried_share(law, start, time) == pytest.approx(carried, rel=5e-3)


def test_a_smaller_head_is_overtaken_only_by_a_larger_mean() -> None:
    assert takeover_norm(_weights(1e-6), 6) > 1.2 * takeover_norm(_weights(1e-3), 6)


@pytest.mark.parametrize(("shares", "minimum"), [((1.0, 1.0, 1.0), False), ((8.0, 1.0, 1.0), True)])
def test_reading_one_direction_is_stationary_and_a_minimum_where_it_holds_half(shares, minimum) -> None:
    prior = np.diag(shares)
    law = Law(np.array([0.5, -0.3, 0.2]), 5, prior=prior)
    task = LinearRegression(
        dim=3, context_len=5, covariance=Covariance.white(trace=None), prior_mean=tuple(law.mean),
        prior_covariance=Covariance.matrix(prior), num_prompts=None,
    )  # fmt: skip
    weight = prior[0, 0] / ((1 + 1 / 5) * prior[0, 0] + np.trace(prior) / 5)
    q = np.zeros((1, 1, 4, 4))
    q[0, 0, :3, 0], q[0, 0, 3, 0] = -law.mean, 1.0
    model = LSATogether((LSA(1, "trainable"),)).rebuild(
        3, {"p": np.array([[[weight, 0, 0, 0]]]), "q": q, "guess": law.mean[None]}
    )
    engine = QuadraticEngine(gram_form(task, 0, "float64"), ())
    flat, rebuild = ravel_pytree(model)
    loss = lambda z: engine.loss(rebuild(z), KEY)  # noqa: E731
    assert float(loss(flat)) == pytest.approx(one_direction_loss(law), rel=1e-12)
    assert float(loss(flat)) > 1.02 * optimum(law).step_loss
    assert float(jnp.abs(jax.grad(loss)(flat)).max()) < 1e-12
    lowest = float(jnp.linalg.eigvalsh(jax.hessian(loss)(flat))[0])
    assert (lowest > -1e-9) == minimum
