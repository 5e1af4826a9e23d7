"""Small recipes and sweeps that the tests of `iclearn.sweeps` share."""

from __future__ import annotations

from typing import Any

from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.models import Attention
from iclearn.tasks import Covariance, LinearRegression


def tiny(**changes: Any) -> Recipe:
    """Two-dimensional separate attention on infinitely many prompts: milliseconds to train."""
    recipe = Recipe(
        task=LinearRegression(dim=2, context_len=8, covariance=Covariance.power(1.0), num_prompts=None),
        model=Attention("separate_reduced", num_heads=2),
        init=Init(0.1),
        optimizer=Optimizer(lr=0.02),
        steps=200,
    )
    return recipe.replace(**changes)


AXES: dict[str, Any] = {
    "init.scale": [0.02, 0.1],
    "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.5, 2, 3]}},
    "model.rank": [1, 2],
}
REDUCE = {"levels": "zhang2025", "samples": 40}
