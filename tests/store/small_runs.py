"""Small recipes for the store's tests, on data from numpy: no sampler to compile."""

from __future__ import annotations

import numpy as np

from iclearn.core.dataset import Arrays, Dataset
from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.models import Attention
from iclearn.tasks import GivenData


def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 5, 2)) * [0.9, 0.6]
    labels = x @ rng.normal(size=(30, 2, 1))
    return Dataset(Arrays(x, labels, labels[:, -1]))


DATA = dataset()


def made(rule: str = "gd", *, lr: float = 0.005, steps: int) -> Recipe:
    return Recipe(
        task=GivenData.of(DATA),
        model=Attention("merged", num_heads=2),
        init=Init(0.3),
        optimizer=Optimizer(rule, lr),  # type: ignore[arg-type]
        steps=steps,
    )
