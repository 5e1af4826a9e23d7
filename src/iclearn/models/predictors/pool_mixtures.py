"""Posterior means where the task is one of a pool, or near one of a pool: dMMSE, and its smoothed form; the oracle.

All of them answer every prefix of a sequence in one pass over the pool, block of tasks by block of tasks with a running
maximum of the exponents, so that memory does not grow with the pool. They compute in double precision whatever that of
the prompt is: exponents reach 10³ and more.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ...core.checks import check_int, require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import as_columns, context, grams_before, refuse_negative, scalar

BLOCK = 1024  # tasks looked at together
Block = Float[Array, "task dim output"]


def as_pool(tasks: Float[Array, "..."] | np.ndarray) -> Float[Array, "task dim output"]:
    """Tasks (task, dim) or (task, dim, output) in double precision, with an axis of outputs; no tasks are refused."""
    found = jnp.asarray(tasks, jnp.float64)
    require(found.ndim in (2, 3), f"a pool must have shape (task, dim) or (task, dim, output), not {found.shape}")
    require(found.shape[0] >= 1, "a pool needs at least one task")
    return found[..., None] if found.ndim == 2 else found


def mixture_mean(
    tasks: Float[Array, "task dim output"],
    exponents: Callable[[Block], Float[Array, "task token"]],
    values: Callable[[Block], Float[Array, "task token output"]],
    block: int = BLOCK,
) -> Float[Array, "token output"]:
    """Σ_i p_i v_i with p = softmax of exponents over a pool, in memory that does not grow with it.

    Args:
        tasks: (task, dim, output) the pool.
        exponents: maps tasks to their exponents, for every token.
        values: maps tasks to v_i, for every token.
        block: tasks looked at together.

    Returns:
        (token, output) the means.

    >>> pool = jnp.array([[[0.0]], [[1.0]], [[5.0]]])
    >>> mixture_mean(pool, lambda w: jnp.log1p(w[:, 0]), lambda w: w, block=2)  # weights 1, 2 and 6
    Array([[3.55555556]], dtype=float64)
    """
    count = tasks.shape[0]
    block = min(block, count)
    num_blocks = -(-count // block)
    padded = jnp.pad(tasks, ((0, num_blocks * block - count), (0, 0), (0, 0)))

    def add(index: Array | int, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, total, weighted = sums
        part = jax.lax.dynamic_slice_in_dim(padded, index * block, block)
        there = (index * block + jnp.arange(block) < count)[:, None]
        exponent = jnp.where(there, exponents(part), -jnp.inf)
        new_top = jnp.maximum(top, exponent.max(0))
        weight, shrink = jnp.exp(exponent - new_top), jnp.exp(top - new_top)
        return new_top, total * shrink + weight.sum(0), weighted * shrink[:, None] + jnp.einsum(
            "it,ito->to", weight, values(part)
        )  # fmt: skip

    shape = jax.eval_shape(values, padded[:block]).shape[1:]
    start = (jnp.full(shape[0], -jnp.inf), jnp.zeros(shape[0]), jnp.zeros(shape))
    _, total, weighted = jax.lax.fori_loop(0, num_blocks, add, start)
    return weighted / total[:, None]


def before(values: Float[Array, "*batch token"]) -> Float[Array, "*batch token"]:
    """For every token the sum over those before it.

    >>> before(jnp.array([1.0, 2.0, 4.0])).tolist()
    [0.0, 1.0, 3.0]
    """
    return jnp.concatenate([jnp.zeros_like(values[..., :1]), jnp.cumsum(values[..., :-1], -1)], -1)


class AbstractPoolPredictor(AbstractModel):
    """A predictor that knows the pool and the noise.

    Args:
        tasks: (task, dim, output) the pool.
        noise: () variance of the label noise, above 0.
        block: tasks looked at together.
    """

    tasks: eqx.AbstractVar[Float[Array, "task dim output"]]
    noise: eqx.AbstractVar[Float[Array, ""]]
    block: eqx.AbstractVar[int]

    def __check_init__(self) -> None:
        check_int("the block of tasks", self.block, 1)
        known = not isinstance(self.noise, Tracer)
        require(not known or self.noise > 0, f"a pool has a posterior where labels have noise: {self.noise} is not > 0")


class DiscreteMMSE(AbstractPoolPredictor):
    """dMMSE: the posterior mean of w·x_q where w is one of a pool with equal chances (raventos2023).

    ŵ = Σ_i p_i w_i, p = softmax_i(−Σ_a (y_a − w_i·x_a)²/2σ²); without a context the mean of the pool.

    Args:
        tasks: (task, dim) or (task, dim, output) the pool.
        noise: σ², above 0.
        block: tasks looked at together: memory grows with it and not with the pool.

    >>> pool = DiscreteMMSE(jnp.array([[1.0], [3.0]]), noise=1e-3)
    >>> pool.predict_prefixes(jnp.ones((2, 1)), jnp.array([[3.0], [3.0]]))[:, 0].tolist()
    [2.0, 3.0]
    """

    tasks: Float[Array, "task dim output"] = eqx.field(converter=as_pool)
    noise: Float[Array, ""] = eqx.field(converter=scalar)
    block: int = eqx.field(static=True, default=BLOCK, kw_only=True)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        query = prompt.query.astype(jnp.float64)

        def exponents(w: Block) -> Array:
            return -jnp.sum(self._squares(w, x, y), 1, keepdims=True) / (2 * self.noise)

        found = mixture_mean(self.tasks, exponents, lambda w: jnp.einsum("ido,d->io", w, query)[:, None], self.block)
        return found[0].astype(prompt.query.dtype)

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        inputs, labels = x.astype(jnp.float64), y.astype(jnp.float64)

        def exponents(w: Block) -> Array:
            return -before(self._squares(w, inputs, labels)) / (2 * self.noise)

        found = mixture_mean(self.tasks, exponents, lambda w: jnp.einsum("ido,td->ito", w, inputs), self.block)
        return found.astype(x.dtype)

    def _squares(self, w: Block, x: Array, y: Array) -> Float[Array, "task token"]:
        return jnp.sum((y - jnp.einsum("ido,td->ito", w, x)) ** 2, -1)


class SmoothedMMSE(AbstractPoolPredictor):
    """Smoothed dMMSE: the posterior mean of w·x_q where w ~ N(w_i, vI) around one of a pool with equal chances.

    With G = XᵀX, b = Xᵀy and P = σ²(σ²I + vG)⁻¹: p = softmax_i(−(w_iᵀGPw_i − 2w_iᵀPb)/2σ²) and
    ŵ = v(σ²I + vG)⁻¹b + P Σ_i p_i w_i. v = 0 is dMMSE; one task in the pool is `Bayes`.

    Args:
        tasks: (task, dim) or (task, dim, output) the pool.
        noise: σ², above 0.
        spread: v.
        block: tasks looked at together: memory grows with it and not with the pool.

    >>> float(SmoothedMMSE(jnp.zeros((1, 1)), 1.0, 1.0).predict_prefixes(jnp.ones((2, 1)), jnp.ones((2, 1)))[1, 0])
    0.5
    """

    tasks: Float[Array, "task dim output"] = eqx.field(converter=as_pool)
    noise: Float[Array, ""] = eqx.field(converter=scalar)
    spread: Float[Array, ""] = eqx.field(converter=scalar)
    block: int = eqx.field(static=True, default=BLOCK, kw_only=True)

    def __check_init__(self) -> None:
        refuse_negative("the spread of tasks around the pool", self.spread)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        found = self._answers((x.T @ x)[None], (x.T @ y)[None], prompt.query[None].astype(jnp.float64))
        return found[0].astype(prompt.query.dtype)

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        inputs = x.astype(jnp.float64)
        return self._answers(*grams_before(inputs, y.astype(jnp.float64)), inputs).astype(x.dtype)

    def _answers(
        self, gram: Float[Array, "token dim dim"], cross: Float[Array, "token dim output"], query: Array
    ) -> Float[Array, "token output"]:
        noise, dim = self.noise, gram.shape[-1]
        inverse = jnp.linalg.inv(noise * jnp.eye(dim) + self.spread * gram)
        shrunk = noise * inverse  # P
        form, linear = gram @ shrunk, shrunk @ cross
        local = self.spread * inverse @ cross

        def exponents(w: Block) -> Array:
            bent = jnp.einsum("tde,ieo->itdo", form, w)
            return jnp.einsum("ido,itdo->it", w, 2 * linear - bent) / (2 * noise)

        read = jnp.einsum("td,tde->te", query, shrunk)
        pulled = mixture_mean(self.tasks, exponents, lambda w: jnp.einsum("te,ieo->ito", read, w), self.block)
        return jnp.einsum("td,tdo->to", query, local) + pulled


class Oracle(AbstractModel):
    """Knows the task of the prompt: answers w·x_q.

    Args:
        task: (dim) or (dim, output) w.

    >>> Oracle(jnp.array([2.0])).predict_prefixes(jnp.ones((2, 1)), jnp.zeros((2, 1)))[:, 0].tolist()
    [2.0, 2.0]
    """

    task: Float[Array, "dim output"] = eqx.field(converter=lambda w: as_columns(jnp.asarray(w, float)))

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return prompt.query @ self.task
