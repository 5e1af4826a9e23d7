"""Everything that can be refused is refused before the first run: each static group, and every value in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..engines.build import Setup, prepare
from ..tasks.given import GivenData
from ..tasks.regression import LinearRegression
from .levels import check_levels
from .plan import Plan

FEW_PROMPTS = 64  # enough to find out whether a combination is possible
BLOCK_NUMBERS = 4_000_000  # of a block of prompts while moments are gathered


def group_indices(plan: Plan) -> Iterator[tuple[int, ...]]:
    """The first point of every static group."""
    return itertools.product(*(range(1 if n else len(a)) for a, n in zip(plan.axes, plan.numeric, strict=True)))


def check_plan(plan: Plan) -> int:
    """Refuse impossible points in one line, naming the first; returns the bytes that one run needs at most."""
    if isinstance(plan.base.task, GivenData):
        raise IclearnError("a sweep draws its own prompts: a base with given data cannot be swept")
    if plan.base.init.scheme == "given":
        raise IclearnError("a sweep draws its own weights: the base's init scheme must not be 'given'")
    problems: list[str] = []
    most = 0
    for index in group_indices(plan):
        tried = _prepared(plan, index)
        for point in _points_to_try(plan, index):
            try:
                recipe = plan.recipe(point)
            except IclearnError as error:
                problems.append(f"{plan.describe(point)}: {error}")
                continue
            if point not in tried:
                continue
            try:
                most = max(most, bytes_a_run(recipe, plan.reduce.samples))
                if plan.reduce.levels != "none":
                    check_levels(recipe)
            except IclearnError as error:
                problems.append(f"{plan.describe(point)}: {error}")
    if problems:
        more = f" (and {len(problems) - 1} more such points)" if len(problems) > 1 else ""
        raise IclearnError(f"at {problems[0]}{more}")
    return most


def _points_to_try(plan: Plan, group: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every value of every numeric axis once: whether a number is allowed does not depend on the others."""
    points = [group]
    for k, (axis, number) in enumerate(zip(plan.axes, plan.numeric, strict=True)):
        if number:
            every = [1, len(axis) - 1] if axis.fields == ("seed",) else range(1, len(axis))
            points += [(*group[:k], i, *group[k + 1 :]) for i in every if 0 < i < len(axis)]
    return points


def _prepared(plan: Plan, group: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Points whose engine is tried as well: the group's first, and the last value of axes that touch the task."""
    points = [group]
    for k, (axis, number) in enumerate(zip(plan.axes, plan.numeric, strict=True)):
        if number and len(axis) > 1 and any(field.startswith("task.") for field in axis.fields):
            points.append((*group[:k], len(axis) - 1, *group[k + 1 :]))
    return points


def smaller_set(recipe: Recipe) -> tuple[Recipe, float]:
    """The recipe with few prompts, and how many times more it really has."""
    count = getattr(recipe.task, "num_prompts", None)
    few = max(FEW_PROMPTS, getattr(recipe.task, "dim", 1) + 2)
    if count is None or count <= few:
        return recipe, 1.0
    tests = {"task__test_prompts": few} if getattr(recipe.task, "test_prompts", 0) > few else {}
    return recipe.replace(task__num_prompts=few, **tests), count / few


def bytes_a_run(recipe: Recipe, samples: int) -> int:
    """The memory one of many runs needs, from the arrays it starts with: weights and what optimizers keep beside
    them, the engine's moments (or its prompts), the sampled curve and what reductions make of it."""
    cheap, times = smaller_set(recipe)
    setup: Setup = prepare(cheap)
    weights, engine = _bytes(setup.model), _bytes(setup.engine)
    item = 8 if recipe.dtype == "float64" else 4
    gathering = 0
    if setup.engine_name == "samples":
        engine *= int(4 * times)
    elif setup.engine_name == "moments" and isinstance(recipe.task, LinearRegression):
        task = recipe.task
        prompt = (task.context_len + 1) * (task.dim + task.out_dim)
        gathering = 2 * item * min(BLOCK_NUMBERS, (task.num_prompts or 1) * prompt)
    return 8 * weights + 2 * engine + gathering + 8 * item * (samples + 1)


def _bytes(tree: Any) -> int:
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return sum(a.size * (a.dtype.itemsize or 8) for a in arrays)
