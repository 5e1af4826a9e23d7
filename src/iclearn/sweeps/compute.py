"""The numbers of one chunk: all its runs side by side, or one at a time (the reference)."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ..core.recipe import Recipe, Record
from ..engines.reductions import reduce_curves, sample_steps
from ..engines.simulate import simulate
from .levels import zhang_levels
from .plan import Chunk, Plan


def compute(plan: Plan, chunk: Chunk) -> dict[str, np.ndarray]:
    """Name → array with a leading axis of runs, in the order of `plan.indices`."""
    group, numbers = plan.group(chunk.box), plan.numbers(chunk.box)
    levels = zhang_levels(group, numbers, chunk.runs) if plan.reduce.levels == "zhang2025" else None
    if plan.path == "serial" or group.optimizer.rule == "flow":
        recipes = [plan.recipe(index) for index in plan.indices(chunk.box)]
        return train_serial(recipes, levels, plan.reduce.samples, plan.reduce.curve)
    from ..engines.batch.train_batch import train_batch

    numbers = numbers or {"seed": np.array([group.seed])}  # all axes are static: a batch of one
    # chunks at the edge of the grid are filled up, so that one program serves all
    spare = math.prod(plan.box_shape) - chunk.runs
    numbers = {name: _filled(column, spare) for name, column in numbers.items()}
    found = train_batch(
        group,
        numbers,
        levels=None if levels is None else _filled(levels, spare),
        samples=plan.reduce.samples,
        curve=plan.reduce.curve,
        path=plan.path,
    )
    return {name: values[: chunk.runs] for name, values in found.items()}


def _filled(column: np.ndarray, spare: int) -> np.ndarray:
    return np.concatenate([column, np.repeat(column[-1:], spare, 0)])


def train_serial(recipes: list[Recipe], levels: np.ndarray | None, samples: int, curve: bool) -> dict[str, np.ndarray]:
    """Each recipe by `simulate`, its loss read at the same steps, the same reductions: what the batch must equal.

    What a run that diverged would have had to show later is infinite.
    """
    steps = sample_steps(recipes[0].steps, samples)
    curves = np.full((len(recipes), len(steps)), np.inf, recipes[0].dtype)
    least = np.full(len(recipes), np.nan, recipes[0].dtype)
    for row, recipe in enumerate(recipes):
        trace = simulate(recipe.replace(record=Record(weights=0, candidates=2)))
        sound = steps < len(trace.loss)
        curves[row, sound] = trace.loss.values[steps[sound]]
        if "loss_minimum" in trace.data:
            least[row] = float(trace.data["loss_minimum"])
    heights = None if levels is None else jnp.asarray(levels, recipes[0].dtype)
    found = reduce_curves(jnp.asarray(curves), jnp.asarray(steps), jnp.asarray(least), heights)
    return {name: np.asarray(a) for name, a in found.items()} | ({"curve": curves} if curve else {})
