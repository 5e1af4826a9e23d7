"""Principal component regression in context: with the components of the inputs' law, or of the context itself."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import context


class PCR(AbstractModel):
    """Principal component regression as separate attention computes it on its (m+1)-th plateau (zhang2025, (22)).

    ŷ = β̂ᵀ Σ_{d≤m} [λ_d (1 + (1 + tr Λ/λ_d)/N)]⁻¹ e_d e_dᵀ x_q, β̂ = (1/n) Σ y x over the n pairs of the prompt. N is the
    context length of training: the shrinkage is in the weights and does not follow the prompt. m = dim gives trained
    attention (zhang2025, (11)).

    Args:
        covariance: (dim, dim) Λ of the inputs.
        components: m, from 0 to dim; may be traced.
        context_len: N; infinite for no shrinkage.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2))
    >>> PCR(jnp.diag(jnp.array([2.0, 1.0])), 1, jnp.inf).predict(prompt)
    Array([0.25], dtype=float64)
    """

    basis: Float[Array, "dim dim"]
    gains: Float[Array, " dim"]
    components: Int[Array, ""] | int

    def __init__(
        self, covariance: Float[Array, "dim dim"] | np.ndarray, components: Int[Array, ""] | int, context_len: float
    ) -> None:
        values, vectors = jnp.linalg.eigh(jnp.asarray(covariance, float))
        values, self.basis = values[::-1], vectors[:, ::-1]
        dim = len(values)
        if isinstance(components, int):
            require(0 <= components <= dim, f"components must be between 0 and dim = {dim}, not {components}")
        require(context_len >= 1, f"context_len must be at least 1, not {context_len}")
        self.gains = 1 / (values + (values + values.sum()) / context_len)
        self.components = components

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        beta = x.T @ y / jnp.maximum(prompt.num_context(), 1)
        kept = jnp.where(jnp.arange(len(self.gains)) < self.components, self.gains, 0)
        return (kept * (prompt.query @ self.basis)) @ (self.basis.T @ beta)


class EmpiricalPCR(AbstractModel):
    """Least squares on the first m principal components of the context's own inputs, which are not centered.

    With m = dim it is `LeastSquares`.

    Args:
        components: m; may be traced.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.diag(jnp.array([2.0, 1.0])), jnp.ones((2, 1)), jnp.ones(2))
    >>> EmpiricalPCR(1).predict(prompt)
    Array([0.5], dtype=float64)
    """

    components: Int[Array, ""] | int

    def __check_init__(self) -> None:
        if isinstance(self.components, int):
            require(self.components >= 0, f"components must not be negative, not {self.components}")

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        left, sizes, right = jnp.linalg.svd(x, full_matrices=False)
        floor = 10 * max(x.shape) * jnp.finfo(x.dtype).eps * jnp.max(sizes, initial=0)
        kept = (jnp.arange(len(sizes)) < self.components) & (sizes > floor)
        scores = jnp.where(kept, right @ prompt.query / jnp.where(kept, sizes, 1), 0)
        return scores @ (left.T @ y)
