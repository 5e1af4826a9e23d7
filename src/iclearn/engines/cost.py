"""What a run will take, in memory and time, estimated before anything is computed; what cannot fit is refused.

Estimates are rough (a factor of two or three) and lean to the small side: a run that is refused could not have been
done here.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from ..core.errors import IclearnError
from ..core.memory import available_bytes, in_words
from ..core.model import AbstractModelSpec
from ..core.recipe import Init, Recipe
from ..core.task import AbstractTask
from ..models.base import AbstractFeatureModel
from ..models.features import MAX_FEATURES
from .loop import record_slots

MOST_SECONDS = "ICLEARN_MOST_SECONDS"  # environment variable: refuse what is estimated to take longer
NEVER = 1e9  # seconds, thirty years: refused in any case
_DRAWN, _PRODUCTS, _STEP = 3e7, 3e9, 3e-6  # numbers drawn and products a second on one core, seconds a step at least
_ADVICE = {
    "weights": "fewer heads, a smaller rank, or a smaller dim",
    "losses": "fewer steps",
    "moments": "a smaller dim, or engine samples",
    "prompts": "fewer prompts, a shorter context, a smaller dim, or a batch size",
    "test sets": "fewer test prompts",
    "covariance": "a smaller dim",
}


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a run.

    Args:
        parts: what takes memory → bytes.
        seconds: time on one core of a usual processor.
        setup: the part of it before the first step.
    """

    parts: dict[str, float]
    seconds: float
    setup: float = 0.0

    @property
    def memory(self) -> float:
        """Bytes in all."""
        return sum(self.parts.values())


def estimate(recipe: Recipe, engine: str = "auto") -> Cost:
    """What a run will take, from its sizes alone.

    Args:
        recipe: the experiment.
        engine: the engine that will be used, where the recipe leaves it open.

    Returns:
        The estimate.

    >>> import iclearn as icl
    >>> recipe = icl.Recipe(task=icl.LinearRegression(num_prompts=10**12), model=icl.Attention(softmax=True))
    >>> estimate(recipe).memory > 1e14
    True
    """
    task, item = recipe.task, 8 if recipe.dtype == "float64" else 4
    weights, features = _sizes(recipe)
    name = recipe.engine if recipe.engine != "auto" else engine
    if name == "auto":
        exact = features is not None and recipe.optimizer.batch_size is None
        name = ("population" if task.num_prompts is None else "moments") if exact else "samples"
        name = "samples" if name == "moments" and (features or 0) > MAX_FEATURES else name
    prompts, contexts, numbers = task.num_prompts or 0, len(task.context_lengths()), task.numbers_per_prompt()
    tests = getattr(task, "test_prompts", 0) * len(task.tests)
    parts = {
        "weights": weights * item * (record_slots(weights * item) + min(recipe.steps, recipe.record.candidates) + 4),
        "losses": 16.0 * recipe.steps * (1 + len(task.tests)),
        "covariance": 48.0 * task.dim**2,
    }
    seconds = (prompts + tests) * numbers / _DRAWN + 30 * task.dim**3 / _PRODUCTS
    step = weights * 10
    if name == "moments":
        size, block = features or 0, min(prompts or 1, 4096, max(16, 4_000_000 // numbers))
        parts["moments"] = 8.0 * (3 * size**2 * (1 + len(task.tests)) + 3 * block * size)
        seconds += 2 * (prompts * contexts + tests) * size**2 / _PRODUCTS
        step += 2 * size**2 * task.out_dim
    elif name == "population":
        step += 8 * task.dim**3
    else:
        rows = recipe.optimizer.batch_size or prompts
        kept = max(prompts, rows) * contexts * numbers
        seen = rows * contexts * (numbers + (0 if features is not None else _scores(recipe)))
        parts["prompts"], parts["test sets"] = item * (2.0 * kept + 2.0 * seen), 2.0 * item * tests * numbers
        step += 12 * seen
        step += rows * numbers * _PRODUCTS / _DRAWN if task.num_prompts is None else 0
    return Cost(parts, seconds + recipe.steps * (step / _PRODUCTS + _STEP), seconds)


def _scores(recipe: Recipe) -> int:
    """Attention scores of a prompt, where they cannot be summed up beforehand."""
    return getattr(recipe.model, "num_heads", 1) * (recipe.task.context_len + 1)


def _sizes(recipe: Recipe) -> tuple[int, int | None]:
    """How many weights the model has, and how many features it reads (None: it is not linear in any)."""

    if recipe.init.scheme == "given":  # in memory already
        return 0, None
    square = 48.0 * (recipe.task.dim + recipe.task.out_dim) ** 2  # matrices over a token, before anything is sketched
    if square > (room := _room()):
        needed = f"this needs more than {in_words(square)} of memory, and {in_words(room)} is free"
        raise IclearnError(f"{needed}: choose a smaller dim, or fewer outputs")
    return _sketched(recipe.model, recipe.task, recipe.init, recipe.dtype)


@lru_cache(maxsize=256)
def _sketched(spec: AbstractModelSpec, task: AbstractTask, init: Init, dtype: str) -> tuple[int, int | None]:
    def initial() -> Any:
        return spec.initial(task, init, 0, jnp.dtype(dtype))

    try:
        model = jax.eval_shape(initial)
        weights = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model))
        linear = isinstance(model, AbstractFeatureModel) and model.feature_map is not None
        return weights, model.feature_map.size if linear else None  # type: ignore[union-attr]
    except IclearnError:
        raise
    except Exception:  # a model that cannot be sketched is built, whatever it takes
        return 0, None


def refuse_what_cannot_be(recipe: Recipe, task: AbstractTask | None = None) -> Cost:
    """Refuse a run that does not fit into memory, or would take years, in one line that says what to change.

    Args:
        recipe: the experiment.
        task: the task with its arrays, which are in memory already.

    Returns:
        The estimate of one that can be done.
    """
    try:
        cost = estimate(recipe)
    except OverflowError:
        raise IclearnError("these sizes are beyond any machine: choose smaller ones") from None
    given = task is not None and task.needs_dataset
    parts = {name: size for name, size in cost.parts.items() if not (given and name in ("prompts", "test sets"))}
    room, needed = _room(), sum(parts.values())
    if needed > room:
        largest = max(parts, key=lambda name: parts[name])
        what = f"{in_words(needed)} of memory, most of it for {largest}, and {in_words(room)} is free"
        raise IclearnError(f"this needs about {what}: choose {_ADVICE[largest]}")
    most = float(os.environ.get(MOST_SECONDS, NEVER))
    if cost.seconds > most:
        raise IclearnError(
            f"this would take about {time_in_words(cost.seconds)}: choose fewer steps or prompts, or a smaller dim"
        )
    return cost


def _room() -> int:
    """Memory of the accelerator, or what is free in the machine."""
    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit") if device.platform != "cpu" else None
    return max(int(limit), available_bytes()) if limit else available_bytes()


def time_in_words(seconds: float) -> str:
    """A time in the unit people use for it.

    >>> time_in_words(9000), time_in_words(1e10)
    ('2.5 hours', '317 years')
    """
    for unit, size in (("years", 3.156e7), ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
