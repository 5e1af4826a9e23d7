"""The heights at which theory expects plateaus, for every run of a chunk (engines may not know them)."""

from __future__ import annotations

import numpy as np

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..tasks.regression import LinearRegression
from ..theory.zhang2025 import saddle_losses

SPECTRUM = ("task__covariance__parameters", "task__covariance__trace")


def check_levels(recipe: Recipe) -> LinearRegression:
    """The task, if zhang2025's (19) holds for it."""
    task = recipe.task
    if (
        not isinstance(task, LinearRegression)
        or getattr(recipe.model, "softmax", False)
        or recipe.model.kind != "attention"
    ):
        raise IclearnError("levels zhang2025 need linear attention on linear regression: take levels none")
    plain = task.in_context == 1 and task.noise == 0 and task.prior_mean is None and task.prior_covariance is None
    if not plain or task.prefixes:
        raise IclearnError("levels zhang2025 hold without noise, prior, prefixes or in-weight prompts: take none")
    return task


def zhang_levels(recipe: Recipe, numbers: dict[str, np.ndarray], count: int) -> np.ndarray:
    """L(M_m), m = 0..D, of (19) for each of `count` runs: (count, D + 1) (zhang2025).

    Args:
        numbers: the fields in which the runs differ from `recipe`.
    """
    width = check_levels(recipe).dim + 1
    keys = [name for name in SPECTRUM if name in numbers]
    columns = [numbers[name].reshape(count, -1) for name in keys]
    table = np.concatenate(columns, 1) if columns else np.zeros((count, 0))
    distinct, where = np.unique(table, axis=0, return_inverse=True)
    rows = np.full((len(distinct), width), np.nan)
    for row, values in zip(rows, distinct, strict=True):
        changes, at = {}, 0
        for name, column in zip(keys, columns, strict=True):
            part = values[at : at + column.shape[1]].tolist()
            changes[name] = tuple(part) if name.endswith("parameters") else part[0]
            at += column.shape[1]
        task = check_levels(recipe.replace(**changes) if changes else recipe)
        row[:] = saddle_losses(task.covariance.values(task.dim), task.context_len)
    return rows[where.reshape(-1)]
