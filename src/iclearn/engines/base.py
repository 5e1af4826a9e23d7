"""What the training loop asks of an engine."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import equinox as eqx
from jaxtyping import Array, Float, Key

from ..core.model import AbstractModel

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
