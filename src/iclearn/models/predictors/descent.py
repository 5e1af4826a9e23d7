"""Gradient descent on the context and its relatives: averaging, one pass over the pairs, conjugate gradients."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import check_int, require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from ..features import Normalize, attention_scale
from .shrinkage import as_columns, context, scalar


class GradientDescent(AbstractModel):
    """k steps of gradient descent from w_0 on (1/2n) Σ ‖y_i − w·x_i‖², n the pairs of the prompt.

    w ← w + (lr/n) Σ (y_i − w·x_i) x_i; one step answers w_0·x_q + (lr/n) Σ (y_i − w_0·x_i) x_i·x_q.

    Args:
        initial: w_0, (dim) for every output or (dim, output).
        lr: step size; may be traced.
        steps: k.
        normalize: ``none`` for steps on the sum (1/2) Σ ‖y_i − w·x_i‖² instead of the mean (fu2024).

    >>> from iclearn.core.prompt import full_prompt
    >>> GradientDescent(jnp.zeros(2), lr=1.0).predict(full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2)))
    Array([1.], dtype=float64)
    """

    initial: Float[Array, "dim output"]
    lr: Float[Array, ""]
    steps: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="context")

    def __init__(
        self,
        initial: Float[Array, "..."] | np.ndarray,
        lr: Float[Array, ""] | float,
        steps: int = 1,
        *,
        normalize: Normalize = "context",
    ) -> None:
        self.initial = as_columns(jnp.asarray(initial, float))
        require(steps >= 0, f"the number of gradient steps must not be negative, not {steps}")
        self.lr, self.steps, self.normalize = scalar(lr), steps, normalize

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        rate = (self.lr * attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))).astype(x.dtype)
        start = jnp.broadcast_to(self.initial, (x.shape[1], y.shape[1])).astype(x.dtype)

        def step(w: Float[Array, "dim output"], _: None) -> tuple[Float[Array, "dim output"], None]:
            return w + rate * (x.T @ (y - x @ w)), None

        return prompt.query @ jax.lax.scan(step, start, None, length=self.steps)[0]


class Averaging(AbstractModel):
    """ŷ = x_q·(1/n) Σ y_i x_i: one step of gradient descent of length 1 from 0 (garg2022).

    >>> from iclearn.core.prompt import full_prompt
    >>> Averaging().predict(full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2)))
    Array([1.], dtype=float64)
    """

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        return prompt.query @ (x.T @ y) / jnp.maximum(prompt.num_context(), 1)


class OnlineDescent(AbstractModel):
    """One pass of gradient descent over the pairs in their order, one step a pair, from 0 (akyurek2023).

    w ← w − lr·clip(g, ±bound), g = −2 Σ x_i (y_i − w·x_i) + 2·decay·w, the sum being over the new pair alone or, with
    `window` ``full``, over all pairs so far.

    Args:
        lr: step size; may be traced.
        window: ``one`` or ``full``.
        decay: weight decay; may be traced.
        bound: every entry of the gradient is cut off there.

    >>> from iclearn.core.prompt import full_prompt
    >>> OnlineDescent(0.25).predict(full_prompt(jnp.ones((2, 1)), jnp.ones((2, 1)), jnp.ones(1)))
    Array([0.75], dtype=float64)
    """

    lr: Float[Array, ""] = eqx.field(converter=scalar, default=0.02)
    window: Literal["one", "full"] = eqx.field(static=True, default="one")
    decay: Float[Array, ""] = eqx.field(converter=scalar, default=0.0)
    bound: float = eqx.field(static=True, default=20.0)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        return (prompt.query @ self._pass(x, y, prompt.mask)[-1]).astype(prompt.query.dtype)

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        inputs, labels = x[:-1].astype(jnp.float64), y[:-1].astype(jnp.float64)
        found = self._pass(inputs, labels, jnp.ones(x.shape[0] - 1, bool))
        return jnp.einsum("td,tdo->to", x, found).astype(x.dtype)

    def _pass(self, x: Array, y: Array, mask: Array) -> Float[Array, "tokens dim output"]:
        """w before the first pair and after every pair; pairs that are not there change nothing."""
        place = jnp.arange(x.shape[0])

        def step(w: Array, now: Array) -> tuple[Array, Array]:
            read = mask & (place == now if self.window == "one" else place <= now)
            gradient = 2 * self.decay * w - 2 * x.T @ (read[:, None] * (y - x @ w))
            new = jnp.where(mask[now], w - self.lr * jnp.clip(gradient, -self.bound, self.bound), w)
            return new, new

        start = jnp.zeros((x.shape[1], y.shape[1]))
        return jnp.concatenate([start[None], jax.lax.scan(step, start, place)[1]])


class ConjugateGradients(AbstractModel):
    """k steps of conjugate gradients on the normal equations XᵀXw = Xᵀy from 0; after rank(X) steps least squares.

    Not linear in the labels. Every output has steps of its own.

    Args:
        steps: k.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.diag(jnp.array([1.0, 2.0])), jnp.array([[1.0], [2.0]]), jnp.ones(2))
    >>> [round(float(ConjugateGradients(k).predict(prompt)[0]), 6) for k in (1, 2)]
    [1.307692, 2.0]
    """

    steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_int("the number of conjugate gradient steps", self.steps, 0)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        w = jax.vmap(lambda labels: self._solve(x, labels), 1, 1)(y)
        return (prompt.query @ w).astype(prompt.query.dtype)

    def _solve(self, x: Float[Array, "context dim"], y: Float[Array, " context"]) -> Float[Array, " dim"]:
        gradient = x.T @ y
        first = gradient @ gradient
        # a gradient that is rounding has no direction: steps along it would only add noise
        least = (10 * max(x.shape) * jnp.finfo(x.dtype).eps) ** 2 * first

        def step(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            w, residual, direction, size = state
            moved = x @ direction
            on = size > least
            length = jnp.where(on, size / jnp.where(on, moved @ moved, 1.0), 0.0)
            residual = residual - length * moved
            gradient = x.T @ residual
            new = gradient @ gradient
            turned = gradient + jnp.where(on, new / jnp.where(on, size, 1.0), 0.0) * direction
            return (w + length * direction, residual, turned, jnp.where(on, new, size)), None

        start = (jnp.zeros_like(gradient), y, gradient, first)
        return jax.lax.scan(step, start, None, length=self.steps)[0][0]
