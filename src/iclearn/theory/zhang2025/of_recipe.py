"""Zhang et al. (2025) asked about a recipe: linear attention under gradient descent on linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.recipe import Recipe
from ...models.attention import Attention
from ...tasks.regression import LinearRegression
from ..base import AbstractTheory, Levels
from .population import eigenpairs, gain_of
from .predict import predict
from .saddles import saddle_losses
from .summary import summary

_MERGED = ("merged", "merged_reduced", "mlp")


@dataclass(frozen=True)
class ZhangOptions:
    """Saddles, plateaus and time scales of linear attention (zhang2025) for any spectrum."""

    eigenvalues: tuple[float, ...] = ()
    """Eigenvalues of the input covariance. Default: 0.4 0.3 0.2 0.1, the paper's D = 4."""
    context: int = 31
    """Context pairs N."""
    heads: int | None = None
    """Number of heads H. Default: D + 1."""
    rank: int = 1
    """Rank R of the key-query weights."""
    noise: float = 0.0
    """Variance of the noise on the context labels."""
    init: float = 0.01
    """Scale of the initial weights."""
    normalize: Literal["none", "context", "tokens"] = "none"
    """Sum over tokens (public code), mean over context (paper), or mean over tokens: sets weights and time scales."""


class Zhang2025(AbstractTheory):
    """Saddle losses (19), and the run from given initial weights: (10) and its generalization for merged attention, the
    sequence of drops with (21) for separate attention."""

    name = "zhang2025"
    Options = ZhangOptions

    def refusal(self, recipe: Recipe) -> str | None:
        task, model = recipe.task, recipe.model
        if not isinstance(task, LinearRegression) or not isinstance(model, Attention) or model.softmax:
            return "zhang2025 needs linear attention on linear regression"
        outside = {
            "more than one output": task.out_dim != 1,
            "a prior over task vectors": task.prior_mean is not None or task.prior_covariance is not None,
            "in-weight prompts": task.in_context != 1,
            "a loss averaged over prefixes": task.prefixes,
        }
        found = [name for name, there in outside.items() if there]
        return f"zhang2025 does not cover {' or '.join(found)}" if found else None

    def levels(self, recipe: Recipe) -> Levels:
        task, model = self._specs(recipe)
        heights = np.asarray(saddle_losses(task.covariance.values(task.dim), task.context_len, noise=task.noise))
        names = tuple(rf"$L(M_{{{m}}})$" for m in range(len(heights)))
        return Levels(heights, names, (0, len(heights) - 1) if model.family in _MERGED else tuple(range(len(heights))))

    def predict(self, recipe: Recipe, weights: dict[str, Any] | None, **options: Any) -> Any:
        """See `iclearn.theory.zhang2025.predict`, whose `method` and `records` are the options."""
        task, model = self._specs(recipe)
        if weights is None:
            drawn = model.initial(task, recipe.init, recipe.seed, "float64")
            weights = {name: np.asarray(array) for name, array in drawn.weights().items()}
        values, basis = eigenpairs(np.asarray(task.covariance_matrix(recipe.seed)))
        family, gain = "merged" if model.family in _MERGED else "separate", gain_of(model.normalize, task.context_len)
        training = {"steps": recipe.steps, "lr": recipe.optimizer.lr, "num_heads": model.num_heads, "rank": model.rank}
        run = {"weights": weights, "basis": basis, "gain": gain, "noise": task.noise}
        return predict(family, values, task.context_len, **training, **run, **options)

    def summary(self, options: ZhangOptions) -> dict[str, Any]:
        values = options.eigenvalues or (0.4, 0.3, 0.2, 0.1)
        heads = options.heads if options.heads is not None else len(values) + 1
        gain = gain_of(options.normalize, options.context)
        return summary(values, options.context, heads, options.rank, options.init, gain=gain, noise=options.noise)

    def _specs(self, recipe: Recipe) -> tuple[LinearRegression, Attention]:
        self.require(recipe)
        assert isinstance(recipe.task, LinearRegression)
        assert isinstance(recipe.model, Attention)
        return recipe.task, recipe.model


THEORY = Zhang2025()
