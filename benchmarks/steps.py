"""Time of one training step of each engine, in the loop every run uses, compiled once beforehand."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from iclearn import Recipe, simulate
from iclearn.core.jax_settings import compile_meter
from iclearn.engines import prepare
from iclearn.engines.loop import RECORD_SLOTS, STEP_SLOTS, advance, initial_state
from iclearn.engines.optimizers import Hyper
from iclearn.engines.samples import step_key

from .measure import Case, Result, Scale, timed
from .recipes import merged, separate

TARGETS = {4: 15.0, 8: 150.0}  # µs a step of the moments engine, by dim


@dataclass(frozen=True)
class StepTimes:
    """Microseconds a step of each repeat (wall and processor), and what came before the first step."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    steps_per_repeat: int
    setup_seconds: float
    setup_compile_seconds: float
    loop_compile_seconds: float
    engine: str


def step_times(recipe: Recipe, num_steps: int, repeats: int) -> StepTimes:
    """Time `advance` over the first `num_steps` steps of a recipe, recording what `simulate` would record."""
    with compile_meter() as setting_up:
        setup_seconds, _, setup = timed(lambda: jax.block_until_ready(prepare(recipe)))
    hyper = Hyper.of(recipe.optimizer, recipe.dtype)
    start = initial_state(setup.model, hyper)
    key = step_key(recipe.seed)
    every = max(1, -(-recipe.steps // recipe.record.candidates))
    count = min(num_steps, STEP_SLOTS, RECORD_SLOTS * every)

    def loop(steps: int) -> None:
        jax.block_until_ready(advance(setup.engine, start, hyper, key, jnp.asarray(steps), jnp.asarray(every)))

    with compile_meter() as looping:
        loop(1)
    loop(count)  # pages and caches are warm afterwards
    times = [timed(lambda: loop(count)) for _ in range(repeats)]
    return StepTimes(
        tuple(wall / count * 1e6 for wall, _, _ in times),
        tuple(cpu / count * 1e6 for _, cpu, _ in times),
        count,
        setup_seconds,
        setting_up.seconds,
        looping.seconds,
        setup.engine_name,
    )


def whole_run(recipe: Recipe) -> float:
    """Microseconds a step of `simulate` from the first step to the finished Trace, everything compiled."""
    seconds, _, trace = timed(lambda: simulate(recipe))
    return (seconds - trace.provenance["setup_seconds"]) / recipe.steps * 1e6


@dataclass(frozen=True)
class Row:
    """One recipe to time."""

    name: str
    what: str
    recipe: Recipe
    num_steps: int
    target: float | None = None


def measure(row: Row, repeats: int, *, quick: bool) -> list[Result]:
    times = step_times(row.recipe, row.num_steps, repeats)
    detail = {
        "engine": times.engine,
        "steps_per_repeat": times.steps_per_repeat,
        "setup_seconds": times.setup_seconds,
        "setup_compile_seconds": times.setup_compile_seconds,
        "loop_compile_seconds": times.loop_compile_seconds,
        "recipe_hash": row.recipe.hash,
    }
    if times.engine != "samples" and not quick:
        detail["whole_run_us"] = [whole_run(row.recipe) for _ in range(3)]
    return [Result(row.name, row.what, "µs/step", times.wall, None if quick else row.target, detail, times.cpu)]


def rows(scale: Scale) -> Iterator[Row]:
    loop = scale.loop_steps
    eighth = loop // 4  # steps of D = 8 take several times as long
    for prompts in scale.num_prompts:
        yield Row(
            f"step/moments/merged-d4-p{prompts}",
            f"moments, merged D=4 H=8 P={prompts}",
            merged(4, prompts),
            loop,
            TARGETS[4],
        )
        yield Row(
            f"step/moments/separate-d4-p{prompts}",
            f"moments, separate D=4 H=5 P={prompts}",
            separate(4, prompts, num_heads=5),
            loop,
            TARGETS[4],
        )
        for rank in (1, 2, 4, 8):
            yield Row(
                f"step/moments/separate-d8-r{rank}-p{prompts}",
                f"moments, separate D=8 H=9 R={rank} P={prompts}",
                separate(8, prompts, num_heads=9, rank=rank),
                eighth,
                TARGETS[8],
            )
    for dim, heads in ((4, 5), (8, 9)):
        what = f"population, merged D={dim} H=8"
        yield Row(f"step/population/merged-d{dim}", what, merged(dim, None), loop)
        what = f"population, separate D={dim} H={heads} R=1"
        yield Row(f"step/population/separate-d{dim}", what, separate(dim, None, num_heads=heads), loop)
    few, slow = scale.num_prompts[0], scale.slow_steps
    what = f"samples, softmax merged D=4 H=8 P={few}"
    yield Row("step/samples/merged-softmax", what, merged(4, few, softmax=True), slow)
    what = f"samples, softmax separate D=4 H=5 P={few}"
    yield Row("step/samples/separate-softmax", what, separate(4, few, num_heads=5, softmax=True), slow)


def cases(scale: Scale) -> Iterator[Case]:
    for row in rows(scale):
        yield Case(row.name, functools.partial(measure, row, scale.repeats, quick=scale.quick))
