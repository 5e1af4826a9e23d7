"""A model in one file: ŷ = Σ_i a_i β_i x_q,i, which is linear in the cubic features, so it trains exactly.

Registry line: diagonal_attention = "diagonal_attention:DiagonalAttention" under "iclearn.specs".
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from iclearn.core.model import AbstractModelSpec
from iclearn.core.rng import standard_normals, stream
from iclearn.models.base import AbstractFeatureModel
from iclearn.models.features import Cubic


class DiagonalModel(AbstractFeatureModel):
    gain: Float[Array, " dim"]

    axes = {"gain": ("input",)}

    @property
    def feature_map(self):
        return Cubic(len(self.gain), 1, "context")

    def coefficients(self):
        return jnp.diag(self.gain).reshape(-1, 1)

    def predict(self, prompt):
        return self.feature_map(prompt) @ self.coefficients()


@dataclass(frozen=True)
class DiagonalAttention(AbstractModelSpec, kind="diagonal_attention"):
    def initial(self, task, init, seed, dtype):
        (gain,) = standard_normals(stream(seed, "init"), ((task.dim,),))
        return DiagonalModel((init.scale * gain).astype(dtype))

    def rebuild(self, dim, weights):
        return DiagonalModel(jnp.asarray(weights["gain"]))
