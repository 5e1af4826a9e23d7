"""Nearest neighbors in the context: the mean label of the k nearest inputs."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core.checks import check_int
from ...core.model import AbstractModel
from ...core.prompt import Prompt


class NearestNeighbors(AbstractModel):
    """The mean label of the min(k, n) pairs whose inputs are nearest to the query (Euclid); 0 without a context.

    Of inputs that are equally far the earlier ones are taken.

    Args:
        neighbors: k.
        weighting: ``uniform``, or ``distance`` for weights 1/distance; inputs equal to the query then take all of it.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.array([[1.0], [3.0], [9.0]]), jnp.array([[1.0], [4.0], [7.0]]), jnp.zeros(1))
    >>> [round(float(NearestNeighbors(2, k).predict(prompt)[0]), 6) for k in ("uniform", "distance")]
    [2.5, 1.75]
    """

    neighbors: int = eqx.field(static=True, default=3)
    weighting: Literal["uniform", "distance"] = eqx.field(static=True, default="uniform")

    def __check_init__(self) -> None:
        check_int("the number of neighbors", self.neighbors, 1)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y, query = (part.astype(jnp.float64) for part in (prompt.x, prompt.y, prompt.query))
        distance = jnp.where(prompt.mask, jnp.sqrt(jnp.sum((x - query) ** 2, -1)), jnp.inf)
        count = min(self.neighbors, x.shape[0])
        if count == 0:
            return jnp.zeros(y.shape[1], prompt.query.dtype)
        near = jnp.argsort(distance)[:count]
        there, far = prompt.mask[near], distance[near]
        weight: Array = there.astype(jnp.float64)
        if self.weighting == "distance":
            hits = there & (far == 0)
            weight = jnp.where(jnp.any(hits), hits, weight / jnp.where(there & (far > 0), far, 1.0))
        labels = jnp.where(there[:, None], y[near], 0.0)
        return (weight @ labels / jnp.maximum(weight.sum(), jnp.finfo(float).tiny)).astype(prompt.query.dtype)
