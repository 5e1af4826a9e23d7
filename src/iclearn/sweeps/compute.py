"""The numbers of one chunk: all its runs side by side, or one at a time (the reference)."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ..core.recipe import Recipe, Record
from ..engines.batch.inputs import recipe_of_run
from ..engines.reductions import reduce_curves, sample_steps
from ..engines.simulate import simulate
from ..theory.base import levels_of
from .plan import Chunk, Plan


def compute(plan: Plan, chunk: Chunk) -> tuple[dict[str, np.ndarray], str]:
    """Train the runs of a chunk and reduce their loss curves.

    Returns:
        Name → array (run, …) of every variable in `dataset.schema`, runs in the order of `plan.indices`; and which code
        trained them.
    """
    group, varying = plan.group(chunk.box), plan.varying(chunk.box)
    reduce = plan.reduce
    levels = None if reduce.levels == "none" else chunk_levels(group, reduce.levels, varying, chunk.runs)
    if plan.path == "serial" or group.optimizer.rule == "flow":
        recipes = [plan.recipe(index) for index in plan.indices(chunk.box)]
        return train_serial(recipes, levels, reduce.samples, reduce.curve), "serial"
    from ..engines.batch.train_batch import train_batch_by

    # chunks at the edge of the grid are filled up with their last run, so that one program serves all
    rows = np.minimum(np.arange(math.prod(plan.box_shape)), chunk.runs - 1)
    varying = varying or {"seed": np.array([group.seed])}  # all axes are static: a batch of one
    varying = {name: column[rows] for name, column in varying.items()}
    heights = None if levels is None else levels[rows]
    kept = {"levels": heights, "samples": reduce.samples, "curve": reduce.curve}
    arrays, how = train_batch_by(group, varying, path=plan.path, **kept)
    return {name: values[: chunk.runs] for name, values in arrays.items()}, how.name


def chunk_levels(recipe: Recipe, theory: str, varying: dict[str, np.ndarray], count: int) -> np.ndarray:
    """The heights at which a theory expects plateaus, for each of `count` runs: (run, level).

    Levels depend on the task alone, so they are computed once for each task that occurs.
    """
    table = {name: values for name, values in varying.items() if name.startswith("task__")}
    if not table:
        return np.tile(levels_of(recipe, theory).heights, (count, 1))
    columns = np.concatenate([values.reshape(count, -1) for values in table.values()], 1)
    _, first, where = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    rows = [levels_of(recipe_of_run(recipe, table, int(i)), theory).heights for i in first]
    return np.stack(rows)[where.reshape(-1)]


def train_serial(recipes: list[Recipe], levels: np.ndarray | None, samples: int, curve: bool) -> dict[str, np.ndarray]:
    """Each recipe by `simulate`, its loss read at the same steps, the same reductions: what the batch must equal.

    The samples of a run after it diverged are infinite.
    """
    steps = sample_steps(recipes[0].steps, samples)
    curves = np.full((len(recipes), len(steps)), np.inf, recipes[0].dtype)
    minimum = np.full(len(recipes), np.nan, recipes[0].dtype)
    for row, recipe in enumerate(recipes):
        trace = simulate(recipe.replace(record=Record(weights=0, candidates=2)))
        reached = steps < len(trace.loss)
        curves[row, reached] = trace.loss.values[steps[reached]]
        if "loss_minimum" in trace.data:
            minimum[row] = float(trace.data["loss_minimum"])
    heights = None if levels is None else jnp.asarray(levels, recipes[0].dtype)
    arrays = reduce_curves(jnp.asarray(curves), jnp.asarray(steps), jnp.asarray(minimum), heights)
    return {name: np.asarray(a) for name, a in arrays.items()} | ({"curve": curves} if curve else {})
