"""Prompts of linear regression drawn as what `LabelGram` keeps of them: O(dim) numbers each instead of O(ℓ·dim).

Given w, in lu2025's units (inputs N(0, I/d)), with θ = ‖w‖/√d, u = w/‖w‖: the labels without noise are θ times a
normal vector z, and the noise is √ρ times another. Along the noise z has one component a ~ N(0, 1), across it a length
c, c² ~ χ²_{ℓ−1}; the noise has length ε̂, ε̂² ~ ρχ²_ℓ. With p = θa + ε̂: Σ y² = p² + θ²c² and
Σ y x = u (ap + θc²)/√d + √(Σ y²/d) (g − u u·g), g ~ N(0, I), since the parts of the inputs across w know nothing of y.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core import jax_settings as jax_settings


class GramDraws(NamedTuple):
    """Prompts as `LabelGram` reads them, for inputs N(0, I).

    Args:
        query: (prompt, dim) x_q.
        context: (prompt, entry) [β̂, (1/√d) mean y²].
        target: (prompt) y_q, with noise.
    """

    query: Float[Array, "prompt dim"]
    context: Float[Array, "prompt entry"]
    target: Float[Array, " prompt"]


@jax.jit
def draw_label_gram(key: Key[Array, ""], tasks: Float[Array, "prompt dim"], context_len: Any, noise: Any) -> GramDraws:
    """One prompt for each task, in law exactly the prompts of y = w·x + √ρ ε with x ~ N(0, I).

    Args:
        key: the key.
        tasks: (prompt, dim) w, with E‖w‖² = 1 where lu2025 has d.
        context_len: ℓ; may be traced.
        noise: ρ, on the labels of the context and on the target.

    Returns:
        The prompts.

    >>> drawn = draw_label_gram(jax.random.key(0), jnp.ones((1000, 4)) / 2, 8, 0.5)
    >>> drawn.context.shape, round(float(drawn.context[:, 4].mean()), 1)  # (1 + ρ)/√d
    ((1000, 5), 0.8)
    """
    count, dim = tasks.shape
    keys = jax.random.split(key, 6)
    theta = jnp.linalg.norm(tasks, axis=1)
    unit = tasks / jnp.where(theta > 0, theta, 1.0)[:, None]
    noise_length = jnp.sqrt(noise * jax.random.chisquare(keys[0], jnp.asarray(context_len, float), (count,)))
    along = jax.random.normal(keys[1], (count,))
    across = jax.random.chisquare(keys[2], jnp.maximum(context_len - 1.0, 1.0), (count,))
    across = jnp.where(context_len > 1, across, 0.0)
    p = theta * along + noise_length
    power = p**2 + theta**2 * across
    free = jax.random.normal(keys[3], (count, dim))
    free = free - unit * jnp.sum(unit * free, 1, keepdims=True)
    free = jnp.where(theta[:, None] > 0, free, jax.random.normal(keys[3], (count, dim)))  # w = 0 has no direction
    beta = unit * (along * p + theta * across)[:, None] + jnp.sqrt(power)[:, None] * free
    context = jnp.concatenate([beta, power[:, None] / dim**0.5], 1) / context_len
    query = jax.random.normal(keys[4], (count, dim))
    target = jnp.sum(tasks * query, 1) + jnp.sqrt(noise) * jax.random.normal(keys[5], (count,))
    return GramDraws(query, context, target)
