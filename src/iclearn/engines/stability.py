"""Why a run diverged: the largest learning rate that its curvature allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core.dataset import Dataset
from ..core.trace import Trace
from .training_loss import TrainingLoss

POINTS, ROUNDS = 6, 40  # records looked at, products of the power iteration


def largest_curvature(loss: Any, model: Any) -> float:
    """The largest eigenvalue of the Hessian of a loss, in absolute value, by power iteration.

    Args:
        loss: function of a model.
        model: a pytree of arrays, the point.

    Returns:
        The eigenvalue.

    >>> round(largest_curvature(lambda x: 3 * x[0] ** 2 + x[1] ** 2, jnp.array([1.0, 1.0])), 6)
    6.0
    """
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    gradient = jax.grad(lambda a: loss(eqx.combine(a, rest)))
    leaves, shape = jax.tree.flatten(arrays)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    start = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)]

    def norm(tree: Any) -> Any:
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))

    def once(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, size = carry
        vector = jax.tree.map(lambda leaf: leaf / jnp.maximum(size, 1e-300), vector)
        product = jax.jvp(gradient, (arrays,), (vector,))[1]
        return product, norm(product)

    first = jax.tree.unflatten(shape, start)
    return float(jax.lax.fori_loop(0, ROUNDS, once, (first, norm(first)))[1])


def suggested_lr(
    trace: Trace, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None
) -> float | None:
    """A learning rate at which gradient descent would not have left the valley that a diverged run was in.

    Args:
        trace: the run.
        dataset: the arrays its task describes, where it needs any.
        weights: its given initial weights, where it has any.

    Returns:
        1/λ, half of the largest stable rate, for the largest curvature λ at the recorded steps before the divergence;
        one digit. None where it cannot be told.
    """
    recipe = trace.recipe
    if "record" not in trace.data or recipe.optimizer.rule not in ("gd", "sgd", "momentum"):
        return None
    loss = TrainingLoss(recipe, dataset=dataset, weights=weights)
    records = np.unique(np.linspace(0, trace.data.sizes["record"] - 1, POINTS).round().astype(int))
    found = []
    for record in records:
        model = recipe.model.rebuild(recipe.task.dim, trace.weights(int(record)))
        found.append(largest_curvature(loss, model))
    steepest = max((value for value in found if math.isfinite(value)), default=0.0)
    if not steepest > 0:
        return None
    return float(f"{min(1 / steepest, recipe.optimizer.lr / 2):.1g}")
