"""`simulate_many`: recipes that differ in their numbers only, trained side by side by one program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core.jax_settings import compile_meter
from ..core.recipe import Recipe
from ..core.trace import Trace
from .batch.inputs import RunInputs, program_of, run_inputs
from .build import Setup, prepare
from .loop import RECORD_SLOTS, STEP_SLOTS, Chunk, State, advance
from .simulate import Log, diverged, finished_trace, next_length, simulate


def simulate_many(recipes: Sequence[Recipe], *, progress: Callable[[int, int], None] | None = None) -> list[Trace]:
    """The Trace of each recipe, in order: what `simulate` gives one by one, to rounding.

    Recipes that lead to the same program (same sizes, rule, steps and records: seeds, learning rates and whatever else
    is traced may differ) are vmapped; a run that diverges ends alone. Flows and runs on given data or weights need
    `simulate`; flows are passed on to it.

    Args:
        progress: called between chunks with (runs·steps done, runs·steps in all).
    """
    traces: list[Trace | None] = [None] * len(recipes)
    total, done = sum(recipe.steps for recipe in recipes), 0

    def note(steps: int) -> None:
        nonlocal done
        done += steps
        if progress is not None:
            progress(done, total)

    waiting: dict[Any, list[tuple[int, Setup, RunInputs]]] = {}
    for index, recipe in enumerate(recipes):
        if recipe.optimizer.rule == "flow":
            traces[index] = simulate(recipe)
            note(recipe.steps)
            continue
        setup = prepare(recipe)
        lane = run_inputs(recipe, setup)
        waiting.setdefault(program_of(recipe, lane), []).append((index, setup, lane))
    for members in waiting.values():
        chosen = [recipes[index] for index, _, _ in members]
        found = _run_group(chosen, [s for _, s, _ in members], [lane for _, _, lane in members], note)
        for (index, _, _), trace in zip(members, found, strict=True):
            traces[index] = trace
    return [trace for trace in traces if trace is not None]


@eqx.filter_jit
def _advance_many(lanes: RunInputs, step: Array, stop: Array, every: Array) -> tuple[State, Chunk]:
    """`advance` on every lane. The step number is the same for all, so the loop stays one loop."""

    def one(lane: RunInputs) -> tuple[State, Chunk]:
        return advance(lane.engine, State(lane.model, lane.optimizer, step), lane.hyper, lane.key, stop, every)

    return jax.vmap(one)(lanes)


def _run_group(
    recipes: list[Recipe], setups: list[Setup], lanes: list[RunInputs], note: Callable[[int], None]
) -> list[Trace]:
    begin = time.perf_counter()
    identities = [{"recipe": recipe.to_dict(), "recipe_hash": recipe.hash} for recipe in recipes]
    steps, record = recipes[0].steps, recipes[0].record
    every = min(STEP_SLOTS, max(1, -(-steps // record.candidates)))
    length, limit = every, min(STEP_SLOTS // every, RECORD_SLOTS) * every
    logs = [Log() for _ in recipes]
    bad_steps: list[int | None] = [None] * len(recipes)
    done = 0
    with compile_meter() as compiling:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)
        states: State | None = None
        while done < steps and None in bad_steps:
            tick = time.perf_counter()
            stop = min(done + length, steps)
            states, chunk = _advance_many(stacked, jnp.asarray(done), jnp.asarray(stop), jnp.asarray(every))
            loss, tests = np.asarray(chunk.loss), np.asarray(chunk.test_loss)
            weights = {name: np.asarray(path) for name, path in chunk.weights.items()}
            seconds = time.perf_counter() - tick
            count, records = stop - done, np.arange(done, stop, every)
            for lane, log in enumerate(logs):
                if bad_steps[lane] is not None:
                    continue
                log.loss.append(loss[lane, :count])
                log.test_loss.append(tests[lane, :count])
                log.records.append(records)
                for name, path in weights.items():
                    log.weights.setdefault(name, []).append(path[lane, : len(records)])
                bad = diverged(log.loss[-1], float(log.loss[0][0]))
                if bad.any():
                    bad_steps[lane] = done + int(np.argmax(bad))
            stacked = eqx.tree_at(
                lambda s: (s.model, s.optimizer), stacked, (states.model, states.optimizer), is_leaf=lambda x: x is None
            )
            done = stop
            length = next_length(count, seconds, every, limit)
            note(count * len(recipes))
    assert states is not None
    facts = {
        "wall_seconds": (time.perf_counter() - begin) / len(recipes),
        "setup_seconds": 0.0,
        "compile_seconds": compiling.seconds / len(recipes),
        "programs_compiled": compiling.programs,
        "compile_cache_hits": compiling.cache_hits,
        "run_beside": len(recipes) - 1,
    }
    final = jax.tree.map(np.asarray, states)
    return [
        finished_trace(
            recipe, setup, log, jax.tree.map(lambda a, i=i: jnp.asarray(a[i]), final), bad, {**identity, **facts}
        )
        for i, (recipe, setup, log, bad, identity) in enumerate(
            zip(recipes, setups, logs, bad_steps, identities, strict=True)
        )
    ]
