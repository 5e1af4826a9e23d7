"""Weights of the reduced models as the theory writes them: ŷ = g · β̂ᵀ W x_q with W = Σ_h v_h U_h and one output.

β̂ = (1/N) Σ y_n x_n. Arrays have the order of the models' weights, so recorded runs can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core.checks import as_numbers
from ...core.errors import IclearnError


class MergedWeights(eqx.Module):
    """Weights of merged attention: value v_h and key-query matrix U_h of each head.

    Args:
        value: (…, head) v_h.
        kq: (…, head, dim, dim) U_hᵀ: entry [h, j, i] meets entry j of x_q and entry i of β̂.

    >>> MergedWeights(jnp.array([2.0]), jnp.array([[[1.0, 3.0], [0.0, 1.0]]])).effective().tolist()
    [[2.0, 0.0], [6.0, 2.0]]
    """

    value: Float[Array, "*time head"]
    kq: Float[Array, "*time head dim dim"]

    def effective(self) -> Float[Array, "*time dim dim"]:
        """W = Σ_h v_h U_h, (…, dim, dim)."""
        return jnp.einsum("...h,...hji->...ij", self.value, self.kq)

    def rotated(self, basis: Float[Array, "dim dim"]) -> MergedWeights:
        """The same weights in the coordinates of the columns of `basis` (dim, dim)."""
        return MergedWeights(self.value, jnp.einsum("...hji,jb,ia->...hba", self.kq, basis, basis))


class SeparateWeights(eqx.Module):
    """Weights of separate attention of rank R: U_h = Σ_r k_{h,r} q_{h,r}ᵀ.

    Args:
        value: (…, head) v_h.
        key: (…, head, rank, dim) k_{h,r}.
        query: (…, head, rank, dim) q_{h,r}.

    >>> pair = jnp.array([[[1.0, 0.0]]])
    >>> SeparateWeights(jnp.array([2.0]), pair, 3 * pair).effective().tolist()
    [[6.0, 0.0], [0.0, 0.0]]
    """

    value: Float[Array, "*time head"]
    key: Float[Array, "*time head rank dim"]
    query: Float[Array, "*time head rank dim"]

    def effective(self) -> Float[Array, "*time dim dim"]:
        """W = Σ_h v_h Σ_r k_{h,r} q_{h,r}ᵀ, (…, dim, dim)."""
        return jnp.einsum("...h,...hri,...hrj->...ij", self.value, self.key, self.query)

    def rotated(self, basis: Float[Array, "dim dim"]) -> SeparateWeights:
        """The same weights in the coordinates of the columns of `basis` (dim, dim)."""
        return SeparateWeights(self.value, self.key @ basis, self.query @ basis)


Weights = MergedWeights | SeparateWeights


def read_weights(arrays: Mapping[str, Any]) -> Weights:
    """Weights of any linear model of iclearn with one output, its zero blocks left out.

    Args:
        arrays: named as the model or `Trace.weights` names them: ``value`` with ``kq`` (merged), ``value`` with
            ``key`` and ``query`` (separate, conv), or ``first`` with ``second`` (mlp).

    Returns:
        `MergedWeights` (merged, mlp) or `SeparateWeights` (separate, conv).

    >>> import numpy as np
    >>> read_weights({"first": np.ones((3, 4)), "second": np.ones((1, 3))}).kq.shape
    (3, 2, 2)
    """
    given = {name: as_numbers(f"weight {name}", a) for name, a in arrays.items()}
    if {"first", "second"} <= given.keys():
        dim, outputs = round(given["first"].shape[-1] ** 0.5), given["second"].shape[0]
        value, given["kq"] = given["second"][0], given["first"].reshape(-1, dim, dim)
    elif "value" in given and ("kq" in given or {"key", "query"} <= given.keys()):
        value, outputs = given["value"], given["value"].shape[1] if given["value"].ndim == 3 else 1
        value = value[:, 0, -1] if value.ndim == 3 else value
    else:
        raise IclearnError(
            f"weights named {', '.join(sorted(given)) or 'nothing'} cannot be read: "
            "the theory takes value and kq, value and key and query, or first and second"
        )
    if outputs != 1:
        raise IclearnError(f"the theory is for one output; these weights have {outputs}")
    if "kq" in given:
        return MergedWeights(jnp.asarray(value), jnp.asarray(given["kq"][..., : given["kq"].shape[1]]))
    key, query = given["key"][..., : given["query"].shape[-1]], given["query"]
    return SeparateWeights(jnp.asarray(value), jnp.asarray(key), jnp.asarray(query))
