"""Reduced models: what attention is when its zero blocks are zero, and its two disguises as linear networks.

ŷ = Σ_h v_h βᵀ U_h x_q (zhang2025): a two-layer network on the cubic feature z, or, with separate keys and queries, a
sum of three-layer convolutional networks on z. Each computes its prediction its own way; tests hold them equal.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.prompt import Prompt
from .base import AbstractFeatureModel, HeadFactors
from .features import Cubic, Normalize, attention_scale


def _beta(prompt: Prompt, normalize: Normalize) -> Float[Array, "dim output"]:
    labels = prompt.y * prompt.mask[:, None]
    return prompt.x.T @ labels * attention_scale(normalize, prompt.num_context())


class AbstractCubicModel(AbstractFeatureModel):
    """A model of the cubic features z = vec(β x_qᵀ)."""

    @abstractmethod
    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        """W[o, j, i, t] with ŷ_t = Σ W[o, j, i, t] β_{i,o} x_j."""

    @property
    def feature_map(self) -> Cubic:
        return Cubic(*self._sizes())

    @abstractmethod
    def _sizes(self) -> tuple[int, int, Normalize]:
        """Dimension of the inputs, number of outputs, and the factor on the sum over tokens."""

    def coefficients(self) -> Float[Array, "feature output"]:
        dim, out_dim, _ = self._sizes()
        return self.cubic_coefficients().reshape(out_dim * dim**2, out_dim)


class ReducedMerged(AbstractCubicModel):
    """Merged attention without its zero blocks: ŷ = Σ_h V_h βᵀ U_h x_q with β = Σ_n x_n y_nᵀ (zhang2025).

    Args:
        value: (head, output, output) V_h.
        kq: (head, dim, dim) U_hᵀ.
        normalize: factor on the sum over tokens (`features.attention_scale`).

    >>> from iclearn.core.prompt import full_prompt
    >>> model = ReducedMerged(jnp.ones((1, 1, 1)), jnp.ones((1, 2, 2)))
    >>> prompt = full_prompt(jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones(2))
    >>> float(model.predict(prompt)[0]), float(model.as_mlp().predict(prompt)[0])
    (16.0, 16.0)
    """

    value: Float[Array, "head output output"]
    kq: Float[Array, "head dim dim"]
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {"value": ("head", "output", "label"), "kq": ("head", "input", "key_input")}

    def _sizes(self) -> tuple[int, int, Normalize]:
        return self.kq.shape[1], self.value.shape[1], self.normalize

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        beta = _beta(prompt, self.normalize)
        return jnp.einsum("hto,io,hji,j->t", self.value, beta, self.kq, prompt.query)

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        return jnp.einsum("hto,hji->ojit", self.value, self.kq)

    def head_factors(self) -> HeadFactors:
        return HeadFactors(self.value.ravel(), kq=self.kq)

    def as_mlp(self) -> CubicMLP:
        """The two-layer network with the same weights, for one output."""
        heads, dim = self.kq.shape[:2]
        return CubicMLP(self.kq.reshape(heads, dim**2), self.value[:, 0, :].T, dim, self.normalize)


class ReducedSeparate(AbstractCubicModel):
    """Separate attention without its zero blocks: ŷ = Σ_h V_h βᵀ (Σ_r k_{h,r} q_{h,r}ᵀ) x_q (zhang2025).

    Args:
        value: (head, output, output) V_h.
        key: (head, rank, dim) k_{h,r}.
        query: (head, rank, dim) q_{h,r}.
        normalize: factor on the sum over tokens (`features.attention_scale`).

    >>> from iclearn.core.prompt import full_prompt
    >>> model = ReducedSeparate(jnp.ones((1, 1, 1)), jnp.ones((1, 1, 2)), jnp.ones((1, 1, 2)))
    >>> prompt = full_prompt(jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones(2))
    >>> float(model.predict(prompt)[0]), float(model.as_conv().predict(prompt)[0])
    (16.0, 16.0)
    """

    value: Float[Array, "head output output"]
    key: Float[Array, "head rank dim"]
    query: Float[Array, "head rank dim"]
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {
        "value": ("head", "output", "label"), "key": ("head", "rank", "key_input"), "query": ("head", "rank", "input")
    }  # fmt: skip

    def _sizes(self) -> tuple[int, int, Normalize]:
        return self.query.shape[2], self.value.shape[1], self.normalize

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        beta = _beta(prompt, self.normalize)
        return jnp.einsum("hto,io,hri,hr->t", self.value, beta, self.key, self.query @ prompt.query)

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        kq = jnp.einsum("hrj,hri->hji", self.query, self.key)
        return jnp.einsum("hto,hji->ojit", self.value, kq)

    def head_factors(self) -> HeadFactors:
        return HeadFactors(self.value.ravel(), self.key, self.query)

    def as_conv(self) -> ConvSum:
        """The sum of convolutional networks with the same weights, for one output."""
        return ConvSum(self.value[:, 0, 0], self.key, self.query, self.normalize)


class CubicMLP(AbstractCubicModel):
    """A two-layer bias-free linear network of width H on z: ŷ = W₂ W₁ z; see `ReducedMerged` for an example.

    Args:
        first: (head, feature) W₁.
        second: (output, head) W₂.
        dim: dimension of the inputs.
        normalize: factor on the sum over tokens (`features.attention_scale`).
    """

    first: Float[Array, "head feature"]
    second: Float[Array, "output head"]
    dim: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {"first": ("head", "feature"), "second": ("output", "head")}

    def _sizes(self) -> tuple[int, int, Normalize]:
        return self.dim, self.second.shape[0], self.normalize

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return self.second @ (self.first @ self.feature_map(prompt))

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        dim, out_dim, _ = self._sizes()
        return jnp.einsum("th,hf->ft", self.second, self.first).reshape(out_dim, dim, dim, out_dim)

    def head_factors(self) -> HeadFactors | None:
        one = self.second.shape[0] == 1
        return HeadFactors(self.second[0], kq=self.first.reshape(-1, self.dim, self.dim)) if one else None


class ConvSum(AbstractCubicModel):
    """Σ_i v_i q_iᵀ K_i z, K_i = I_D ⊗ k_iᵀ: the kernel k_i slides over z in strides of D, for one output.

    See `ReducedSeparate` for an example.

    Args:
        value: (head) v_i.
        key: (head, rank, dim) k_i.
        query: (head, rank, dim) q_i.
        normalize: factor on the sum over tokens (`features.attention_scale`).
    """

    value: Float[Array, " head"]
    key: Float[Array, "head rank dim"]
    query: Float[Array, "head rank dim"]
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {"value": ("head",), "key": ("head", "rank", "key_input"), "query": ("head", "rank", "input")}

    def _sizes(self) -> tuple[int, int, Normalize]:
        return self.query.shape[2], 1, self.normalize

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        heads, rank, dim = self.key.shape
        z = self.feature_map(prompt)[None, None, :]
        kernels = self.key.reshape(heads * rank, 1, dim)
        slid = jax.lax.conv_general_dilated(z, kernels, window_strides=(dim,), padding="VALID")[0]
        summed = jnp.einsum("cj,cj->c", self.query.reshape(heads * rank, dim), slid).reshape(heads, rank)
        return (self.value @ summed.sum(-1))[None]

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        return jnp.einsum("h,hrj,hri->ji", self.value, self.query, self.key)[None, :, :, None]

    def head_factors(self) -> HeadFactors:
        return HeadFactors(self.value, self.key, self.query)
