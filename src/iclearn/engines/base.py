"""What the training loop asks of an engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core.model import AbstractModel

ModelT = TypeVar("ModelT", bound=AbstractModel)


class AbstractEngine(eqx.Module, Generic[ModelT]):
    """How the training loss is obtained. A pytree: engines can be vmapped over, like weights.

    >>> import iclearn as icl
    >>> from iclearn.engines import prepare
    >>> from iclearn.engines.samples import step_key
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> setup = prepare(icl.Recipe(task=task, model=icl.Attention("merged"), init=icl.Init(0.0)))
    >>> setup.engine.stochastic, float(setup.engine.loss(setup.model, step_key(0)))  # E y² = tr Λ
    (False, 1.0)
    """

    @property
    @abstractmethod
    def stochastic(self) -> bool:
        """Whether the loss depends on the key of the step (minibatches, fresh prompts)."""

    @abstractmethod
    def loss(self, model: ModelT, key: Key[Array, ""]) -> Float[Array, ""]:
        """The training loss, differentiable in the model.

        Args:
            model: the model.
            key: of the step; an engine that is not `stochastic` ignores it.

        Returns:
            () the loss.
        """

    def at_step(self, step: Array) -> Any:
        """The engine of a step, for losses that change in the course of training.

        Args:
            step: () the step; may be traced.

        Returns:
            The engine; itself where its loss stays what it is.
        """
        return self

    @abstractmethod
    def test_losses(self, model: ModelT) -> Float[Array, " test_set"]:
        """The losses on the test sets.

        Args:
            model: the model.

        Returns:
            (test_set) the losses, in the order of the task's `tests`.
        """

    @abstractmethod
    def minimum(self) -> Any | None:
        """The least loss any weights could reach: a number, traced under vmap, or None where it is not known."""


def stack_losses(losses: Sequence[Array]) -> Float[Array, " test_set"]:
    """Losses as one array, of length 0 where there are none."""
    return jnp.stack(losses) if losses else jnp.zeros(0)
