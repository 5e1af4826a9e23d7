"""What the training loop asks of an engine."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from ..models.base import AbstractModel

ModelT = TypeVar("ModelT", bound=AbstractModel)


class AbstractEngine(eqx.Module, Generic[ModelT]):
    """How the training loss is obtained. A pytree: engines can be vmapped over, like weights.

    `stochastic` engines use the key of the step (minibatches, fresh prompts); the others ignore it.
    """

    @property
    @abstractmethod
    def stochastic(self) -> bool: ...

    @abstractmethod
    def loss(self, model: ModelT, key: Key[Array, ""]) -> Float[Array, ""]: ...

    @abstractmethod
    def test_losses(self, model: ModelT) -> Float[Array, " test_set"]: ...

    @abstractmethod
    def minimum(self) -> Any | None:
        """The least loss any weights could reach, where the engine knows it: a number, traced under vmap."""


TreeT = TypeVar("TreeT")


def average(trees: Sequence[TreeT], dtype: Any) -> TreeT:
    """The mean of arrays that lie alike in several trees, in this precision."""
    if len(trees) == 1:
        return jax.tree.map(lambda a: a.astype(dtype), trees[0])
    return jax.tree.map(lambda *parts: (functools.reduce(jnp.add, parts) / len(parts)).astype(dtype), *trees)


def numpy_of(array: Array) -> Any:
    """jax.numpy where the array is traced, numpy where it is a number: which compiles nothing."""
    return jnp if isinstance(array, Tracer) else np
