"""The samples engine: predictions for every prompt, one by one. Covers softmax and everything else."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core.errors import IclearnError
from ..core.model import AbstractModel, mean_loss
from ..core.prompt import Batch, FeatureBatch, SequenceBatch
from ..core.rng import stream
from ..core.sharding import spread_prompts
from ..core.task import AbstractTask
from .base import AbstractEngine, stack_losses


class AbstractPromptsEngine(AbstractEngine[AbstractModel]):
    """An engine that predicts prompt by prompt and therefore does not know the least loss.

    Args:
        tests: the prompts of the test sets.
    """

    tests: tuple[Batch | FeatureBatch, ...]

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        return stack_losses([mean_loss(model, test) for test in self.tests])

    def minimum(self) -> None:
        return None


class SamplesEngine(AbstractPromptsEngine):
    """Full batch, or a number of prompts drawn from the set (with replacement) at every step.

    Args:
        train: the prompts of the training set.
        num_prompts: how many they are, without those that fill up the devices.
        batch_size: prompts of a step (None: all).

    >>> import iclearn as icl
    >>> from iclearn.engines import prepare
    >>> task = icl.LinearRegression(dim=2, context_len=4, num_prompts=50)
    >>> prepare(icl.Recipe(task=task, model=icl.Attention(softmax=True))).engine.num_prompts
    50
    """

    train: Batch | FeatureBatch | SequenceBatch
    num_prompts: int = eqx.field(static=True)
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


class FreshEngine(AbstractPromptsEngine):
    """New prompts at every step, drawn inside the compiled loop and never stored.

    Args:
        seed: () the root seed.
        parameters: the fields of the task that are only numbers: tasks that differ in them share a program.
        task: the task, with 0 in these fields.
        batch_size: prompts of a step.
        dtype: name of their precision.
        sequences: whether they are drawn as whole sequences, all prefixes of which are answered in one pass.
        step: () the step of training (None: the task as it is in itself).

    >>> import iclearn as icl
    >>> from iclearn.engines import prepare
    >>> task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None)
    >>> optimizer = icl.Optimizer("sgd", batch_size=8)
    >>> prepare(icl.Recipe(task=task, model=icl.Attention(softmax=True), optimizer=optimizer)).engine.stochastic
    True
    """

    seed: Array
    parameters: dict[str, Array]
    task: AbstractTask = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)
    sequences: bool = eqx.field(static=True, default=False)
    step: Array | None = None

    def at_step(self, step: Array) -> FreshEngine:
        return eqx.tree_at(lambda e: e.step, self, step, is_leaf=lambda leaf: leaf is None)

    @property
    def stochastic(self) -> bool:
        return True

    def loss(self, model: AbstractModel, key: Key[Array, ""]) -> Float[Array, ""]:
        task = self.task.unchecked(**self.parameters)
        task = task if self.step is None else task.at_step(self.step)
        draw = task.fresh_sequences if self.sequences else task.fresh
        return mean_loss(model, draw(self.seed, key, self.batch_size, self.dtype))


def samples_engine(
    task: AbstractTask, batch_size: int | None, seed: int, dtype: Any, model: AbstractModel | None = None
) -> SamplesEngine | FreshEngine:
    """The engine that has the whole training set in memory, or fresh prompts where the task has infinitely many.

    Args:
        task: the task.
        batch_size: prompts of a step (None: the whole training set).
        seed: the root seed.
        dtype: the precision.
        model: one that reads less than whole prompts (`AbstractModel.summarize`) has only that kept in memory; one
            that answers all prefixes in one pass is trained on whole sequences where the task trains on prefixes.

    Returns:
        The engine.
    """
    tests = tuple(summarized(task.source(seed, dtype, which).everything(), model) for which in task.tests)
    sequences = task.prefixes and task.gives_sequences and model is not None and model.one_pass
    if task.num_prompts is None:
        if batch_size is None:
            raise IclearnError(
                "fresh prompts at every step need a batch size; without one, give a number of prompts or "
                "choose a model with a closed-form population loss"
            )
        parameters = task.fresh_parameters()
        blank = task.unchecked(**dict.fromkeys(parameters, 0.0))  # what a program must not depend on
        traced = {name: jnp.asarray(value, jnp.float64) for name, value in parameters.items()}
        return FreshEngine(tests, jnp.asarray(seed), traced, blank, batch_size, jnp.dtype(dtype).name, sequences)
    source = task.source(seed, dtype)
    if sequences:
        train: Any = source.whole_sequences(task.context_lengths()[0])
    else:
        train = summarized(source.everything(task.context_lengths() if task.prefixes else 0), model)
    count = train.weight.shape[0]
    return SamplesEngine(tests, spread_prompts(train, count), count, batch_size)


def summarized(batch: Batch | FeatureBatch, model: AbstractModel | None) -> Batch | FeatureBatch:
    """The batch with what a model reads of each prompt in place of the prompt.

    Args:
        batch: the prompts.
        model: the model (None: one that reads all).

    Returns:
        The batch; one of ready-made features stays as it is.
    """
    if isinstance(batch, FeatureBatch) or model is None or type(model).summarize is AbstractModel.summarize:
        return batch
    return Batch(_summaries(model, batch.prompt), batch.target, batch.weight, batch.unit)


@eqx.filter_jit  # here, so that every run has the same function and shares a program
def _summaries(model: AbstractModel, prompts: Any) -> Any:
    return jax.vmap(model.summarize)(prompts)


def step_key(seed: int | Array) -> Key[Array, ""]:
    """The key from which those of the steps are made, for minibatches and fresh prompts.

    Args:
        seed: the root seed; may be traced.

    Returns:
        The key of the stream ``steps``.
    """
    return stream(seed, "steps")
