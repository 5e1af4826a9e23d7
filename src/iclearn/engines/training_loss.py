"""The loss that a run was trained on, as a function of any model of its kind: what probes differentiate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.dataset import Dataset
from ..core.recipe import Recipe
from .build import prepare
from .samples import step_key


class TrainingLoss:
    """The training loss of a recipe, by the engine that trains it.

    Args:
        recipe: the experiment.
        dataset: the arrays its task describes, where it needs any.
        weights: its given initial weights, where it has any.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged"), steps=9))
    >>> loss = TrainingLoss(trace.recipe)
    >>> float(loss(trace.model(0))) == float(trace.loss[0]), loss.stochastic
    (True, False)
    """

    def __init__(
        self, recipe: Recipe, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.recipe = recipe
        self._engine = prepare(recipe, dataset=dataset, weights=weights).engine

    @property
    def stochastic(self) -> bool:
        """Whether the loss is that of a batch."""
        return self._engine.stochastic

    def __call__(self, model: Any, draw: Any = 0) -> Float[Array, ""]:
        """The loss, differentiable in the model.

        Args:
            model: of the recipe's kind.
            draw: number of the batch, where the loss is that of one.
        """
        engine = self._engine.at_step(jnp.asarray(draw))
        return engine.loss(model, jax.random.fold_in(step_key(self.recipe.seed), draw))
