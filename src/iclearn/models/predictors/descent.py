"""Gradient descent on the context: the algorithm linear attention is compared with."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import as_columns, context, scalar


class GradientDescent(AbstractModel):
    """k steps of gradient descent from w_0 on (1/2n) Σ ‖y_i − w·x_i‖², n the pairs of the prompt.

    w ← w + (lr/n) Σ (y_i − w·x_i) x_i; one step answers w_0·x_q + (lr/n) Σ (y_i − w_0·x_i) x_i·x_q.

    Args:
        initial: w_0, (dim) for every output or (dim, output).
        lr: step size; may be traced.
        steps: k.

    >>> from iclearn.core.prompt import full_prompt
    >>> GradientDescent(jnp.zeros(2), lr=1.0).predict(full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2)))
    Array([1.], dtype=float64)
    """

    initial: Float[Array, "dim output"]
    lr: Float[Array, ""]
    steps: int = eqx.field(static=True)

    def __init__(self, initial: Float[Array, "..."] | np.ndarray, lr: Float[Array, ""] | float, steps: int = 1) -> None:
        self.initial = as_columns(jnp.asarray(initial, float))
        require(steps >= 0, f"the number of gradient steps must not be negative, not {steps}")
        self.lr, self.steps = scalar(lr), steps

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        rate = (self.lr / jnp.maximum(prompt.num_context(), 1)).astype(x.dtype)
        start = jnp.broadcast_to(self.initial, (x.shape[1], y.shape[1])).astype(x.dtype)

        def step(w: Float[Array, "dim output"], _: None) -> tuple[Float[Array, "dim output"], None]:
            return w + rate * (x.T @ (y - x @ w)), None

        return prompt.query @ jax.lax.scan(step, start, None, length=self.steps)[0]
