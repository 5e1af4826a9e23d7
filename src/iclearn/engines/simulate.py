"""`simulate` and `simulate_many`: recipes in, Traces out.

One host loop drives chunks of the compiled loop for one run or for many side by side; between chunks it looks at the
losses, shows progress and keeps checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from ..core import interrupts, notebook
from ..core.checks import check_int, check_type, require
from ..core.dataset import Dataset
from ..core.forms import as_array
from ..core.jax_settings import CompileTime, compile_meter, small_work
from ..core.recipe import Recipe
from ..core.status import Status
from ..core.trace import Trace
from .batch.inputs import RunInputs, program_of, run_inputs
from .build import EXACT, Setup, prepare
from .counting import count_runs
from .finish import diverged, finished_trace
from .loop import FLOW_STEPS, STEP_SLOTS
from .run_kinds import KeptRun, Runs, many_runs, one_run

CHUNK_SECONDS = 0.5  # aimed time between two looks at a run

Progress = Callable[[int, int, float], None]


@runtime_checkable
class Checkpointer(Protocol):
    """Where a run in progress is kept: `load` gives back what `save` kept, and `due` says whether it is time to save.

    `iclearn.store` has one on disk.
    """

    def load(self) -> dict[str, np.ndarray] | None: ...
    def save(self, arrays: dict[str, np.ndarray]) -> None: ...
    def due(self) -> bool: ...


def simulate(
    recipe: Recipe,
    *,
    dataset: Dataset | None = None,
    weights: Mapping[str, np.ndarray] | None = None,
    progress: Progress | bool | None = None,
    checkpoint: Checkpointer | None = None,
) -> Trace:
    """Train as the recipe says and return the Trace. A run that diverges returns too, with that status.

    Args:
        recipe: the experiment.
        dataset: the arrays a `GivenData` task describes.
        weights: the arrays an ``init`` of scheme ``given`` describes.
        progress: True, or a function that is called between chunks with (step, steps, loss). Default: a bar in a
            notebook, else nothing.
        checkpoint: keeps a long run's state, and gives it back when the same recipe starts again.

    Returns:
        The `Trace`: loss at every step, weights at recorded steps, status, provenance.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged", num_heads=2), steps=50))
    >>> trace.loss.sizes["step"], trace.provenance["engine"]
    (50, 'population')
    """
    begin = time.perf_counter()
    check_type("what is simulated", recipe, Recipe, "Recipe(task=…, model=…), or Recipe.from_json(text)")
    recipe.to_json()  # refuses what cannot be written, at once
    with compile_meter() as compiling:
        setup = prepare(recipe, dataset=dataset, weights=weights)
        jax.block_until_ready(eqx.filter(setup, eqx.is_array))
        setup_seconds, exact = time.perf_counter() - begin, setup.engine_name in EXACT
        with (
            small_work() if exact else nullcontext(jax.devices()[0]) as device,
            interrupts.finishing(checkpoint is not None),
        ):
            setup = _moved(setup, device) if exact else setup
            run = one_run(recipe, setup)
            _drive([recipe], run, progress=notebook.steps_bar(progress), checkpoint=checkpoint)
            state = jax.tree.map(lambda a: as_array(np.array(a)) if eqx.is_array(a) else a, run.final_state(0))
            rule, last = recipe.optimizer.rule, run.logs[0].loss[-1]
            may_rest = rule == "gd" or (rule == "flow" and last[0] == last[-1])  # a step of a flow is not cheap
            resting = may_rest and run.bad_steps[0] is None and run.at_rest(recipe.steps)
    place = {"device": str(device.device_kind), "platform": device.platform, "path": run.path}
    more = {"at_rest": True} if resting else {}
    facts = _facts(compiling, time.perf_counter() - begin + run.spent, setup_seconds=setup_seconds, **place, **more)
    return finished_trace(recipe, setup, run.logs[0], state, run.bad_steps[0], facts)


def _facts(compiling: CompileTime, seconds: float, runs: int = 1, **more: Any) -> dict[str, Any]:
    """What the provenance says about the time a run took, its share of what it had in common with others."""
    shares = {"wall_seconds": seconds / runs, "compile_seconds": compiling.seconds / runs}
    return {**shares, "programs_compiled": compiling.programs, "compile_cache_hits": compiling.cache_hits, **more}


def continue_training(trace: Trace, steps: int, **given: Any) -> Trace:
    """`simulate` of a longer run, started from where a run ended; `Trace.continue_` calls it.

    Args:
        trace: the run.
        steps: further updates.
        given: more arguments of `simulate`.

    Returns:
        The Trace of all steps.
    """
    check_int("the number of further steps", steps, 1)
    require(trace.status is not Status.DIVERGED, f"this run {trace.sentence}: there is nothing to go on from")
    recorded = "record" in trace.data
    require(recorded, "this run recorded no weights to go on from: train with record=Record(weights=…) above 0")
    recipe = trace.recipe
    records = trace.data["record"].values
    before = records < recipe.steps  # the last record is made again, by the first step that follows
    saved = {
        "loss": trace.loss.values,
        "test_loss": trace.data["test_loss"].values if "test_loss" in trace.data else np.zeros((recipe.steps, 0)),
        "records": records[before],
        "seconds": np.asarray(trace.provenance.get("wall_seconds", 0.0)),
        **{f"weight_{name}": path[before] for name, path in trace.weight_paths().items()},
    }
    memory = [trace.data[f"optimizer_{i}"].values for i in range(len(trace.data)) if f"optimizer_{i}" in trace.data]
    leaves = [*trace.weights(-1).values(), *memory, np.asarray(recipe.steps)]
    saved |= {f"state_{i}": leaf for i, leaf in enumerate(leaves)}
    return simulate(recipe.replace(steps=recipe.steps + steps), checkpoint=_Once(saved), **given)


@dataclass
class _Once:
    """A checkpoint that is given back once and never written."""

    saved: dict[str, np.ndarray]

    def load(self) -> dict[str, np.ndarray]:
        return self.saved

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        raise AssertionError

    def due(self) -> bool:
        return False


def _moved(setup: Setup, device: Any) -> Setup:
    """The same starting point on another device; where it is there already, nothing is copied."""
    if jax.default_backend() == device.platform and jax.device_count() == 1:
        return setup
    arrays, rest = eqx.partition(setup, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)


def _drive(
    recipes: Sequence[Recipe], runs: Runs, *, progress: Progress | None, checkpoint: Checkpointer | None = None
) -> None:
    """The host loop: chunks of about half a second until all steps are done or every run has diverged."""
    count_runs(len(recipes))
    steps, flow = recipes[0].steps, recipes[0].optimizer.rule == "flow"
    every = min(STEP_SLOTS, max(1, -(-steps // recipes[0].record.candidates)))
    if flow:  # records must fall on the points a call returns
        every = next(e for e in range(min(every, FLOW_STEPS), FLOW_STEPS + 1) if FLOW_STEPS % e == 0)
    length, limit = every, min(runs.step_slots // every, runs.record_slots) * every
    single = runs if isinstance(runs, KeptRun) else None  # the only kind that is kept and restored
    saved = checkpoint.load() if checkpoint is not None else None
    done = 0 if saved is None or single is None else single.load(saved)
    begin = time.perf_counter()
    while done < steps and None in runs.bad_steps:
        tick = time.perf_counter()
        stop = min(done + (FLOW_STEPS if flow else length), steps)
        chunk = runs.advance(done, stop, every)
        seconds = time.perf_counter() - tick
        count, records = stop - done, np.arange(done, stop, every)
        stride = every if flow else 1
        for i, log in enumerate(runs.logs):
            if runs.bad_steps[i] is not None:
                continue
            loss = np.asarray(chunk.loss[i])[:count]
            log.loss.append(loss)
            log.test_loss.append(np.asarray(chunk.test_loss[i])[:count])
            log.records.append(records)
            for name, path in chunk.weights.items():
                log.weights.setdefault(name, []).append(np.asarray(path[i])[: len(records) * stride : stride])
            bad = diverged(loss, float(log.loss[0][0]))
            if bad.any():
                runs.bad_steps[i] = done + int(np.argmax(bad))
        done = stop
        if None not in runs.bad_steps:
            break
        length = next_length(count, seconds, every, limit)
        if progress is not None:
            progress(done, steps, float(runs.logs[0].loss[-1][-1]))
        if checkpoint is not None and single is not None and done < steps:
            if checkpoint.due() or interrupts.requested():
                checkpoint.save(single.freeze(time.perf_counter() - begin))
            interrupts.check(f"interrupted; step {done} of {steps} is saved")


def next_length(count: int, seconds: float, every: int, limit: int) -> int:
    """Steps of the next chunk, so that it takes about CHUNK_SECONDS.

    Args:
        count: steps of the last chunk.
        seconds: time they took.
        every: steps from one record to the next, of which a chunk is a multiple.
        limit: steps a chunk can hold.

    Returns:
        The number of steps.
    """
    faster = count * CHUNK_SECONDS / max(seconds, 1e-6)
    return max(every, min(limit, int(min(faster, 8 * count)) // every * every))


def simulate_many(
    recipes: Sequence[Recipe],
    *,
    progress: Callable[[int, int], None] | bool | None = None,
    finished: Callable[[int, Trace], None] | None = None,
) -> list[Trace]:
    """Train several recipes: what `simulate` gives one by one, to rounding, in less time.

    Recipes that lead to the same program (same sizes, rule, steps and records: seeds, learning rates and whatever else
    is traced may differ) are vmapped; a run that diverges ends alone. Flows and runs on given data or weights need
    `simulate`; flows are passed on to it.

    Args:
        recipes: the experiments.
        progress: True, or a function that is called between chunks with (runs·steps done, runs·steps in all).
            Default: a bar in a notebook, else nothing.
        finished: called with the index and the Trace of each recipe as soon as those of its program have ended.

    Returns:
        The Trace of each recipe, in order.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> base = icl.Recipe(task=task, model=icl.Attention("merged", num_heads=2), steps=20)
    >>> [trace.recipe.seed for trace in icl.simulate_many([base.replace(seed=seed) for seed in (0, 1)])]
    [0, 1]
    """
    check_type("the recipes", recipes, Sequence, "[recipe]")
    for recipe in recipes:
        check_type("each of the recipes", recipe, Recipe)
    traces: dict[int, Trace] = {}
    total, done = sum(recipe.steps for recipe in recipes), 0
    told = notebook.runs_bar(progress, "steps of all runs")

    def note(steps: int) -> None:
        if told is not None:
            told(steps, total)

    groups: dict[Any, list[tuple[int, Setup, RunInputs]]] = {}
    for index, recipe in enumerate(recipes):
        if recipe.optimizer.rule == "flow":
            traces[index] = simulate(recipe)
            if finished is not None:
                finished(index, traces[index])
            done += recipe.steps
            note(done)
            continue
        setup = prepare(recipe)
        inputs = run_inputs(recipe, setup.model, setup.engine)
        groups.setdefault(program_of(recipe, inputs), []).append((index, setup, inputs))
    for members in groups.values():
        chosen, count, begin = [recipes[index] for index, _, _ in members], len(members), time.perf_counter()
        with compile_meter() as compiling:
            runs = many_runs(chosen[0], members[0][1], [inputs for _, _, inputs in members])
            _drive(chosen, runs, progress=lambda step, steps, loss, n=count, before=done: note(before + n * step))
        done += count * chosen[0].steps
        seconds, more = time.perf_counter() - begin, {"run_beside": count - 1, "path": runs.path}
        facts = _facts(compiling, seconds, count, setup_seconds=0.0, **more)
        for i, (index, setup, _) in enumerate(members):
            state = runs.final_state(i)
            traces[index] = finished_trace(recipes[index], setup, runs.logs[i], state, runs.bad_steps[i], facts)
            if finished is not None:
                finished(index, traces[index])
    return [traces[index] for index in range(len(recipes))]
