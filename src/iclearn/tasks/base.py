"""What an engine asks of a task."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core.prompt import Batch, FeatureBatch
from ..core.spec import Spec

if TYPE_CHECKING:
    from .expectations import LabelLaw


class AbstractSource(eqx.Module):
    """A task with its seed spent: arrays and keys from which blocks of prompts are computed, never stored whole.

    Pure functions of (source, block index), so they can be jitted, vmapped over seeds and spread over devices.
    """

    num_prompts: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def num_blocks(self) -> int: ...

    @abstractmethod
    def block(self, index: Array) -> Batch | FeatureBatch:
        """The prompts of one block; weights add up to one over all blocks, and are 0 beyond the last prompt."""

    @abstractmethod
    def prefix_block(self, index: Array, context: Array | int) -> Batch:
        """The same prompts cut after `context` pairs, the next token being the query."""

    @eqx.filter_jit  # one program instead of one for every operation
    def everything(self, contexts: int = 0) -> Batch | FeatureBatch:
        """All prompts at once; with ``contexts`` > 0 all prefixes of 1..contexts pairs as prompts of their own."""
        indices = jnp.arange(self.num_blocks)

        def gather(block: Batch | FeatureBatch) -> Batch | FeatureBatch:
            return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: self.num_prompts], block)

        if contexts == 0:
            return gather(jax.vmap(self.block)(indices))
        parts = [gather(jax.vmap(lambda i, n=n: self.prefix_block(i, n))(indices)) for n in range(1, contexts + 1)]
        whole = jax.tree.map(lambda *a: jnp.concatenate(a), *parts)
        return eqx.tree_at(lambda b: b.weight, whole, whole.weight / contexts)


class AbstractTask(Spec):
    """A distribution of prompts: a frozen spec that gives samples, and closed-form moments where they exist."""

    dim: int
    context_len: int
    out_dim: int
    num_prompts: int | None
    prefixes: bool

    @abstractmethod
    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"]: ...

    @abstractmethod
    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> AbstractSource:
        """The prompts of the set `which`, drawn from the streams of `seed`."""

    @abstractmethod
    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch | FeatureBatch:
        """`batch_size` new prompts, for training that never sees one twice."""

    def numbers(self) -> dict[str, Any]:
        """Fields that `fresh` reads as numbers only and that may therefore be traced."""
        return {}

    @property
    @abstractmethod
    def tests(self) -> tuple[str, ...]:
        """Names of the test sets."""

    @abstractmethod
    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        """The mixture of label distributions, for engines that integrate over prompts instead of drawing them."""
