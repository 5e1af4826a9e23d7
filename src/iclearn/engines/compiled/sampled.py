"""Runs on fresh prompts by compiled code: prompts, loss, gradient and update.

The prompts are those of the loop in JAX, so losses and weights agree with it to single precision, and a checkpoint of
either can be continued by the other.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...core.prompt import WhitePrompts
from ...core.recipe import Recipe
from ...core.rng import folded_words, split_words, threefry
from ..batch.inputs import RunInputs
from ..build import Setup
from ..optimizers import Hyper
from .fresh_prompts import LANES, PromptSizes
from .gram_runs import GramRun, heads_of
from .gram_steps import fresh_source
from .modules import load_module
from .switch import draws_here

LEAST_BATCH, MOST_BATCH = 32, 4096  # powers of two between them
LARGE_BATCH = 512
LEAST_STEPS, LEAST_STEPS_SMALL = 500, 5000  # with a large batch, and a smaller one; below, compiling takes longer
SMALL_LANES = 16  # prompts of a block of all smaller batches, which share a program


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
    least = LEAST_STEPS if batch >= LARGE_BATCH else LEAST_STEPS_SMALL
    fits = batch & (batch - 1) == 0 and LEAST_BATCH <= batch <= MOST_BATCH and recipe.dtype == "float32"
    if not fits or setup.task.tests or recipe.steps < least:
        return None
    if heads_of(setup.model, Hyper.of(recipe.optimizer, recipe.dtype)) is None:
        return None
    if not draws_here():
        return None
    lanes = min(LANES, batch // 2) if batch >= LARGE_BATCH else SMALL_LANES
    return PromptSizes(setup.task.dim, prompts.context, lanes)


class SampledRun(GramRun):
    """One run on fresh prompts.

    Args:
        run: before its first step.
        setup: where it starts.
        sizes: of its program.
        batch: prompts of a step.
    """

    def __init__(self, run: RunInputs, setup: Setup, sizes: PromptSizes, batch: int) -> None:
        super().__init__(run)
        prompts = setup.task.white_prompts()
        assert isinstance(prompts, WhitePrompts)
        self._key = np.asarray(jax.random.key_data(run.key))
        lanes, tokens = sizes.lanes, sizes.context + 1
        words = np.zeros((8, lanes), np.uint32)
        shapes = ((2, tokens * (sizes.dim + 1), lanes), (2, sizes.dim, lanes), (self._pairs, lanes), lanes)
        room = [np.zeros(shape, np.float32) for shape in (*shapes, (self._rows, lanes))]
        views = (words, words.view(np.float32), words.view(np.int32))
        self._prompts = (np.asarray(prompts.mean, np.float32), batch // 2, *views, *room)
        self._program = load_module(fresh_source(sizes, run.hyper.rule)).advance

    def _run_program(self, given: tuple[Any, ...], steps: np.ndarray) -> None:
        self._program(*given, prompt_keys(self._key, steps), *self._prompts)


def prompt_keys(key: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The words of the keys of inputs and task vectors of each step.

    Args:
        key: (2) the words of the key of the run.
        steps: (step) numbers of the steps.

    Returns:
        (step, 4) the words of both keys.
    """
    of_block = folded_words(key, steps)
    return split_words(np.stack(threefry(of_block, *np.zeros((2, len(steps)), np.uint32))))  # of block 0 of each
