"""The exact losses checked by sampling: fresh prompts, and control variates whose means are known in closed form."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core.model import AbstractModel
from ...core.prompt import Batch
from ...core.rng import stream
from ...models.lsa import FixedGuessLSA
from ...models.predictors import GradientDescent
from ...tasks import LinearRegression
from ...theory.xie2025 import gd_step, optimal_weights, optimum
from .setup import law_of

BATCH = 8192


@eqx.filter_jit
def _errors(models: list[AbstractModel], task: LinearRegression, key: Array) -> Array:
    """(prompt, output of every model): squared errors on the same fresh prompts."""
    batch = task.fresh(0, key, BATCH, "float32")
    assert isinstance(batch, Batch)
    answers = jnp.concatenate([jax.vmap(model.predict)(batch.prompt) for model in models], -1)
    return ((answers - batch.target) ** 2).astype(jnp.float64)


def sampled_losses(
    group: AbstractModel, task: LinearRegression, num_prompts: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss of every member over fresh prompts, and its standard error, with three control variates.

    The controls are the squared errors of gradient steps from w* and from 0 and of the best multi-head LSA. Their
    means are known; the regression coefficients are fitted on the same prompts, a bias of order 1/num_prompts.
    """
    law = law_of(task)
    best, start, zero = optimal_weights(law), gd_step(law, law.mean), gd_step(law)
    float32 = [jnp.asarray(w, jnp.float32) for w in (best.p, best.q)]
    models = [
        group,
        GradientDescent(law.mean, start.step),
        GradientDescent(np.zeros(law.dim), zero.step),
        FixedGuessLSA(float32[0], float32[1], (0.0,) * law.dim),
    ]
    means = np.array([start.loss, zero.loss, optimum(law).loss])
    root = stream(seed, "check")
    total, first, second = 0, np.zeros(()), np.zeros(())
    for index in range(-(-num_prompts // BATCH)):
        errors = np.asarray(_errors(models, task, jax.random.fold_in(root, index)))
        total, first, second = total + len(errors), first + errors.sum(0), second + errors.T @ errors
    mean = first / total
    covariance = second / total - np.outer(mean, mean)
    inner, cross = covariance[-3:, -3:], covariance[-3:, :-3]
    slopes = np.linalg.lstsq(inner, cross, rcond=1e-10)[0]
    corrected = mean[:-3] - (mean[-3:] - means) @ slopes
    left = np.diagonal(covariance)[:-3] - 2 * np.sum(slopes * cross, 0) + np.sum(slopes * (inner @ slopes), 0)
    return corrected, np.sqrt(np.maximum(left, 0) / total)
