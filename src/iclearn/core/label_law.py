"""How labels are distributed: what a task tells to those who integrate over its prompts in closed form."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from . import jax_settings as jax_settings


class LabelLaw(eqx.Module):
    """One component of the mixture of prompts: labels y_n = w·x_n + noise with w ~ N(mean, covariance) per output.

    `context_from_task` is 0 where the context's labels are pure noise (in-weight test prompts): then the task acts
    on the query alone.
    """

    weight: Float[Array, ""]
    mean: Float[Array, "dim output"]
    covariance: Float[Array, "dim dim"]
    noise: Float[Array, ""]
    context_from_task: Float[Array, ""]

    def task_moment(self) -> Float[Array, "output dim output dim"]:
        """E[w_o w_pᵀ]: outputs are independent apart from their means."""
        num = self.mean.shape[1]
        own = jnp.einsum("op,ij->oipj", jnp.eye(num, dtype=self.mean.dtype), self.covariance)
        return own + jnp.einsum("io,jp->oipj", self.mean, self.mean)
