"""Everything that can be refused is refused before the first run: each static group, and every value in it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..engines.build import prepare
from ..engines.cost import refuse_what_cannot_be
from ..theory.base import levels_of
from .plan import Plan

FEW_PROMPTS = 64  # enough to find out whether a combination is possible
BLOCK_NUMBERS = 4_000_000  # of a block of prompts while moments are gathered
MOST_GROUPS = 10_000
MOST_TRIED = 200  # groups whose engine is tried, evenly spaced
MOST_POINTS_TRIED = 2_000
SLOW = 10.0  # seconds that trying an engine may take
MOST_CHUNKS = 1_000_000  # each is a file of the ledger
SHARE = 0.25  # of the device's memory: compiled programs keep copies
CPU_RUN_STEPS = 2e8  # of a chunk on a CPU: a look at the progress every minute or so
MOST_RUNS = {"cpu": 1 << 14, "gpu": 1 << 17}


def group_indices(plan: Plan) -> Iterator[tuple[int, ...]]:
    """The first point of every static group."""
    return itertools.product(*(range(1 if n else len(a)) for a, n in zip(plan.axes, plan.numeric, strict=True)))


def check_plan(plan: Plan) -> int:
    """Refuse impossible points in one line, naming the first; returns the bytes that one run needs at most."""
    if plan.base.task.needs_dataset:
        raise IclearnError("a sweep draws its own prompts: a base with given data cannot be swept")
    if plan.base.init.scheme == "given":
        raise IclearnError("a sweep draws its own weights: the base's init scheme must not be 'given'")
    if plan.num_groups > MOST_GROUPS:
        each = "each is a program of its own to compile: sweep fewer fields that change sizes or words"
        raise IclearnError(
            f"{plan.num_runs} runs in {plan.num_groups} static groups are more than {MOST_GROUPS}; {each}"
        )
    problems: list[str] = []
    most = 0
    stride = -(-plan.num_groups // MOST_TRIED)
    for number, group in enumerate(group_indices(plan)):
        for point, tried in _points_to_try(plan, group):
            whole = tried and number % stride == 0
            try:
                recipe = plan.recipe(point)
                if whole:
                    most = max(most, _try_engine(recipe, plan))
            except IclearnError as error:
                problems.append(f"{plan.describe(point)}: {error}")
    if problems:
        more = f" (and {len(problems) - 1} more such points)" if len(problems) > 1 else ""
        raise IclearnError(f"at {problems[0]}{more}")
    return most


def _try_engine(recipe: Recipe, plan: Plan) -> int:
    """Refuse a run whose engine or levels cannot be had, or that is too large; returns the bytes that it needs."""
    refuse_what_cannot_be(recipe)
    few = refuse_what_cannot_be(recipe.replace(task=recipe.task.with_prompts(FEW_PROMPTS)))
    if plan.reduce.levels != "none":
        levels_of(recipe, plan.reduce.levels)
    if few.setup > SLOW:  # found out when it is run
        return int(few.memory)
    return bytes_a_run(recipe, plan.reduce.samples)


def _points_to_try(plan: Plan, group: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Points of a group to try, and whether their engine is tried as well.

    Every value of every numeric axis occurs once (of seeds a few): whether a number is allowed does not depend on the
    others. The engine is tried at the group's first point and at the last value of axes that touch the task.
    """
    yield group, True
    points = plan.num_groups * sum(len(axis) for axis, number in zip(plan.axes, plan.numeric, strict=True) if number)
    thinned = -(-max(1, points) // MOST_POINTS_TRIED)  # of a huge grid not every value is tried in every group
    for k, (axis, number) in enumerate(zip(plan.axes, plan.numeric, strict=True)):
        last = len(axis) - 1
        stride = max(1, last - 1) if axis.fields == ("seed",) else thinned
        of_task = any(field.startswith("task.") for field in axis.fields)
        for i in range(1, last + 1, stride) if number else ():
            yield (*group[:k], i, *group[k + 1 :]), of_task and i == last


def bytes_a_run(recipe: Recipe, samples: int) -> int:
    """The memory one of many runs needs, from the arrays it starts with: weights and what optimizers keep beside
    them, the engine's moments (or its prompts), the sampled curve and what reductions make of it."""
    task, few = recipe.task, recipe.task.with_prompts(FEW_PROMPTS)
    setup = prepare(recipe.replace(task=few))
    weights, engine = _bytes(setup.model), _bytes(setup.engine)
    item = 8 if recipe.dtype == "float64" else 4
    gathering = 0
    if setup.engine_name == "samples":
        engine *= int(4 * (task.num_prompts or 1) / (few.num_prompts or 1))
    elif setup.engine_name == "moments":
        gathering = 2 * item * min(BLOCK_NUMBERS, (task.num_prompts or 1) * task.numbers_per_prompt())
    return 8 * weights + 2 * engine + gathering + 8 * item * (samples + 1)


def _bytes(tree: Any) -> int:
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return sum(a.size * (a.dtype.itemsize or 8) for a in arrays)


def device_bytes() -> int:
    """Memory of the device that JAX computes on."""
    device = jax.devices()[0]
    if device.platform != "cpu" and (limit := (device.memory_stats() or {}).get("bytes_limit")):
        return int(limit)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def chunk_limit(bytes_a_run: int, steps: int) -> int:
    """Runs of a chunk at most: what a share of the device's memory holds, and on a CPU what ends within minutes.

    Args:
        bytes_a_run: the memory of one run.
        steps: of one run.

    >>> chunk_limit(1 << 50, 1000)
    1
    """
    cpu = jax.devices()[0].platform == "cpu"
    fitting = int(SHARE * device_bytes() / max(1, bytes_a_run))
    working = int(CPU_RUN_STEPS / steps) if cpu else MOST_RUNS["gpu"]
    return max(1, min(fitting, working, MOST_RUNS["cpu" if cpu else "gpu"]))
