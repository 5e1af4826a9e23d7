"""Gradient descent on a softmax regression document: the algorithm li2024's layers are compared with."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import mean_loss
from ...core.prompt import Batch, Document
from ..softmax_layers import AbstractWeightEstimator

_GRID = 24  # coarse points of a line search
_GOLDEN = (5**0.5 - 1) / 2


class SoftmaxDescent(AbstractWeightEstimator):
    """k steps x ← x − η∇L(x) from x = 0 on L = ½‖softmax(Ax) − b‖² of the context; logits A_q x.

    ∇L = Aᵀ(f∘c − (f·c) f) with f = softmax(Ax), c = f − b; the first step ends at (η/n)Aᵀb where A is centered.

    Args:
        lr: η, of order n; may be traced. `line_search` finds the best one.
        steps: k.

    >>> document = Document(jnp.array([[1.0], [-1.0]]), jnp.array([0.75, 0.25]), jnp.array([[1.0], [-1.0]]))
    >>> SoftmaxDescent(jnp.asarray(2.0)).estimate(document)  # (η/n) Aᵀb
    Array([0.5], dtype=float64)
    """

    lr: Float[Array, ""]
    steps: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        require(self.steps >= 0, f"the number of gradient steps must not be negative, not {self.steps}")

    def estimate(self, document: Document) -> Float[Array, " dim"]:
        a, b = document.context, document.target

        def step(_: Any, x: Array) -> Array:
            f = jax.nn.softmax(a @ x)
            c = f - b
            return x - self.lr.astype(a.dtype) * ((f * c - f * (f @ c)) @ a)

        return jax.lax.fori_loop(0, self.steps, step, jnp.zeros(a.shape[1], a.dtype))


def ray_loss(
    logits: Float[Array, "prompts query_word"], factor: Float[Array, ""], batch: Batch[Document]
) -> Float[Array, ""]:
    """The loss of a model whose logits are a factor times known ones: `mean_loss` without reading the documents again.

    Args:
        logits: (prompts, query_word) for the factor 1.
        factor: () what they are multiplied with.
        batch: the documents.

    Returns:
        () the loss.
    """
    found = jax.nn.softmax(factor.astype(logits.dtype) * logits, axis=-1)
    return batch.unit * jnp.sum(batch.weight * jnp.mean((batch.target - found) ** 2, -1))


@eqx.filter_jit
def line_search(
    batch: Batch[Document], steps: int = 1, highest: float | None = None, rounds: int = 24
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The learning rate η of `SoftmaxDescent` with the least loss, by a bounded scalar search on (0, highest).

    A coarse grid brackets the minimum, golden sections close in (relative width .62^rounds of two grid cells).

    Args:
        batch: the documents.
        steps: k of the descent.
        highest: upper end (None: 4n; the best step of a centered context is below about n).
        rounds: golden sections.

    Returns:
        () η and () the loss.
    """
    top = 4.0 * batch.prompt.context.shape[1] if highest is None else highest

    # one step is η times the same logits, which are made once
    logits = jax.vmap(SoftmaxDescent(jnp.ones(()), 1).logits)(batch.prompt) if steps == 1 else None

    def loss(lr: Array) -> Array:
        found = mean_loss(SoftmaxDescent(lr, steps), batch) if logits is None else ray_loss(logits, lr, batch)
        return jnp.where(jnp.isfinite(found), found, jnp.inf)

    cell = top / _GRID
    grid = cell * jnp.arange(1, _GRID + 1, dtype=float)
    best = grid[jnp.argmin(jax.lax.map(loss, grid))]

    def close_in(_: Any, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, left, right, at_left, at_right = carry
        keep_left = at_left < at_right
        low, high = jnp.where(keep_left, low, left), jnp.where(keep_left, right, high)
        new = jnp.where(keep_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        value = loss(new)
        points = jnp.where(keep_left, new, right), jnp.where(keep_left, left, new)
        return low, high, *points, jnp.where(keep_left, value, at_right), jnp.where(keep_left, at_left, value)

    low, high = best - cell, best + cell
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    carry = jax.lax.fori_loop(0, rounds, close_in, (low, high, left, right, loss(left), loss(right)))
    middle = (carry[0] + carry[1]) / 2
    return middle, loss(middle)
