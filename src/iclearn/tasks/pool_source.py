"""The prompts of a pool of tasks: how tasks are drawn, chosen and turned into sequences."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ..core.prompt import Batch, SequenceBatch, full_prompt, prefix_prompt
from ..core.rng import normal, normal_rows
from ..core.task import AbstractBlockSource

_TASK, _NOISE, _CHOICE = 1, 2, 3  # what else is drawn from the key of a block
_NO_BLOCK = 0x7FFFFFFF  # what is drawn from the key of a set once


class TaskLaw(eqx.Module):
    """The law of task vectors: N(0, C), or uniform on the sphere ‖w‖² = tr C.

    Args:
        roots: (dim) roots of the eigenvalues of C, whose eigenvectors are the axes.
        on_sphere: whether on the sphere.
    """

    roots: Float[Array, " dim"]
    on_sphere: bool = eqx.field(static=True)

    def shaped(self, z: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """Tasks of this law from standard normals."""
        w = z * self.roots.astype(z.dtype)
        if not self.on_sphere:
            return w
        radius = jnp.sqrt(jnp.sum(self.roots**2)).astype(z.dtype)
        return w * (radius / jnp.linalg.norm(w, axis=-1, keepdims=True))


def pool_rows(law: TaskLaw, key: Key[Array, ""], numbers: Int[Array, " task"]) -> Float[Array, "task dim"]:
    """Tasks of the pool by their numbers: task i is drawn from fold_in(key, i), whatever the size of the pool.

    Args:
        law: of the tasks.
        key: of the stream ``tasks``.
        numbers: (task) the numbers.

    Returns:
        (task, dim) the tasks, in double precision.
    """
    dim = law.roots.shape[0]
    return law.shaped(jax.vmap(lambda i: normal(jax.random.fold_in(key, i), (dim,), jnp.float64))(numbers))


class Sequences(eqx.Module):
    """Prompts as sequences of tokens, the query last, for models that predict every prefix.

    Args:
        x: (prompt, token, dim) the inputs.
        y: (prompt, token, 1) the labels with noise.
        truth: (prompt, token, 1) the labels without.
        w: (prompt, dim) the tasks.
    """

    x: Float[Array, "prompt token dim"]
    y: Float[Array, "prompt token output"]
    truth: Float[Array, "prompt token output"]
    w: Float[Array, "prompt dim"]


class PooledSource(AbstractBlockSource):
    """The prompts of a `PooledRegression` under one seed.

    Args:
        inputs: (dim, dim) a factor of Λ.
        noise_std: () standard deviation of the noise.
        law: of the tasks.
        pool_key: from which the tasks of the pool are drawn.
        num_tasks: () size of the pool, so that pools of all sizes share a program (None: every prompt has a new task).
        tokens: context pairs and query.
        balanced: whether tasks are taken in turn.
        target_noise: whether targets have noise.
    """

    inputs: Float[Array, "dim dim"]
    noise_std: Float[Array, ""]
    law: TaskLaw
    pool_key: Key[Array, ""]
    num_tasks: Int[Array, ""] | None
    tokens: int = eqx.field(static=True)
    balanced: bool = eqx.field(static=True)
    target_noise: bool = eqx.field(static=True)

    def chosen(self, index: Any) -> Int[Array, " prompts"]:
        """The numbers of the tasks of a block's prompts; −1 where each has a new one."""
        if self.num_tasks is None:
            return jnp.full(self.block_size, -1)
        if self.balanced:
            first = jax.random.randint(jax.random.fold_in(self.key, _NO_BLOCK), (), 0, self.num_tasks)
            return (first + self.positions(index)) % self.num_tasks
        key = jax.random.fold_in(jax.random.fold_in(self.key, index), _CHOICE)
        return jax.random.randint(key, (self.block_size,), 0, self.num_tasks)

    def sequences_of(self, index: Any) -> Sequences:
        """The prompts of one block as sequences.

        Args:
            index: of the block; may be traced.

        Returns:
            The sequences; those beyond `num_prompts` are there too.
        """
        key = jax.random.fold_in(self.key, index)
        size, dim = self.block_size, self.inputs.shape[0]
        x = normal_rows(key, size * self.tokens, self.inputs.T, self.dtype).reshape(size, self.tokens, dim)
        if self.num_tasks is None:
            drawn = normal_rows(jax.random.fold_in(key, _TASK), size, jnp.eye(dim), self.dtype)
            w = self.law.shaped(drawn)
        else:
            w = pool_rows(self.law, self.pool_key, self.chosen(index)).astype(self.dtype)
        truth = jnp.einsum("bti,bi->bt", x, w)[..., None]
        noise = normal(jax.random.fold_in(key, _NOISE), truth.shape, self.dtype)
        return Sequences(x, truth + self.noise_std.astype(x.dtype) * noise, truth, w)

    @eqx.filter_jit
    def sequences(self) -> Sequences:
        """All prompts of the set as sequences."""
        blocks = jax.vmap(self.sequences_of)(jnp.arange(self.num_blocks))
        return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: self.num_prompts], blocks)

    @eqx.filter_jit
    def everything(self, contexts: int | range = 0) -> Batch:
        drawn = self.sequences()  # once for all prefixes
        lengths = range(1, contexts + 1) if isinstance(contexts, int) and contexts else contexts
        counts = jnp.asarray(lengths or [self.tokens - 1])
        labels = drawn.y if self.target_noise else drawn.truth
        prompts = jax.vmap(lambda n: prefix_prompt(drawn.x, drawn.y, n))(counts)
        target = jnp.swapaxes(labels[:, counts], 0, 1)
        prompts, target = jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), (prompts, target))
        return Batch(prompts, target, jnp.full(len(target), 1 / len(target), self.dtype))

    @eqx.filter_jit
    def whole_sequences(self, first: int) -> SequenceBatch:
        drawn = self.sequences()
        weight = jnp.full(self.num_prompts, 1 / self.num_prompts, self.dtype)
        return SequenceBatch(drawn.x, drawn.y, drawn.y if self.target_noise else drawn.truth, weight, first)

    def _weight(self, index: Any) -> Array:
        return ((self.positions(index) < self.num_prompts) / self.num_prompts).astype(self.dtype)

    def block(self, index: Any) -> Batch:
        drawn = self.sequences_of(index)
        prompt = full_prompt(drawn.x[:, :-1], drawn.y[:, :-1], drawn.x[:, -1])
        return Batch(prompt, (drawn.y if self.target_noise else drawn.truth)[:, -1], self._weight(index))

    def prefix_block(self, index: Any, context: Array | int) -> Batch:
        drawn = self.sequences_of(index)
        target = (drawn.y if self.target_noise else drawn.truth)[:, context]
        return Batch(prefix_prompt(drawn.x, drawn.y, context), target, self._weight(index))
