"""`train_batch`: any number of runs that differ in numbers only, trained side by side and reduced on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.errors import IclearnError
from ...core.recipe import Recipe
from ..build import Setup, prepare
from ..contractions import Sizes
from ..loop import State, advance_sampled
from ..reductions import STATUS_CODES as STATUS_CODES
from ..reductions import reduce_curves, sample_steps
from . import pallas
from .inputs import RunInputs, can_trace, prepared_run, program_of, recipe_of_run, stack_runs, traced_runs
from .rows import unroll
from .unrolled import lengths_of, sizes_of, train_unrolled

QUICK_TO_COMPILE = {"pallas": 600, "unrolled": 300}  # products of a step; beyond, compiling takes a minute and more

Path = Literal["auto", "vmap", "unrolled", "pallas"]


def train_batch(
    recipe: Recipe,
    varying: Mapping[str, np.ndarray],
    *,
    levels: np.ndarray | None = None,
    samples: int = 256,
    curve: bool = False,
    path: Path = "auto",
) -> dict[str, np.ndarray]:
    """Train one run for each entry of `varying` and return what `reductions.reduce_curves` keeps of it.

    Args:
        recipe: what the runs have in common.
        varying: fields (``seed``, ``init__scale``, ``task__covariance__parameters`` …) with an entry for every run.
        levels: (run, level) heights at which theory expects plateaus, decreasing.
        samples: losses looked at, evenly spread over the run.
        curve: return these losses too.
        path: ``vmap`` vmaps the engines, ``unrolled`` writes the step of small reduced models out number by number,
            ``pallas`` does that in one kernel on a GPU; ``auto`` takes the fastest that fits. They agree to rounding.

    Returns:
        Name → array with a leading axis of runs.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> recipe = icl.Recipe(task=task, model=icl.Attention("merged"), steps=20)
    >>> train_batch(recipe, {"seed": np.arange(3)})["final_loss"].shape
    (3,)
    """
    if recipe.optimizer.rule == "flow":
        raise IclearnError("flows choose their own steps and cannot be trained side by side: use rule gd")
    count = check_varying(varying)
    steps = sample_steps(recipe.steps, samples)
    first = recipe_of_run(recipe, varying, 0)
    setup = prepare(first)
    chosen, sizes = choose_path(first, setup, path)
    if can_trace(first, setup, tuple(varying)):
        # the base must not depend on which runs are in this batch, or every batch would be compiled anew
        runs, minimum = traced_runs(recipe, setup, varying)
        curves = _curves(runs, steps, recipe, chosen, sizes, first)
    else:
        curves, minimum = _curves_one_by_one([recipe_of_run(recipe, varying, i) for i in range(count)], steps)
    found = reduce_curves(
        curves, jnp.asarray(steps), jnp.asarray(minimum), None if levels is None else jnp.asarray(levels, curves.dtype)
    )
    if curve:
        found = {**found, "curve": curves}
    return {name: np.asarray(values) for name, values in found.items()}


def check_varying(varying: Mapping[str, np.ndarray]) -> int:
    """How many runs are described.

    Args:
        varying: field → array with an entry for every run.

    Returns:
        The number of runs; arrays of different lengths are refused.
    """
    counts = {name: len(values) for name, values in varying.items()}
    if not counts or len(set(counts.values())) != 1 or 0 in counts.values():
        raise IclearnError(f"numbers need one entry for every run, the same count for each field, not {counts}")
    return next(iter(counts.values()))


def choose_path(recipe: Recipe, setup: Setup, path: Path) -> tuple[str, Sizes | None]:
    """Which way runs like this one are trained.

    Args:
        recipe: of one run.
        setup: of the same.
        path: the way that is asked for.

    Returns:
        ``vmap``, ``unrolled`` or ``pallas``, and the sizes of the unrolled step where it is not ``vmap``.
    """
    sizes = sizes_of(setup.task, setup.model, setup.engine, recipe.optimizer.rule)
    if path == "vmap" or (path == "auto" and sizes is None):
        return "vmap", None
    if sizes is None:
        raise IclearnError(
            f"path {path} is for gradient descent on small linear models (reduced, or under infinitely many prompts) "
            "with isotropic tasks: use path vmap or auto"
        )
    if path == "pallas" and not pallas.available():
        raise IclearnError("path pallas needs a GPU: use path unrolled or auto")
    gpu = pallas.available()
    too_long = sizes.products > QUICK_TO_COMPILE["pallas" if gpu else "unrolled"]
    if path == "auto" and (too_long or (sizes.full and not gpu)):  # on a CPU a product with the moments is one call
        return "vmap", None
    return ("pallas" if path == "pallas" or (path == "auto" and gpu) else "unrolled"), sizes


def _curves(
    runs: RunInputs, steps: np.ndarray, recipe: Recipe, path: str, sizes: Sizes | None, first: Recipe
) -> Float[Array, "run sample"]:
    if sizes is None:
        return train_vmap(runs, jnp.asarray(np.append(steps, recipe.steps)))
    rotate = not sizes.full and not first.task.diagonal_inputs
    unrolled = unroll(runs, sizes, rotate)
    train = pallas.train_pallas if path == "pallas" else train_unrolled
    return train(unrolled, jnp.asarray(lengths_of(steps, recipe.steps)))[0].T


@eqx.filter_jit
def train_vmap(runs: RunInputs, marks: Int[Array, " mark"]) -> Float[Array, "run sample"]:
    """The training loop, vmapped over runs.

    Args:
        runs: the runs.
        marks: (mark) steps, increasing; the last one is where training ends.

    Returns:
        (run, mark − 1) the losses at all marks but the last.
    """

    def one(run: RunInputs) -> Array:
        state = State(run.model, run.optimizer, marks[0])
        return advance_sampled(run.engine, state, run.hyper, run.key, marks)[1]

    return jax.vmap(one)(runs)


def _curves_one_by_one(recipes: list[Recipe], steps: np.ndarray) -> tuple[Float[Array, "run sample"], np.ndarray]:
    """Any recipes: each prepared alone, those that share a program trained together."""
    prepared = [prepared_run(recipe) for recipe in recipes]
    groups: dict[object, list[int]] = {}
    for index, (run, _) in enumerate(prepared):
        groups.setdefault(program_of(recipes[index], run), []).append(index)
    curves = np.zeros((len(recipes), len(steps)))
    for members in groups.values():
        runs = stack_runs([prepared[i][0] for i in members])
        curves[members] = np.asarray(train_vmap(runs, jnp.asarray(np.append(steps, recipes[0].steps))))
    return jnp.asarray(curves, recipes[0].dtype), np.array([least for _, least in prepared])
