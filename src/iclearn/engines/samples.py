"""The samples engine: predictions for every prompt, one by one. Covers softmax and everything else."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core.errors import IclearnError
from ..core.model import AbstractModel, mean_loss
from ..core.prompt import Batch, FeatureBatch
from ..core.rng import stream
from ..core.sharding import spread_prompts
from ..core.task import AbstractTask
from .base import AbstractEngine


class SamplesEngine(AbstractEngine[AbstractModel]):
    """Full batch, or `batch_size` prompts drawn from the set (with replacement) at every step."""

    train: Batch | FeatureBatch
    tests: tuple[Batch | FeatureBatch, ...]
    num_prompts: int = eqx.field(static=True)  # without those that fill up the devices
    batch_size: int | None = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        return self.batch_size is not None

    def loss(self, model: AbstractModel, key: Key[Array, ""]) -> Float[Array, ""]:
        if self.batch_size is None:
            return mean_loss(model, self.train)
        rows = jax.random.randint(key, (self.batch_size,), 0, self.num_prompts)
        chosen = jax.tree.map(lambda a: a[rows], self.train)
        weight = chosen.weight * (self.num_prompts / self.batch_size)
        return mean_loss(model, eqx.tree_at(lambda b: b.weight, chosen, weight))

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        losses = [mean_loss(model, test) for test in self.tests]
        return jnp.stack(losses) if losses else jnp.zeros((0,), self.train.target.dtype)

    def minimum(self) -> float | None:
        return None


class FreshEngine(AbstractEngine[AbstractModel]):
    """New prompts at every step, drawn inside the compiled loop and never stored.

    `parameters` are the fields of the task that are only numbers: tasks that differ in them share a program.
    """

    tests: tuple[Batch | FeatureBatch, ...]
    seed: Array
    parameters: dict[str, Array]
    task: AbstractTask = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        return True

    def loss(self, model: AbstractModel, key: Key[Array, ""]) -> Float[Array, ""]:
        task = self.task.unchecked(**self.parameters)
        return mean_loss(model, task.fresh(self.seed, key, self.batch_size, self.dtype))

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        losses = [mean_loss(model, test) for test in self.tests]
        return jnp.stack(losses) if losses else jnp.zeros((0,), self.dtype)

    def minimum(self) -> float | None:
        return None


def samples_engine(task: AbstractTask, batch_size: int | None, seed: int, dtype: Any) -> SamplesEngine | FreshEngine:
    """The whole training set in memory, or fresh prompts where the task has infinitely many."""
    tests = tuple(task.source(seed, dtype, which).everything() for which in task.tests)
    if task.num_prompts is None:
        if batch_size is None:
            raise IclearnError(
                "fresh prompts at every step need a batch size; without one, give a number of prompts or "
                "choose a model with a closed-form population loss"
            )
        parameters = task.fresh_parameters()
        blank = task.unchecked(**dict.fromkeys(parameters, 0.0))  # what a program must not depend on
        traced = {name: jnp.asarray(value, jnp.float64) for name, value in parameters.items()}
        return FreshEngine(tests, jnp.asarray(seed), traced, blank, batch_size, jnp.dtype(dtype).name)
    contexts = task.context_len if task.prefixes else 0
    train = task.source(seed, dtype).everything(contexts)
    count = train.weight.shape[0]
    return SamplesEngine(spread_prompts(train, count), tests, count, batch_size)


def step_key(seed: int | Array) -> Key[Array, ""]:
    """Root of the keys that steps use for minibatches and fresh prompts."""
    return stream(seed, "steps")
