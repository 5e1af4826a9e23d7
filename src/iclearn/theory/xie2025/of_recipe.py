"""Xie et al. (2025) asked about a recipe: linear self-attention with or without a guess on linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import MissingClosedForm
from ...core.recipe import Recipe
from ...models.lsa import LSA
from ...tasks.regression import LinearRegression
from ..base import AbstractTheory, Levels
from .bayes import bayes_loss
from .heads import best_loss
from .law import Law
from .optimum import optimum
from .summary import summary


@dataclass(frozen=True)
class XieOptions:
    """Linear self-attention and one gradient step (xie2025): exact optima for every number of heads."""

    dim: int = 10
    """Dimension d of the inputs."""
    context: int = 10
    """Context pairs C."""
    prior_norm: float = 1.0
    """Norm m of the prior mean of the task vector."""
    noise: float = 0.0
    """Variance of the noise on the context labels."""
    heads: tuple[int, ...] = ()
    """Numbers of heads to list. Default: 1 ... d + 1, a choice of them where d is 40 or more."""


class Xie2025(AbstractTheory):
    """The least losses that training can reach: with this many heads, by one gradient step, by the Bayes predictor."""

    name = "xie2025"
    Options = XieOptions

    def refusal(self, recipe: Recipe) -> str | None:
        task, model = recipe.task, recipe.model
        if type(task) is not LinearRegression or not isinstance(model, LSA):  # varied regression has other laws
            return "xie2025 needs linear self-attention (lsa) on linear regression"
        if task.in_context != 1 or task.prefixes or task.out_dim != 1:
            return "xie2025 holds for one output without prefixes or in-weight prompts"
        return None

    def _law(self, recipe: Recipe) -> Law:
        task = recipe.task
        assert isinstance(task, LinearRegression)
        mean, factor = task._prior(recipe.seed)
        inputs = np.asarray(task.covariance_matrix(recipe.seed))
        prior = np.asarray(factor @ factor.T)
        return Law(np.asarray(mean)[:, 0], task.context_len, inputs, prior, task.noise)

    def _losses(self, recipe: Recipe) -> dict[str, float]:
        law, model = self._law(recipe), recipe.model
        assert isinstance(model, LSA)
        best = optimum(law)
        found = {"gradient step from w*": best.step_loss, "Bayes": bayes_loss(law).loss}
        try:
            own = best.step_loss if model.guess == "trainable" else best_loss(law, model.num_heads, model.given).loss
            found[f"optimum of {model.num_heads} heads"] = own
        except MissingClosedForm:
            pass
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def levels(self, recipe: Recipe) -> Levels:
        self.require(recipe)
        losses = self._losses(recipe)
        return Levels(np.array(list(losses.values())), tuple(losses), tuple(range(len(losses))))

    def summary(self, options: XieOptions) -> dict[str, Any]:
        return summary(options.dim, options.context, options.prior_norm, options.noise, options.heads or None)


THEORY = Xie2025()
