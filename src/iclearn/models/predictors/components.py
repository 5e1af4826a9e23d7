"""Principal component regression in context: with the components of the inputs' law, or of the context itself."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import context


class PCR(AbstractModel):
    """What separate attention computes on its (m+1)-th plateau (zhang2025, (22)).

    ŷ = β̂ᵀ Σ_{d≤m} [λ_d (1 + (1 + tr Λ/λ_d)/N)]⁻¹ e_d e_dᵀ x_q, β̂ = (1/n) Σ y x over the n pairs of the prompt. N is the
    context length of training: the shrinkage is in the weights and does not follow the prompt. m = dim gives trained
    attention (11).

    Args:
        covariance: Λ of the inputs.
        components: m, from 0 to dim; may be traced.
        context_len: N; infinite for no shrinkage.
    """

    basis: Float[Array, "dim dim"]
    gains: Float[Array, " dim"]
    components: Int[Array, ""] | int

    def __init__(
        self,
        covariance: Float[Array, "dim dim"] | np.ndarray,
        components: Int[Array, ""] | int,
        context_len: int | float,
    ) -> None:
        values, vectors = jnp.linalg.eigh(jnp.asarray(covariance, float))
        values, self.basis = values[::-1], vectors[:, ::-1]
        if isinstance(components, int) and not 0 <= components <= len(values):
            raise IclearnError(f"components must be between 0 and dim = {len(values)}, not {components}")
        if not context_len >= 1:
            raise IclearnError(f"context_len must be at least 1, not {context_len}")
        self.gains = 1 / (values + (values + values.sum()) / context_len)
        self.components = components

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        beta = x.T @ y / jnp.maximum(prompt.num_context(), 1)
        kept = jnp.where(jnp.arange(len(self.gains)) < self.components, self.gains, 0)
        return (kept * (prompt.query @ self.basis)) @ (self.basis.T @ beta)


class EmpiricalPCR(AbstractModel):
    """Least squares on the first m principal components of the context's own inputs (not centered).

    With m = dim, least squares. The number of components may be traced.
    """

    components: Int[Array, ""] | int

    def __check_init__(self) -> None:
        if isinstance(self.components, int) and self.components < 0:
            raise IclearnError(f"components must not be negative, not {self.components}")

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        left, sizes, right = jnp.linalg.svd(x, full_matrices=False)
        floor = 10 * max(x.shape) * jnp.finfo(x.dtype).eps * jnp.max(sizes, initial=0)
        kept = (jnp.arange(len(sizes)) < self.components) & (sizes > floor)
        scores = jnp.where(kept, right @ prompt.query / jnp.where(kept, sizes, 1), 0)
        return scores @ (left.T @ y)
