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
from jaxtyping import Array, Float

from ...core.recipe import Recipe
from ...models.base import AbstractReducibleModel
from ...models.lsa import GuessGramQuery
from ...tasks.base import AbstractTask
from ..base import AbstractEngine
from ..build import Setup, prepare
from ..gram import gram_engine
from ..loop import initial_state
from ..moments import stream_sets
from ..optimizers import Hyper
from ..population import population_forms
from ..samples import step_key

TRACED = (
    "seed", "init__scale", "optimizer__lr", "optimizer__momentum", "optimizer__weight_decay", "task__noise",
    "task__covariance__parameters", "task__covariance__trace", "task__prior_mean",
)  # fmt: skip
_MOMENTS_TOGETHER = {"cpu": 2, "gpu": 64}  # training sets drawn at a time


class RunInputs(eqx.Module):
    """What differs between runs that share a program; every array has a leading axis of runs."""

    engine: AbstractEngine
    model: Any
    optimizer: Any
    hyper: Hyper
    key: Array


def run_inputs(recipe: Recipe, setup: Setup) -> RunInputs:
    """One run, without the leading axis."""
    hyper = Hyper.of(recipe.optimizer, recipe.dtype)
    state = initial_state(setup.model, hyper)
    return RunInputs(setup.engine, state.model, state.optimizer, hyper, step_key(recipe.seed))


def program_of(recipe: Recipe, lane: RunInputs) -> Any:
    """What must be equal for two runs to share a program and its calls."""
    leaves, structure = jax.tree.flatten(lane)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    return structure, shapes, recipe.steps, recipe.record


def with_number(recipe: Recipe, numbers: Mapping[str, np.ndarray], index: int) -> Recipe:
    """The recipe of one run of a batch."""
    changes = {}
    for name, values in numbers.items():
        value = np.asarray(values[index])
        changes[name] = tuple(value.tolist()) if value.ndim else value.item()
    return recipe.replace(**changes)


def prepared_run(recipe: Recipe) -> tuple[RunInputs, float]:
    """One run prepared alone, and the least loss it could reach (NaN where that is not known)."""
    setup = prepare(recipe)
    minimum = setup.engine.minimum()
    return run_inputs(recipe, setup), float("nan") if minimum is None else float(minimum)


def stack_runs(lanes: Sequence[RunInputs]) -> RunInputs:
    """Runs of one shape, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)


def can_trace(recipe: Recipe, setup: Setup, names: Sequence[str]) -> bool:
    """Whether `traced_runs` can make runs that differ in these fields."""
    if setup.engine_name not in ("population", "moments") or recipe.init.scheme == "given":
        return False
    full = isinstance(setup.model, AbstractReducibleModel) and bool(setup.model.zero_blocks())
    if setup.engine_name == "population" and full and "task__prior_mean" in names:
        return False  # a mean that is not zero leads full attention out of the reduced model: each run must be checked
    return type(setup.task) is type(recipe.task) and all(name in TRACED for name in names)


def traced_runs(
    recipe: Recipe, setup: Setup, numbers: Mapping[str, np.ndarray]
) -> tuple[RunInputs, Float[Array, " run"]]:
    """All runs prepared in one program; `setup` is that of one of them."""
    kinds = {"seed": jnp.int64}
    arrays = {name: jnp.asarray(values, kinds.get(name, jnp.float64)) for name, values in numbers.items()}
    return _traced_runs(recipe, setup.engine_name, arrays)


@eqx.filter_jit
def _traced_runs(recipe: Recipe, engine_name: str, numbers: dict[str, Array]) -> tuple[RunInputs, Float[Array, " run"]]:
    def build(values: dict[str, Array]) -> tuple[RunInputs, Array]:
        own = recipe.unchecked(**values)
        task, dtype = own.task, jnp.dtype(own.dtype)
        assert isinstance(task, AbstractTask)
        model = own.model.initial(task, own.init, own.seed, dtype)  # type: ignore[attr-defined]
        features = model.feature_map
        if engine_name == "moments":
            engine: AbstractEngine = stream_sets(task, features, own.seed, own.dtype)
        elif isinstance(features, GuessGramQuery):
            engine = gram_engine(task, own.seed, dtype)
        else:
            engine = population_forms(task, features.normalize, own.seed, dtype)
        hyper = Hyper.of(own.optimizer, own.dtype)
        state = initial_state(model, hyper)
        least = engine.minimum()
        lane = RunInputs(engine, state.model, state.optimizer, hyper, step_key(own.seed))
        return lane, jnp.asarray(jnp.nan if least is None else least, jnp.float64)

    if engine_name == "moments":
        return jax.lax.map(build, numbers, batch_size=_MOMENTS_TOGETHER.get(jax.default_backend(), 2))
    return jax.vmap(build)(numbers)
