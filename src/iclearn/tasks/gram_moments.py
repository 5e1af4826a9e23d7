"""Moments of what linear self-attention reads, u = [1; sym(G)] with G = (1/C) Σ [x; y][x; y]ᵀ, in closed form.

Given the task vector, tokens are Gaussian with a covariance K whose entries are quadratic in ŵ = [w; 1]:
K_ab = ŵᵀ B_ab ŵ. So E[G_ab G_ce | w] = K_ab K_ce + (K_ac K_be + K_ae K_bc)/C needs the moments of pairs of quadratic
forms, and for a Gaussian vector with mean m and second moment R these are
E[ŵᵀBŵ · ŵᵀB'ŵ] = tr BR tr B'R + 2 tr BRB'R − 2 mᵀBm mᵀB'm.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import IclearnError
from ..core.forms import AbstractForm, Moments, average, quadratic
from ..core.label_law import LabelLaw
from ..core.task import AbstractTask


class ContextMoments(eqx.Module):
    """`second` = E[u uᵀ], `cross` = E[u wᵀ], `constant` = E[y_q²]; the query is independent, with covariance Λ."""

    second: Float[Array, "pair pair"]
    cross: Float[Array, "pair dim"]
    constant: Float[Array, ""]


def token_forms(law: LabelLaw, cov: Float[Array, "dim dim"]) -> Float[Array, "entry entry extended extended"]:
    """B with K_ab = ŵᵀ B_ab ŵ: [[Λ, Λw], [wᵀΛ, wᵀΛw + σ²]] where the labels follow the task."""
    dim = cov.shape[0]
    follows = law.context_from_task.astype(cov.dtype)
    forms = jnp.zeros((dim + 1, dim + 1, dim + 1, dim + 1), cov.dtype)
    forms = forms.at[:dim, :dim, dim, dim].set(cov)
    for a, b in ((slice(0, dim), dim), (dim, slice(0, dim))):
        forms = forms.at[a, b, :dim, dim].set(follows * cov / 2)
        forms = forms.at[a, b, dim, :dim].set(follows * cov / 2)
    forms = forms.at[dim, dim, :dim, :dim].set(follows * cov)
    return forms.at[dim, dim, dim, dim].set(law.noise.astype(cov.dtype))


@eqx.filter_jit
def context_moments(laws: tuple[LabelLaw, ...], cov: Float[Array, "dim dim"], num: Float[Array, ""]) -> ContextMoments:
    """The moments over a mixture of label laws, for prompts of `num` context pairs and one output."""
    dim = cov.shape[0]
    rows, cols = np.triu_indices(dim + 1)
    parts = []
    for law in laws:
        mean = jnp.append(law.mean[:, 0], 1.0)
        second = jnp.outer(mean, mean).at[:dim, :dim].add(law.covariance)
        forms = token_forms(law, cov)
        level = jnp.einsum("abij,ij->ab", forms, second)  # E[K]
        central = jnp.einsum("abij,i,j->ab", forms, mean, mean)
        turned = jnp.einsum("abij,jk->abik", forms, second)
        joint = (
            jnp.multiply.outer(level, level)
            + 2 * jnp.einsum("abik,ceki->abce", turned, turned)
            - 2 * jnp.multiply.outer(central, central)
        )
        gram = joint + (joint.transpose(0, 2, 1, 3) + joint.transpose(0, 2, 3, 1)) / num
        # w is the linear form whose matrix has ½ in the last row and column
        half = np.zeros((dim, dim + 1, dim + 1))
        half[np.arange(dim), np.arange(dim), dim] = half[np.arange(dim), dim, np.arange(dim)] = 0.5
        slope = jnp.einsum("kij,jl->kil", half, second)
        crossed = (
            jnp.multiply.outer(level, mean[:dim])
            + 2 * jnp.einsum("abil,kli->abk", turned, slope)
            - 2 * jnp.multiply.outer(central, mean[:dim])
        )
        first = level[rows, cols]
        whole = jnp.block([[jnp.ones((1, 1)), first[None]], [first[:, None], gram[rows, cols][:, rows, cols]]])
        cross = jnp.concatenate([mean[None, :dim], crossed[rows, cols]])
        energy = jnp.einsum("ij,ij->", cov, second[:dim, :dim])
        parts.append(jax.tree.map(lambda a, share=law.weight: share * a, ContextMoments(whole, cross, energy)))
    return jax.tree.map(lambda *terms: functools.reduce(jnp.add, terms), *parts)


class GramForm(AbstractForm):
    """The loss of ŷ = uᵀ W x_q with an independent query of covariance Λ = AAᵀ, in Kronecker form.

    c − 2⟨E[u wᵀ]A, WA⟩ + tr((WA)ᵀ E[uuᵀ] WA): the moments of u against the task in whitened inputs.
    """

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
        """What a model with enough heads and its own guess reaches."""
        dim = self.root.shape[0]
        apart = Moments(self.moments.second, self.moments.cross, self.moments.constant / dim)
        return dim * apart.minimum()


def gram_form(task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> GramForm:
    """The exact loss of every linear self-attention on this task, for any task with Gaussian inputs and one output."""
    if task.out_dim != 1:
        raise IclearnError(f"linear self-attention has one output; this task has {task.out_dim}")
    cov, laws = task.covariance_matrix(seed), task.label_laws(seed, which)
    root = jnp.linalg.cholesky(cov)
    parts = [context_moments(laws, cov, jnp.asarray(float(n))) for n in task.context_lengths(which)]
    mean = average(parts, jnp.float64)
    form = GramForm(Moments(mean.second, mean.cross @ root, mean.constant), root)
    return jax.tree.map(lambda a: a.astype(dtype), form)
