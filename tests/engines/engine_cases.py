"""Small recipes that many tests share, so that few programs are compiled. Data from numpy needs no compiled sampler."""

from __future__ import annotations

from typing import Any

import numpy as np

from iclearn.core.dataset import Arrays, Dataset, FeatureArrays
from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.core.trace import Trace
from iclearn.engines import simulate
from iclearn.models import Attention
from iclearn.tasks import GivenData, LinearRegression

DIM, CONTEXT, PROMPTS, HEADS = 2, 4, 30, 2


def numpy_arrays(prompts: int = PROMPTS, out_dim: int = 1, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(prompts, CONTEXT + 1, DIM)) * [0.9, 0.6]
    w = rng.normal(size=(prompts, DIM, out_dim))
    labels = x @ w
    shown = labels.copy()
    shown[:, -1] = 0
    return Arrays(x, shown, labels[:, -1], labels)


def numpy_data(out_dim: int = 1, *, tests: bool = False) -> Dataset:
    if not tests:
        return Dataset(numpy_arrays(out_dim=out_dim))
    sets = {"in_weight": numpy_arrays(20, out_dim, 1), "in_context": numpy_arrays(25, out_dim, 2)}
    return Dataset(numpy_arrays(out_dim=out_dim), dict(sets))


def cubic_features(arrays: Arrays) -> Dataset:
    """The same prompts as ready-made features (columns stacked) for the mlp."""
    beta = np.einsum("pni,pn->pi", arrays.x[:, :-1], arrays.y[:, :-1, 0])
    z = np.einsum("pi,pj->pji", beta, arrays.x[:, -1]).reshape(len(beta), -1)
    return Dataset(FeatureArrays(z, arrays.y_query))


DATA = numpy_data()
POPULATION = LinearRegression(dim=DIM, context_len=CONTEXT, num_prompts=None)


def recipe(family: str = "merged", rule: str = "gd", *, data: Dataset | None = DATA, **changes) -> Recipe:
    """A run of 60 steps that learns: a Recipe on `data`, or on infinitely many prompts where data is None."""
    rank = changes.pop("rank", 2 if family.startswith("separate") or family == "conv" else 1)
    model = Attention(
        family,  # type: ignore[arg-type]
        num_heads=changes.pop("heads", HEADS),
        rank=rank,
        softmax=changes.pop("softmax", False),
        normalize=changes.pop("normalize", "none"),
    )
    lr = changes.pop("lr", 0.01)
    optimizer = Optimizer(rule, lr, batch_size=changes.pop("batch_size", None))  # type: ignore[arg-type]
    prefixes = changes.pop("prefixes", False)
    task = changes.pop("task", POPULATION if data is None else GivenData.of(data, prefixes=prefixes))
    init = changes.pop("init", Init(0.4))
    others: dict[str, Any] = {"steps": 60} | changes
    return Recipe(task=task, model=model, optimizer=optimizer, init=init, **others)


def run(made: Recipe, data: Dataset | None = DATA, **options) -> Trace:
    return simulate(made, dataset=data if isinstance(made.task, GivenData) else None, **options)
