"""Runs side by side: what differs between runs that share a program, with a leading axis of runs.

Two ways to make them, which agree: `stack_runs` prepares each recipe alone and stacks the results (any recipe), and
`traced_runs` prepares all of them in one program from arrays of numbers (a million in a second).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ...core.forms import as_array
from ...core.model import AbstractModel
from ...core.recipe import Recipe
from ...models.base import AbstractFeatureModel
from ..base import AbstractEngine
from ..build import EXACT, Setup, exact_engine, prepare
from ..integrated import IntegratedEngine
from ..loop import initial_state
from ..optimizers import Hyper
from ..quadratic import QuadraticEngine
from ..samples import step_key

_MOMENTS_TOGETHER = {"cpu": 2, "gpu": 64}  # training sets drawn at a time


class RunInputs(eqx.Module):
    """What differs between runs that share a program; every array has a leading axis of runs.

    Args:
        engine: the training loss.
        model: the model.
        optimizer: what the update rule remembers.
        hyper: the update rule.
        key: from which those of the steps are made.
    """

    engine: AbstractEngine
    model: Any
    optimizer: Any
    hyper: Hyper
    key: Array


def run_inputs(recipe: Recipe, model: AbstractModel, engine: AbstractEngine) -> RunInputs:
    """One run before its first step, without the leading axis.

    Args:
        recipe: the experiment; its numbers may be traced.
        model: with its initial weights.
        engine: the training loss.

    Returns:
        The run.
    """
    hyper = Hyper.of(recipe.optimizer, recipe.dtype)
    return RunInputs(engine, model, initial_state(model, hyper).optimizer, hyper, step_key(recipe.seed))


def program_of(recipe: Recipe, run: RunInputs) -> Any:
    """What must be equal for two runs to share a program and its calls.

    Args:
        recipe: the experiment.
        run: the run, without the leading axis.

    Returns:
        A hashable key: structure, shapes, steps and records.
    """
    leaves, structure = jax.tree.flatten(run)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    return structure, shapes, recipe.steps, recipe.record


def recipe_of_run(recipe: Recipe, varying: Mapping[str, np.ndarray], index: int) -> Recipe:
    """The recipe of one run of a batch.

    Args:
        recipe: what the runs have in common.
        varying: field (``__`` between the parts of a path) → array with an entry for every run.
        index: which run.

    Returns:
        The recipe.
    """
    own = {name: np.asarray(values[index]) for name, values in varying.items()}
    return recipe.replace(**{name: tuple(v.tolist()) if v.ndim else v.item() for name, v in own.items()})


def prepared_run(recipe: Recipe) -> tuple[RunInputs, float]:
    """One run prepared alone.

    Args:
        recipe: the experiment.

    Returns:
        The run, without the leading axis, and the least loss it could reach (NaN where that is not known).
    """
    setup = prepare(recipe)
    minimum = setup.engine.minimum()
    return run_inputs(recipe, setup.model, setup.engine), float("nan") if minimum is None else float(minimum)


def stack_runs(runs: Sequence[RunInputs]) -> RunInputs:
    """Runs of one program stacked along a new leading axis.

    Args:
        runs: without the leading axis.

    Returns:
        All of them.
    """
    return jax.tree.map(_stacked, *runs)


def _stacked(*leaves: Array) -> Array:
    """Arrays stacked on the host, where nothing is compiled for it; keys and traced ones by JAX."""
    by_jax = jnp.issubdtype(leaves[0].dtype, jax.dtypes.prng_key) or any(isinstance(a, Tracer) for a in leaves)
    return jnp.stack(leaves) if by_jax else as_array(np.stack([np.asarray(leaf) for leaf in leaves]))


def can_trace(recipe: Recipe, setup: Setup, names: Sequence[str]) -> bool:
    """Whether `traced_runs` can make runs that differ in certain fields.

    Args:
        recipe: of one of the runs.
        setup: of the same.
        names: the fields, with ``__`` between the parts of a path.

    Returns:
        True where the engine is exact and all fields can be traced.
    """
    if recipe.init.scheme == "given" or recipe.task.needs_dataset:
        return False
    traceable = {name.replace(".", "__") for name in recipe.traceable_fields()}
    if isinstance(setup.engine, IntegratedEngine):  # one loss for all runs
        of_task = any(name.startswith("task__") for name in names)
        return setup.engine.seedless and not of_task and traceable.issuperset(names)
    if setup.engine_name not in EXACT or not isinstance(setup.engine, QuadraticEngine):
        return False
    breaking = {f"task__{name}" for name in recipe.task.symmetry_breaking_fields()}
    full = isinstance(setup.model, AbstractFeatureModel) and bool(setup.model.zero_blocks())
    if setup.engine_name == "population" and full and breaking & set(names):
        return False  # each run must be checked: full attention may leave the reduced model
    return traceable.issuperset(names)


def traced_runs(
    recipe: Recipe, setup: Setup, varying: Mapping[str, np.ndarray]
) -> tuple[RunInputs, Float[Array, " run"]]:
    """All runs prepared in one program; `can_trace` says whether that is possible.

    Args:
        recipe: what the runs have in common.
        setup: of one of them.
        varying: field → array with an entry for every run.

    Returns:
        The runs, and (run) the least losses they could reach (NaN where that is not known).
    """
    types = {"seed": jnp.int64}
    arrays = {name: jnp.asarray(values, types.get(name, jnp.float64)) for name, values in varying.items()}
    shared = setup.engine if isinstance(setup.engine, IntegratedEngine) else None
    return _traced_runs(recipe, setup.engine_name, arrays, shared)


@eqx.filter_jit
def _traced_runs(
    recipe: Recipe, engine_name: str, varying: dict[str, Array], shared: AbstractEngine | None
) -> tuple[RunInputs, Float[Array, " run"]]:
    def build(values: dict[str, Array]) -> tuple[RunInputs, Array]:
        own = recipe.unchecked(**values)
        model = own.model.initial(own.task, own.init, own.seed, jnp.dtype(own.dtype))
        if shared is not None:
            return run_inputs(own, model, shared), jnp.asarray(jnp.nan, jnp.float64)
        assert isinstance(model, AbstractFeatureModel)
        engine = exact_engine(engine_name, own.task, model, own.seed, own.dtype)
        least = engine.minimum()
        return run_inputs(own, model, engine), jnp.asarray(jnp.nan if least is None else least, jnp.float64)

    if engine_name == "moments":
        return jax.lax.map(build, varying, batch_size=_MOMENTS_TOGETHER.get(jax.default_backend(), 2))
    return jax.vmap(build)(varying)
