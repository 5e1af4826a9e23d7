"""The population engine of linear self-attention (xie2025): the loss over infinitely many prompts, without sampling.

ŷ = uᵀ W x_q with u = [1; sym(G)] and an independent query of covariance Λ = AAᵀ, so the loss is
c − 2⟨E[u wᵀ]A, WA⟩ + tr((WA)ᵀ E[uuᵀ] WA): a quadratic form of `MomentsEngine`'s kind with dim columns.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.errors import IclearnError
from ..tasks.base import AbstractTask
from ..tasks.gram_moments import context_moments
from .base import average
from .moments import AbstractForm, Moments, MomentsEngine, quadratic


class GramForm(AbstractForm):
    """Moments of the features u ⊗ x_q, kept in their Kronecker form: those of u against the task in whitened inputs."""

    moments: Moments
    root: Float[Array, "dim dim"]

    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        pairs, dim = self.moments.cross.shape
        num = coefficients.shape[1]
        table = jnp.einsum("pjm,jk->pmk", coefficients.reshape(pairs, dim, num), self.root).reshape(pairs, -1)
        cross = jnp.tile(self.moments.cross, (1, num))
        # `quadratic` takes the mean over columns, of which each output has dim
        return dim * quadratic(table, self.moments.second, cross, self.moments.constant / dim)

    def minimum(self) -> Any:
        """The loss of the best coefficients, the guess's included: what a model with enough heads and its own guess
        reaches."""
        dim = self.root.shape[0]
        apart = Moments(self.moments.second, self.moments.cross, self.moments.constant / dim)
        return dim * apart.minimum()


def gram_form(task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> GramForm:
    """The exact loss of every linear self-attention on this task, for any task with Gaussian inputs and one output."""
    if task.out_dim != 1:
        raise IclearnError(f"linear self-attention has one output; this task has {task.out_dim}")
    cov = task.covariance_matrix(seed)
    root = jnp.linalg.cholesky(cov)
    laws = task.label_laws(seed, which)
    prefixes = task.prefixes and which == "train"
    lengths = range(1, task.context_len + 1) if prefixes else (task.context_len,)
    parts = [context_moments(laws, cov, jnp.asarray(float(n))) for n in lengths]
    mean = average(parts, jnp.float64)
    form = GramForm(Moments(mean.second, mean.cross @ root, mean.constant), root)
    return jax.tree.map(lambda a: a.astype(dtype), form)


def gram_engine(task: AbstractTask, seed: int | Array, dtype: Any) -> MomentsEngine:
    """Exact training of linear self-attention on infinitely many prompts."""
    tests = tuple(gram_form(task, seed, dtype, which) for which in task.tests)
    return MomentsEngine(gram_form(task, seed, dtype), tests)
