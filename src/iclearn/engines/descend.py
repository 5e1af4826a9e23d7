"""Models trained on an exact loss of which only the end counts: nothing is recorded, and several rules may follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core.model import AbstractModel
from ..core.recipe import Optimizer
from .base import AbstractEngine
from .batch.inputs import RunInputs
from .compiled.gram_runs import ExactGramRun, exact_form
from .compiled.switch import available
from .loop import State, initial_state, take_step
from .optimizers import Hyper
from .samples import step_key

ModelT = TypeVar("ModelT", bound=AbstractModel)


def descend(
    engine: AbstractEngine, models: Sequence[ModelT], stages: Sequence[tuple[Optimizer, int]], dtype: str = "float64"
) -> list[ModelT]:
    """Train models on one exact loss, stage after stage; every stage starts with an empty memory.

    Args:
        engine: the training loss, the same for all.
        models: of one shape, each with its initial weights.
        stages: update rules, each with its number of steps.
        dtype: name of the precision.

    Returns:
        The models at the end, in order: by compiled code where there is some, else by the loop in JAX.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> from iclearn.engines import prepare
    >>> start = prepare(icl.Recipe(task=task, model=icl.LSA(), init=icl.Init(0.1)))
    >>> (end,) = descend(start.engine, [start.model], [(icl.Optimizer("adam", 1e-2), 300)])
    >>> before, after = (float(start.engine.train(model.coefficients())) for model in (start.model, end))
    >>> after < 0.6 * before
    True
    """
    rules = [(Hyper.of(optimizer, dtype), steps) for optimizer, steps in stages]
    if available() and all(exact_form(engine, models[0], hyper) is not None for hyper, _ in rules):
        return [_compiled(engine, model, rules) for model in models]
    found = list(models)
    for hyper, steps in rules:
        found = _looped(engine, found, hyper, steps)
    return found


def _compiled(engine: AbstractEngine, model: ModelT, rules: Sequence[tuple[Hyper, int]]) -> ModelT:
    run: ExactGramRun | None = None
    for hyper, steps in rules:
        if run is None or hyper.rule != run.rule:
            now = model if run is None else run.state.model
            run = ExactGramRun(RunInputs(engine, now, initial_state(now, hyper).optimizer, hyper, step_key(0)))
        else:
            run.restart(hyper)
        run.advance(steps, steps)
    return model if run is None else run.state.model  # type: ignore[return-value]


def _looped(engine: AbstractEngine, models: Sequence[ModelT], hyper: Hyper, steps: int) -> list[ModelT]:
    ends = _all_looped(engine, jax.tree.map(lambda *leaves: jnp.stack(leaves), *models), hyper, jnp.asarray(steps))
    return [jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(len(models))]


@eqx.filter_jit
def _all_looped(engine: AbstractEngine, models: ModelT, hyper: Hyper, steps: Array) -> ModelT:
    def one(model: ModelT) -> ModelT:
        def step(_: Array, now: State) -> State:
            return take_step(engine, hyper.transformation(), now, step_key(0))[0]

        return jax.lax.fori_loop(0, steps, step, initial_state(model, hyper)).model  # type: ignore[return-value]

    return jax.vmap(one)(models)
