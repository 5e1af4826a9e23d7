"""Linear and softmax attention that reads the query's output label: merged and separate key-query weights.

Only what can reach the output is kept: the label rows of the value matrices, and the columns of the key-query
matrices that meet the query's input (its label is zero).
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
from .features import GramQuery, Normalize, attention_scale
from .reduced import AbstractCubicModel, ReducedMerged, ReducedSeparate


class AbstractAttention(AbstractFeatureModel):
    """Full attention: subclasses say how the key-query matrices are made of weights.

    The query's row of head h scores each token t with d_h·t, where d_h = Q_h x_q, and adds up the values p_hᵀ t of all
    tokens times their scores. The softmax of the public code runs over all tokens, the query's own included, and is not
    scaled.
    """

    value: eqx.AbstractVar[Float[Array, "head output entry"]]

    @abstractmethod
    def _options(self) -> tuple[bool, Normalize]:
        """Whether there is a softmax over the tokens, and the factor on the sum over them."""

    @abstractmethod
    def directions(self, query: Float[Array, " dim"]) -> Float[Array, "head entry"]:
        """Q_h x_q of every head: what tokens are scored with.

        Args:
            query: (dim) x_q.

        Returns:
            (head, entry) the directions.
        """

    @abstractmethod
    def key_query(self) -> Float[Array, "head dim entry"]:
        """Q_hᵀ of every head."""

    @abstractmethod
    def reduced(self) -> AbstractCubicModel:
        """The model without its zero blocks."""

    @property
    def dim(self) -> int:
        """The dimension of the inputs."""
        return self.value.shape[2] - self.value.shape[1]

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        tokens = prompt.tokens()
        scores = self.directions(prompt.query) @ tokens.T
        softmax, normalize = self._options()
        if softmax:
            present = jnp.append(prompt.mask, True)
            scores = jax.nn.softmax(jnp.where(present, scores, -jnp.inf), axis=-1)
        scaled = not softmax or normalize == "tokens"
        scale = attention_scale(normalize, prompt.num_context()) if scaled else 1.0
        return jnp.einsum("hoe,he->o", self.value, scores @ tokens) * scale

    @property
    def feature_map(self) -> GramQuery | None:
        softmax, normalize = self._options()
        return None if softmax else GramQuery(self.dim, self.value.shape[1], normalize)

    def coefficients(self) -> Float[Array, "feature output"]:
        features = GramQuery(self.dim, self.value.shape[1], self._options()[1])
        return features.fold(jnp.einsum("hta,hjb->abjt", self.value, self.key_query()))

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        """W[o, j, i, t] of the reduced model: ŷ_t = Σ W β_{i,o} x_j."""
        return self.reduced().cubic_coefficients()


class MergedAttention(AbstractAttention):
    """attnM: ŷ = Σ_h p_hᵀ G Q_h x_q (zhang2025, ATTN_M) with G = Σ_tokens t tᵀ, or its softmax version.

    Args:
        value: (head, output, entry) p_h: the rows of W^V_h that write labels.
        kq: (head, dim, entry) Q_hᵀ: the part of W^KQ_h that meets x_q.
        softmax: softmax over the tokens.
        normalize: factor on the sum over tokens (`features.attention_scale`).

    >>> model = MergedAttention(jnp.ones((1, 1, 3)), jnp.ones((1, 2, 3)))
    >>> model.predict(Prompt(jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones(2), jnp.ones(4, bool)))
    Array([80.], dtype=float64)
    """

    value: Float[Array, "head output entry"]
    kq: Float[Array, "head dim entry"]
    softmax: bool = eqx.field(static=True, default=False)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {"value": ("head", "output", "entry"), "kq": ("head", "input", "entry")}

    def _options(self) -> tuple[bool, Normalize]:
        return self.softmax, self.normalize

    def directions(self, query: Float[Array, " dim"]) -> Float[Array, "head entry"]:
        return jnp.einsum("hje,j->he", self.kq, query)

    def key_query(self) -> Float[Array, "head dim entry"]:
        return self.kq

    def zero_blocks(self) -> tuple[Array, ...]:
        return self.value[..., : self.dim], self.kq[..., self.dim :]

    def head_factors(self) -> HeadFactors | None:
        return HeadFactors(self.value[:, 0], kq=self.kq) if self.feature_map and self.value.shape[1] == 1 else None

    def reduced(self) -> ReducedMerged:
        return ReducedMerged(self.value[..., self.dim :], self.kq[..., : self.dim], self.normalize)


class SeparateAttention(AbstractAttention):
    """attnS of rank R: `MergedAttention` with Q_h = Σ_r k_{h,r} q_{h,r}ᵀ (zhang2025, ATTN_S), or its softmax version.

    Args:
        value: (head, output, entry) p_h.
        key: (head, rank, entry) k_{h,r}.
        query: (head, rank, dim) q_{h,r}.
        softmax: softmax over the tokens.
        normalize: factor on the sum over tokens (`features.attention_scale`).

    >>> model = SeparateAttention(jnp.ones((1, 1, 3)), jnp.ones((1, 1, 3)), jnp.ones((1, 1, 2)))
    >>> model.predict(Prompt(jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones(2), jnp.ones(4, bool)))
    Array([80.], dtype=float64)
    """

    value: Float[Array, "head output entry"]
    key: Float[Array, "head rank entry"]
    query: Float[Array, "head rank dim"]
    softmax: bool = eqx.field(static=True, default=False)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {
        "value": ("head", "output", "entry"), "key": ("head", "rank", "entry"), "query": ("head", "rank", "input")
    }  # fmt: skip

    def _options(self) -> tuple[bool, Normalize]:
        return self.softmax, self.normalize

    def directions(self, query: Float[Array, " dim"]) -> Float[Array, "head entry"]:
        return jnp.einsum("hre,hr->he", self.key, self.query @ query)

    def key_query(self) -> Float[Array, "head dim entry"]:
        return jnp.einsum("hrj,hrb->hjb", self.query, self.key)

    def zero_blocks(self) -> tuple[Array, ...]:
        return self.value[..., : self.dim], self.key[..., self.dim :]

    def head_factors(self) -> HeadFactors | None:
        linear = self.feature_map and self.value.shape[1] == 1
        return HeadFactors(self.value[:, 0], self.key, self.query) if linear else None

    def reduced(self) -> ReducedSeparate:
        return ReducedSeparate(self.value[..., self.dim :], self.key[..., : self.dim], self.query, self.normalize)
