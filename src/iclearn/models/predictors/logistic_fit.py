"""Logistic regression on the context, for labels of two classes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import context, scalar

MAX_STEPS = 200
HALVINGS = 40


class Logistic(AbstractModel):
    """Logistic regression without an intercept on the signs of the labels; answers 2p − 1, p the chance of +1.

    A context of one class answers its label (bai2023). Where a plane separates the classes, and always while there are
    fewer pairs than dimensions, no minimizer exists: w grows without bound. The penalty keeps it finite, along the
    direction of the largest margin as the penalty falls, so that answers there are near ±1 and depend on the penalty.

    Args:
        penalty: λ of (λ/2)‖w‖² beside the sum of logistic losses, above 0; may be traced.

    >>> from iclearn.core.prompt import full_prompt
    >>> x, y = jnp.array([[1.0], [1.0], [1.0], [-1.0]]), jnp.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> Logistic().predict(full_prompt(x, y, jnp.ones(1))).round(4)  # p = 3/4
    Array([0.5], dtype=float64)
    """

    penalty: Float[Array, ""] = eqx.field(converter=scalar, default=1e-6)

    def __check_init__(self) -> None:
        if not isinstance(self.penalty, Tracer):
            require(self.penalty > 0, f"logistic regression needs a penalty above 0, not {self.penalty}")

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        answer = jax.vmap(lambda labels: self._one(x, labels, prompt.mask, prompt.query), 1)(jnp.sign(y))
        return answer.astype(prompt.query.dtype)

    def _one(self, x: Array, signs: Array, mask: Array, query: Array) -> Float[Array, ""]:
        up, down = jnp.any(mask & (signs > 0)), jnp.any(mask & (signs < 0))
        w = logistic_solution(x, signs, self.penalty)
        alone = up.astype(jnp.float64) - down.astype(jnp.float64)
        return jnp.where(up & down, jnp.tanh((query @ w) / 2), alone)


def logistic_solution(
    x: Float[Array, "context dim"], signs: Float[Array, " context"], penalty: Array | float
) -> Float[Array, " dim"]:
    """argmin_w Σ log(1 + exp(−s_i w·x_i)) + (λ/2)‖w‖² by Newton's method with halved steps.

    Args:
        x: (context, dim) inputs; rows of zeros are pairs that are not there.
        signs: (context) ±1.
        penalty: λ, above 0; may be traced.

    Returns:
        (dim) w.
    """
    dim = x.shape[1]

    def value(w: Array) -> Array:
        return jnp.sum(jax.nn.softplus(-signs * (x @ w))) + 0.5 * penalty * jnp.sum(w**2)

    def slope(w: Array) -> Array:
        return penalty * w - x.T @ (signs * jax.nn.sigmoid(-signs * (x @ w)))

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        w, count, _ = state
        margin = x @ w
        curved = x.T @ (x * (jax.nn.sigmoid(margin) * jax.nn.sigmoid(-margin))[:, None]) + penalty * jnp.eye(dim)
        gradient = slope(w)
        move = jnp.linalg.solve(curved, gradient)
        here, fall = value(w), 1e-4 * (gradient @ move)
        lengths = 0.5 ** jnp.arange(HALVINGS)
        good = jax.vmap(lambda length: value(w - length * move) <= here - length * fall)(lengths)
        length = jnp.where(jnp.any(good), lengths[jnp.argmax(good)], 0.0)
        return w - length * move, count + 1, (length == 0) | (gradient @ move <= 1e-26 * (1 + here))

    start = (jnp.zeros(dim), jnp.zeros((), int), jnp.zeros((), bool))
    return jax.lax.while_loop(lambda s: ~s[2] & (s[1] < MAX_STEPS), step, start)[0]
