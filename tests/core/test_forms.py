"""Quadratic forms against least squares on the features of every prompt."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.forms import Moments


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_form_has_the_loss_gradient_and_minimum_of_its_prompts(outputs):
    rng = np.random.default_rng(outputs)
    features, target = rng.normal(size=(40, 6)), rng.normal(size=(40, outputs))
    features[:, 5] = features[:, 0] - features[:, 1]  # one feature too many: M is singular
    form = Moments(
        jnp.asarray(features.T @ features / 40), jnp.asarray(features.T @ target / 40), jnp.asarray(np.mean(target**2))
    )
    weights = rng.normal(size=(6, outputs))
    left = target - features @ weights
    loss, gradient = jax.value_and_grad(form)(jnp.asarray(weights))
    np.testing.assert_allclose(loss, np.mean(left**2), rtol=1e-12)
    np.testing.assert_allclose(form(jnp.asarray(weights)), np.mean(left**2), rtol=1e-12)
    np.testing.assert_allclose(gradient, -2 * features.T @ left / 40 / outputs, rtol=1e-10, atol=1e-12)
    best = target - features @ np.linalg.lstsq(features, target, rcond=None)[0]
    assert form.minimum() == pytest.approx(np.mean(best**2), rel=1e-10)
