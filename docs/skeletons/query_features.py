"""A feature map that knows its expectation: φ = x_q. A model of it trains under engine moments and under population.

A spec with `initial` and `rebuild` as in diagonal_attention.py makes it a model of recipes.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from iclearn.core.forms import Moments
from iclearn.models.base import AbstractFeatureModel
from iclearn.models.features import AbstractFeatureMap


@dataclass(frozen=True)
class Query(AbstractFeatureMap):
    @property
    def size(self):
        return self.dim

    def __call__(self, prompt):
        return prompt.query

    def population_form(self, task, seed, dtype, which="train"):
        cov, (law,) = task.covariance_matrix(seed), task.label_laws(seed, which)
        energy = jnp.einsum("ij,oioj->", cov, law.task_moment()) / task.out_dim  # E y² = tr Λ E[wwᵀ]
        return Moments(cov.astype(dtype), (cov @ law.mean).astype(dtype), energy.astype(dtype))


class QueryModel(AbstractFeatureModel):
    guess: Float[Array, "dim output"]
    axes = {"guess": ("input", "output")}
    feature_map = property(lambda self: Query(*self.guess.shape, "none"))

    def coefficients(self):
        return self.guess

    def predict(self, prompt):
        return prompt.query @ self.guess
