"""Second moments of β̂ and of the labels, integrated over infinitely many prompts.

With Λ̂ = (1/N) Σ x_n x_nᵀ of N Gaussian inputs, E[Λ̂ A Λ̂] = ΛAΛ + (ΛAᵀΛ + tr(AΛ) Λ)/N for every matrix A.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.forms import AbstractForm, numpy_of
from ..core.label_law import LabelLaw


class KroneckerForm(AbstractForm):
    """The loss of ŷ_t = Σ W[o,j,i,t] β_{i,o} x_j as a quadratic form in W that keeps its Kronecker structure.

    L(W) = E y² − 2 Σ W[o,j,i,t] E[β_{i,o} w_{k,t}] Λ_{kj} + tr(Wᵀ E[ββᵀ] W Λ), because the query x is independent of
    the context's β: a step costs D³ and not D⁴. It is the loss of the reduced model; full attention follows it as long
    as its zero blocks are zero, which infinitely many prompts with a symmetric prior preserve.

    Args:
        second: (output, dim, output, dim) E[β β'ᵀ].
        cross: (output, dim, dim, output) E[β_{i,o} w_{k,t}] Λ_{kj}.
        inputs: (dim, dim) Λ.
        constant: () mean over outputs of E[y²].
    """

    second: Float[Array, "output dim output dim"]
    cross: Float[Array, "output dim dim output"]
    inputs: Float[Array, "dim dim"]
    constant: Float[Array, ""]

    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        num, dim = self.second.shape[:2]
        w = coefficients.reshape(num, dim, dim, -1)
        folded = jnp.einsum("oipk,pbkt->oibt", self.second, w)
        squared = jnp.einsum("ojit,oibt,bj->", w, folded, self.inputs)
        return self.constant + (squared - 2 * jnp.einsum("ojit,oijt->", w, self.cross)) / num

    def minimum(self) -> Any:
        """The loss at the W with E[ββᵀ] W Λ = E[β w] Λ, where the gradient vanishes."""
        xp = numpy_of(self.constant)
        form = jax.tree.map(lambda a: xp.asarray(a, float), self)
        size = form.second.shape[0] * form.second.shape[1]
        num = form.cross.shape[-1]
        second = form.second.reshape(size, size)
        cross = form.cross.reshape(size, -1, num)
        solved = xp.linalg.solve(second, cross.reshape(size, -1)).reshape(cross.shape)
        best = xp.einsum("sjt,jk->skt", solved, xp.linalg.inv(form.inputs))
        return form.constant - xp.einsum("sjt,sjt->", cross, best) / num


def wishart_sandwich(
    middle: Float[Array, "*o dim dim"], cov: Float[Array, "dim dim"], num: Float[Array, ""] | float
) -> Float[Array, "*o dim dim"]:
    """E[Λ̂ A Λ̂] = ΛAΛ + (ΛAᵀΛ + tr(AΛ) Λ)/N for Λ̂ the mean of N outer products of N(0, Λ) vectors.

    It follows from Isserlis' theorem: of the N² pairs of vectors, N(N−1) are independent and N are equal.

    Args:
        middle: (…, dim, dim) A.
        cov: (dim, dim) Λ.
        num: N.

    Returns:
        (…, dim, dim) the expectation.

    >>> float(wishart_sandwich(jnp.ones((1, 1)), jnp.ones((1, 1)), 1.0)[0, 0])  # E x⁴
    3.0
    """
    outer = cov @ middle @ cov
    flipped = cov @ jnp.swapaxes(middle, -1, -2) @ cov
    trace = jnp.einsum("...ij,ji->...", middle, cov)[..., None, None]
    return outer + (flipped + trace * cov) / num


@eqx.filter_jit
def quadratic_form(
    laws: tuple[LabelLaw, ...], cov: Float[Array, "dim dim"], num: Float[Array, ""], scale: Float[Array, ""]
) -> KroneckerForm:
    """The population loss of the cubic features with β = scale · Σ_n y_n x_n.

    With y = xᵀw + noise of variance σ², β = scale·N (Λ̂ w + noise), so E[ββᵀ] = (scale·N)² (E[Λ̂ wwᵀ Λ̂] + σ²Λ/N) and
    E[β wᵀ] = scale·N Λ E[wwᵀ].

    Args:
        laws: the mixture of label distributions.
        cov: (dim, dim) Λ.
        num: N, the context pairs of a prompt.
        scale: factor on the sum.

    Returns:
        The form, of coefficients in the order of `models.features.Cubic`.
    """
    reach = scale * num
    terms = []
    for law in laws:
        task = law.task_moment()
        blocks = jnp.swapaxes(task, 1, 2)  # output output dim dim
        noise = jnp.einsum("op,ij->opij", jnp.eye(task.shape[0], dtype=cov.dtype), law.noise * cov / num)
        second = law.context_from_task * wishart_sandwich(blocks, cov, num) + noise
        cross = law.context_from_task * jnp.einsum("ia,oatk,kj->oijt", cov, task, cov)
        constant = jnp.einsum("oioj,ji->", task, cov) / task.shape[0]
        share = law.weight
        terms.append((share * reach**2 * jnp.swapaxes(second, 1, 2), share * reach * cross, share * constant))
    second, cross, constant = (functools.reduce(jnp.add, parts) for parts in zip(*terms, strict=True))
    return KroneckerForm(second, cross, cov, constant)
