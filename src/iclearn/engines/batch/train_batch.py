"""`train_batch`: any number of runs that differ in numbers only, trained side by side and reduced on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.checks import require
from ...core.errors import IclearnError
from ...core.recipe import Recipe
from ..build import Setup, prepare
from ..compiled import switch
from ..compiled.choose import NO_FORM, batch_sizes
from ..contractions import Sizes
from ..loop import State, advance_sampled
from ..reductions import STATUS_CODES as STATUS_CODES
from ..reductions import reduce_curves, sample_steps
from . import pallas
from .inputs import RunInputs, can_trace, prepared_run, program_of, recipe_of_run, stack_runs, traced_runs
from .rows import unroll
from .unrolled import lengths_of, sizes_of, train_unrolled

QUICK_TO_COMPILE = {"pallas": 1200, "unrolled": 300}  # products of a step; beyond, compiling takes a minute and more

Path = Literal["auto", "vmap", "unrolled", "pallas", "compiled"]


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
            ``pallas`` does that in one kernel on a GPU, ``compiled`` on a processor by LLVM (larger models, and other
            rules than gradient descent, too); ``auto`` takes the fastest that fits. They agree to rounding.

    Returns:
        Name → array with a leading axis of runs.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> recipe = icl.Recipe(task=task, model=icl.Attention("merged"), steps=20)
    >>> train_batch(recipe, {"seed": np.arange(3)})["final_loss"].shape
    (3,)
    """
    return train_batch_by(recipe, varying, levels=levels, samples=samples, curve=curve, path=path)[0]


def train_batch_by(
    recipe: Recipe,
    varying: Mapping[str, np.ndarray],
    *,
    levels: np.ndarray | None = None,
    samples: int = 256,
    curve: bool = False,
    path: Path = "auto",
) -> tuple[dict[str, np.ndarray], How]:
    """As `train_batch`, and which way the runs were trained.

    Args:
        recipe: what the runs have in common.
        varying: fields with an entry for every run.
        levels: (run, level) heights at which theory expects plateaus, decreasing.
        samples: losses looked at.
        curve: return these losses too.
        path: the way that is asked for.

    Returns:
        Name → array with a leading axis of runs, and the way.
    """
    if recipe.optimizer.rule == "flow":
        raise IclearnError("flows choose their own steps and cannot be trained side by side: use rule gd")
    count = check_varying(varying)
    steps = sample_steps(recipe.steps, samples)
    first = recipe_of_run(recipe, varying, 0)
    setup = prepare(first)
    how = choose_path(first, setup, path)
    if can_trace(first, setup, tuple(varying)):
        # the base must not depend on which runs are in this batch, or every batch would be compiled anew
        runs, minimum = traced_runs(recipe, setup, varying)
        curves = _curves(runs, steps, recipe.steps, how)
    else:
        recipes = [recipe_of_run(recipe, varying, i) for i in range(count)]
        how = how if how.path == "compiled" else How("vmap")
        curves, minimum = _curves_one_by_one(recipes, steps, how)
    found = reduce_curves(
        curves, jnp.asarray(steps), jnp.asarray(minimum), None if levels is None else jnp.asarray(levels, curves.dtype)
    )
    if curve:
        found = {**found, "curve": curves}
    return {name: np.asarray(values) for name, values in found.items()}, how


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


class How(NamedTuple):
    """How runs are trained.

    Args:
        path: ``vmap``, ``unrolled``, ``pallas`` or ``compiled``.
        sizes: what the written-out step depends on, where it is not ``vmap``.
        rotate: whether that is in the eigenbasis of each run's inputs.
    """

    path: str
    sizes: Sizes | None = None
    rotate: bool = False

    @property
    def name(self) -> str:
        """The path as the provenance names it."""
        return switch.path_name() if self.path == "compiled" else self.path


def choose_path(recipe: Recipe, setup: Setup, path: Path) -> How:
    """Which way runs like this one are trained.

    Args:
        recipe: of one run.
        setup: of the same.
        path: the way that is asked for.

    Returns:
        The way.
    """
    if path == "vmap":
        return How("vmap")
    gpu = pallas.available()
    compiled = batch_sizes(recipe, setup) if path in ("auto", "compiled") and not gpu else None
    if path == "compiled":
        needed = "path compiled needs Numba, not switched off (pip install 'iclearn[fast]'), and a CPU"
        require(switch.available() and not gpu, f"{needed}: use path auto")
        require(compiled is not None, f"path compiled: these runs have no compiled form, {NO_FORM}: use path auto")
    if compiled is not None and switch.available():
        return How("compiled", *compiled)
    plain = recipe.optimizer.plain
    sizes = sizes_of(setup.task, setup.model, setup.engine, recipe.optimizer.rule) if plain else None
    if path == "auto" and sizes is None:
        return How("vmap")
    if sizes is None:
        raise IclearnError(
            f"path {path} is for gradient descent on small linear models (reduced, or under infinitely many prompts) "
            "with isotropic tasks: use path vmap or auto"
        )
    if path == "pallas" and not gpu:
        raise IclearnError("path pallas needs a GPU: use path unrolled or auto")
    too_long = sizes.products > QUICK_TO_COMPILE["pallas" if gpu else "unrolled"]
    if path == "auto" and (too_long or (sizes.full and not gpu)):  # on a CPU a product with the moments is one call
        return How("vmap")
    rotate = not sizes.full and not setup.task.diagonal_inputs
    return How("pallas" if path == "pallas" or (path == "auto" and gpu) else "unrolled", sizes, rotate)


def _curves(runs: RunInputs, steps: np.ndarray, end: int, how: How) -> Float[Array, "run sample"]:
    if how.sizes is None:
        return train_vmap(runs, jnp.asarray(np.append(steps, end)))
    lengths = lengths_of(steps, end)
    if how.path == "compiled":
        from ..compiled.batches import train_compiled

        return jnp.asarray(train_compiled(runs, how.sizes, how.rotate, lengths))
    train = pallas.train_pallas if how.path == "pallas" else train_unrolled
    return train(unroll(runs, how.sizes, how.rotate), jnp.asarray(lengths))[0].T


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


def _curves_one_by_one(
    recipes: list[Recipe], steps: np.ndarray, how: How
) -> tuple[Float[Array, "run sample"], np.ndarray]:
    """Any recipes: each prepared alone, those that share a program trained together."""
    prepared = [prepared_run(recipe) for recipe in recipes]
    groups: dict[object, list[int]] = {}
    for index, (run, _) in enumerate(prepared):
        groups.setdefault(program_of(recipes[index], run), []).append(index)
    curves = np.zeros((len(recipes), len(steps)))
    for members in groups.values():
        runs = stack_runs([prepared[i][0] for i in members])
        curves[members] = np.asarray(_curves(runs, steps, recipes[0].steps, how))
    return jnp.asarray(curves, recipes[0].dtype), np.array([least for _, least in prepared])
