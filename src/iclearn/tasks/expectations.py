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
    """Loss of ŷ_t = Σ W[o,j,i,t] β_{i,o} x_j as a quadratic form in W that keeps its Kronecker structure.

    L(W) = E y² − 2 tr(Wᵀ E[β yᵀ…]) + tr(Wᵀ E[ββᵀ] W Λ): a step costs D³ and not D⁴. It is the loss of the reduced
    model; full attention follows it as long as its zero blocks are zero, which infinitely many prompts with a
    symmetric prior preserve.

    `second` = E[β β'ᵀ], `cross` = E[β_{i,o} w_{k,t}] Λ_{kj}, `inputs` = Λ, `constant` = mean over outputs of E[y²].
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
        """At W Λ = E[ββᵀ]⁻¹ E[β w Λ…]."""
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
    """E[Λ̂ A Λ̂] for Λ̂ the mean of `num` outer products of N(0, Λ) vectors."""
    outer = cov @ middle @ cov
    flipped = cov @ jnp.swapaxes(middle, -1, -2) @ cov
    trace = jnp.einsum("...ij,ji->...", middle, cov)[..., None, None]
    return outer + (flipped + trace * cov) / num


@eqx.filter_jit
def quadratic_form(
    laws: tuple[LabelLaw, ...], cov: Float[Array, "dim dim"], num: Float[Array, ""], scale: Float[Array, ""]
) -> KroneckerForm:
    """The form for prompts of `num` context pairs, β = scale · Σ_n y_n x_n."""
    reach = scale * num
    forms = []
    for law in laws:
        task = law.task_moment()
        blocks = jnp.swapaxes(task, 1, 2)  # output output dim dim
        noise = jnp.einsum("op,ij->opij", jnp.eye(task.shape[0], dtype=cov.dtype), law.noise * cov / num)
        second = law.context_from_task * wishart_sandwich(blocks, cov, num) + noise
        cross = law.context_from_task * jnp.einsum("ia,oatk,kj->oijt", cov, task, cov)
        constant = jnp.einsum("oioj,ji->", task, cov) / task.shape[0]
        forms.append(
            KroneckerForm(
                law.weight * reach**2 * jnp.swapaxes(second, 1, 2),
                law.weight * reach * cross,
                cov,
                law.weight * constant,
            )
        )
    total = jax.tree.map(lambda *parts: functools.reduce(jnp.add, parts), *forms)
    return KroneckerForm(total.second, total.cross, cov, total.constant)
