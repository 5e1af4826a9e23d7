"""Ahn et al. (2023) asked about a recipe: a deep linear transformer on isotropic linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.recipe import Recipe
from ...models.transformer import LinearTransformer
from ...tasks.regression import LinearRegression
from ..base import AbstractTheory, Levels
from .noise import ridge_loss
from .one_layer import one_layer
from .optima import gdpp_loss, gdpp_minima, krylov, tied_descent, tied_gdpp
from .summary import DEEPEST, summary

_RESTARTS = 40


@dataclass(frozen=True)
class AhnOptions:
    """Deep linear transformers (ahn2023): exact optima of gradient descent and GD++ with L layers at Σ = I."""

    dim: int = 5
    """Dimension d of the inputs."""
    context: int = 20
    """Context pairs N."""
    layers: int = 2
    """Layers L."""
    noise: float = 0.0
    """Variance of the noise on the context labels."""
    restarts: int = _RESTARTS
    """Random starts of the search for minima of GD++."""


class Ahn2023(AbstractTheory):
    """The least losses that training can reach with scalar steps: gradient descent, GD++, and one layer of them."""

    name = "ahn2023"
    Options = AhnOptions

    def refusal(self, recipe: Recipe) -> str | None:
        task, model = recipe.task, recipe.model
        if not isinstance(model, LinearTransformer) or model.blocks not in ("gd", "sparse"):
            return "ahn2023 needs a linear transformer with blocks gd or sparse"
        if not isinstance(task, LinearRegression) or task.out_dim > 1 or task.prefixes or not task.isotropic:
            return "ahn2023 needs linear regression with w ~ N(0, I), one output and whole prompts"
        values = task.covariance.values(task.dim)
        if not np.allclose(values, values[0]):
            return "ahn2023's levels are for isotropic inputs (all eigenvalues of their covariance equal)"
        if model.normalize != "context":
            return "ahn2023 divides by the length of the context: normalize='context'"
        if model.layers > DEEPEST:
            return f"ahn2023's minima are searched for up to {DEEPEST} layers, not {model.layers}"
        return None

    def _losses(self, recipe: Recipe) -> dict[str, float]:
        task, model = recipe.task, recipe.model
        assert isinstance(task, LinearRegression)
        assert isinstance(model, LinearTransformer)
        scale = float(task.covariance.values(task.dim)[0])
        sizes, noise = (task.dim, task.context_len), task.noise / scale
        found = {"start": float(task.dim), "one layer": one_layer([1.0] * task.dim, task.context_len, noise=noise).loss}
        if noise:
            found["ridge"] = ridge_loss(*sizes, noise)
        elif model.layers > 1:
            gd = krylov(*sizes, model.layers)
            tied = tied_descent(*sizes, model.layers)
            if model.blocks == "gd":
                best = tied if model.tied else gd
                found[f"GD, {model.layers} layers"] = gdpp_loss(*sizes, best.steps, ())
            elif model.tied:
                found[f"GD++, {model.layers} loops"] = tied_gdpp(*sizes, model.layers).loss
            else:
                minima = gdpp_minima(*sizes, model.layers, restarts=_RESTARTS)[:3]
                found |= {f"GD++ minimum {i + 1}": best.loss for i, best in enumerate(minima)}
        return {name: scale * value for name, value in sorted(found.items(), key=lambda item: -item[1])}

    def levels(self, recipe: Recipe) -> Levels:
        self.require(recipe)
        losses = self._losses(recipe)
        return Levels(np.array(list(losses.values())), tuple(losses), tuple(range(len(losses))))

    def summary(self, options: AhnOptions) -> dict[str, Any]:
        return summary(options.dim, options.context, options.layers, options.noise, options.restarts)


THEORY = Ahn2023()
