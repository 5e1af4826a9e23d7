"""Weights of the reduced models as the theory writes them: ŷ = gain · β̂ᵀ W x_q with W = Σ_h v_h U_h.

β̂ = (1/N) Σ y_n x_n. One output. Arrays have the order of the models' weights, so recorded runs can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.errors import IclearnError


class MergedWeights(eqx.Module):
    """Merged key-query weights: value v_h, and `kq` holding U_hᵀ (entry [h, j, i] meets x_q,j and β̂_i)."""

    value: Float[Array, "*time head"]
    kq: Float[Array, "*time head dim dim"]

    def effective(self) -> Float[Array, "*time dim dim"]:
        """W = Σ_h v_h U_h."""
        return jnp.einsum("...h,...hji->...ij", self.value, self.kq)

    def rotated(self, basis: Float[Array, "dim dim"]) -> MergedWeights:
        """The same weights in the coordinates of the columns of `basis`."""
        return MergedWeights(self.value, jnp.einsum("...hji,jb,ia->...hba", self.kq, basis, basis))


class SeparateWeights(eqx.Module):
    """Separate weights of rank R: value v_h, keys k_{h,r} and queries q_{h,r}, U_h = Σ_r k_{h,r} q_{h,r}ᵀ."""

    value: Float[Array, "*time head"]
    key: Float[Array, "*time head rank dim"]
    query: Float[Array, "*time head rank dim"]

    def effective(self) -> Float[Array, "*time dim dim"]:
        """W = Σ_h v_h Σ_r k_{h,r} q_{h,r}ᵀ."""
        return jnp.einsum("...h,...hri,...hrj->...ij", self.value, self.key, self.query)

    def rotated(self, basis: Float[Array, "dim dim"]) -> SeparateWeights:
        """The same weights in the coordinates of the columns of `basis`."""
        return SeparateWeights(self.value, self.key @ basis, self.query @ basis)


Weights = MergedWeights | SeparateWeights


def read_weights(arrays: Mapping[str, Any]) -> Weights:
    """Weights of any one-output linear model of iclearn, its zero blocks left out.

    Args:
        arrays: named as the model or `Trace.weights` names them: ``value`` with ``kq`` (merged), ``value``
            with ``key`` and ``query`` (separate, conv), or ``first`` with ``second`` (mlp).
    """
    given = {name: np.asarray(a, float) for name, a in arrays.items()}
    if {"first", "second"} <= given.keys():
        first, second = given["first"], given["second"]
        dim = round(first.shape[-1] ** 0.5)
        if second.shape[0] != 1:
            raise IclearnError(f"the theory is for one output; these weights have {second.shape[0]}")
        return MergedWeights(jnp.asarray(second[0]), jnp.asarray(first.reshape(-1, dim, dim)))
    if "value" not in given or not ("kq" in given or {"key", "query"} <= given.keys()):
        raise IclearnError(
            f"weights named {', '.join(sorted(given)) or 'nothing'} cannot be read: "
            "the theory takes value and kq, value and key and query, or first and second"
        )
    value = given["value"]
    if value.ndim == 3:
        if value.shape[1] != 1:
            raise IclearnError(f"the theory is for one output; these weights have {value.shape[1]}")
        value = value[:, 0, -1]
    if "kq" in given:
        dim = given["kq"].shape[1]
        return MergedWeights(jnp.asarray(value), jnp.asarray(given["kq"][..., :dim]))
    dim = given["query"].shape[-1]
    return SeparateWeights(jnp.asarray(value), jnp.asarray(given["key"][..., :dim]), jnp.asarray(given["query"]))
