"""Runs on fresh prompts: prompts, loss and its gradient by compiled code, the update by the step of the loop.

The prompts are those of the loop in JAX, so losses and weights agree with it to single precision, and a checkpoint of
either can be continued by the other.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...core.forms import as_array
from ...core.model import AbstractModel
from ...core.prompt import WhitePrompts
from ...core.recipe import Recipe
from ...core.rng import counter_streams, threefry
from ..base import AbstractEngine, stack_losses
from ..batch.inputs import RunInputs
from ..build import Setup
from ..loop import Chunk, State, take_step
from .fresh_prompts import LANES, PromptSizes, prompts_source
from .modules import load_module
from .switch import available

LEAST_BATCH, MOST_BATCH = 512, 4096  # powers of two between them; with fewer prompts XLA is as fast
LEAST_STEPS = 500  # below, compiling takes longer


def prompt_sizes(recipe: Recipe, setup: Setup) -> PromptSizes | None:
    """The sizes of the compiled program of a run on fresh prompts.

    Args:
        recipe: the experiment.
        setup: where it starts.

    Returns:
        The sizes; None where the loop in JAX trains it.
    """
    batch, prompts = recipe.optimizer.batch_size, setup.task.white_prompts()
    if not isinstance(prompts, WhitePrompts) or batch is None:
        return None
    if setup.engine_name != "samples" or recipe.task.num_prompts is not None:
        return None
    fits = batch & (batch - 1) == 0 and LEAST_BATCH <= batch <= MOST_BATCH and recipe.dtype == "float32"
    if not fits or setup.task.tests or recipe.steps < LEAST_STEPS or setup.model.gram_table() is None:
        return None
    if not available() or not counter_streams() or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return None
    return PromptSizes(setup.task.dim, prompts.context, min(LANES, batch // 2))


class _Along(AbstractEngine[AbstractModel]):
    """The inner product of coefficients with a gradient: its gradient in the weights is that of the loss."""

    gradient: Float[Array, "output dim pair"]

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: AbstractModel, key: Key[Array, ""]) -> Float[Array, ""]:
        return jnp.sum(self.gradient * _columns(model))

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        return stack_losses([])

    def minimum(self) -> None:
        return None


def _columns(model: AbstractModel) -> Array:
    table = model.gram_table()
    assert table is not None
    return jnp.swapaxes(table, 1, 2)


@functools.partial(jax.jit, static_argnums=0)
def _updated(structure: Any, leaves: list[Array], hyper: Any, key: Array, gradient: Array) -> tuple[list[Array], Array]:
    """The state after a step, and its coefficients; leaves and not trees, because Python goes through them."""
    after, _ = take_step(_Along(gradient), hyper.transformation(), jax.tree.unflatten(structure, leaves), key)
    return jax.tree.leaves(after), _columns(after.model)


class SampledRun:
    """One run in progress.

    Args:
        run: before its first step.
        setup: where it starts.
        sizes: of its program.
        batch: prompts of a step.
    """

    def __init__(self, run: RunInputs, setup: Setup, sizes: PromptSizes, batch: int) -> None:
        prompts = setup.task.white_prompts()
        assert isinstance(prompts, WhitePrompts)
        self.state = State(run.model, run.optimizer, as_array(0))
        self._mean, self._half = np.asarray(prompts.mean, np.float32), batch // 2
        self._key = np.asarray(jax.random.key_data(run.key))
        self._gradient = load_module(prompts_source(sizes)).gradient
        self._leaves, self._structure = jax.tree.flatten(self.state)
        self._names, self._given = tuple(run.model.axes), (run.hyper, run.key)

    def load(self, leaves: list[np.ndarray]) -> int:
        """Go on from a state.

        Args:
            leaves: those of `state`.

        Returns:
            The step it is at.
        """
        self._leaves = [as_array(leaf, old.dtype) for leaf, old in zip(leaves, self._leaves, strict=True)]
        self.state = jax.tree.unflatten(self._structure, self._leaves)
        return int(self.state.step)

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        """Train to a step.

        Args:
            start: the step it is at.
            stop: the step to stop at.
            every: steps from one record of the weights to the next.

        Returns:
            What was recorded.
        """
        losses, records = np.empty(stop - start, np.float32), []
        keys = prompt_keys(self._key, np.arange(start, stop))
        leaves, table = self._leaves, np.array(_columns(self.state.model), order="C")
        out = np.empty_like(table)
        for index in range(stop - start):
            if index % every == 0:
                model = jax.tree.unflatten(self._structure, leaves).model
                records.append([np.array(getattr(model, name)) for name in self._names])
            losses[index] = self._gradient(table, keys[index], self._mean, self._half, out)
            leaves, after = _updated(self._structure, leaves, *self._given, out)
            np.copyto(table, after)
        self._leaves, self.state = leaves, jax.tree.unflatten(self._structure, leaves)
        weights: dict[str, Any] = {
            name: np.stack(parts) for name, parts in zip(self._names, zip(*records, strict=True), strict=True)
        }
        return Chunk(losses, np.zeros((stop - start, 0), np.float32), weights)


def prompt_keys(key: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The words of the keys of inputs and task vectors of each step.

    Args:
        key: (2) the words of the key of the run.
        steps: (step) numbers of the steps.

    Returns:
        (step, 4) the words of both keys.
    """
    nothing = np.zeros(len(steps), np.uint32)
    of_step = threefry(np.repeat(key[:, None], len(steps), 1), nothing, steps.astype(np.uint32))
    of_block = np.stack(threefry(np.stack(of_step), nothing, nothing))
    return np.stack([*threefry(of_block, nothing, nothing), *threefry(of_block, nothing, nothing + np.uint32(1))], 1)
