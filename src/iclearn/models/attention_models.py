"""Linear and softmax attention that reads the query's output label: merged and separate key-query weights.

Only what can reach the output is kept: the label rows of the value matrices, and the columns of the key-query
matrices that meet the query's input (its label is zero).
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.prompt import Prompt
from .base import AbstractFeatureModel
from .features import GramQuery, Normalize, attention_scale
from .reduced import ReducedMerged, ReducedSeparate


def attend(
    prompt: Prompt,
    directions: Float[Array, "head entry"],
    value: Float[Array, "head output entry"],
    *,
    softmax: bool,
    normalize: Normalize,
) -> Float[Array, " output"]:
    """The query's row of attention: score of each token = direction · token, then the sum of its values.

    The softmax of the public code runs over all tokens, the query's own included, and is not scaled.
    """
    tokens = prompt.tokens()
    scores = directions @ tokens.T
    if softmax:
        present = jnp.append(prompt.mask, True)
        scores = jax.nn.softmax(jnp.where(present, scores, -jnp.inf), axis=-1)
        scale = attention_scale(normalize, prompt.num_context()) if normalize == "tokens" else 1.0
    else:
        scale = attention_scale(normalize, prompt.num_context())
    return jnp.einsum("hoe,he->o", value, scores @ tokens) * scale


class MergedAttention(AbstractFeatureModel):
    """attnM: ŷ = Σ_h p_hᵀ G Q_h x_q (zhang2025, ATTN_M), or its softmax version.

    `value` holds p_h (the rows of W^V_h that write labels), `kq` holds Q_hᵀ (the rows of W^KQ_h that meet x_q).
    """

    value: Float[Array, "head output entry"]
    kq: Float[Array, "head dim entry"]
    softmax: bool = eqx.field(static=True, default=False)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {"value": ("head", "output", "entry"), "kq": ("head", "input", "entry")}

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        directions = jnp.einsum("hje,j->he", self.kq, prompt.query)
        return attend(prompt, directions, self.value, softmax=self.softmax, normalize=self.normalize)

    @property
    def feature_map(self) -> GramQuery | None:
        return None if self.softmax else GramQuery(self.kq.shape[1], self.value.shape[1], self.normalize)

    def coefficients(self) -> Float[Array, "feature output"]:
        features = GramQuery(self.kq.shape[1], self.value.shape[1], self.normalize)
        return features.fold(jnp.einsum("hta,hjb->abjt", self.value, self.kq))

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        return self.reduced().cubic_coefficients()

    def zero_blocks(self) -> tuple[Array, ...]:
        dim = self.kq.shape[1]
        return self.value[..., :dim], self.kq[..., dim:]

    def reduced(self) -> ReducedMerged:
        """The model without its zero blocks."""
        dim = self.kq.shape[1]
        return ReducedMerged(self.value[..., dim:], self.kq[..., :dim], self.normalize)


class SeparateAttention(AbstractFeatureModel):
    """attnS of rank R: W^KQ_h = Σ_r k_{h,r} q_{h,r}ᵀ (zhang2025, ATTN_S), or its softmax version."""

    value: Float[Array, "head output entry"]
    key: Float[Array, "head rank entry"]
    query: Float[Array, "head rank dim"]
    softmax: bool = eqx.field(static=True, default=False)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar = {
        "value": ("head", "output", "entry"),
        "key": ("head", "rank", "entry"),
        "query": ("head", "rank", "input"),
    }

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        directions = jnp.einsum("hre,hr->he", self.key, self.query @ prompt.query)
        return attend(prompt, directions, self.value, softmax=self.softmax, normalize=self.normalize)

    @property
    def feature_map(self) -> GramQuery | None:
        return None if self.softmax else GramQuery(self.query.shape[2], self.value.shape[1], self.normalize)

    def coefficients(self) -> Float[Array, "feature output"]:
        features = GramQuery(self.query.shape[2], self.value.shape[1], self.normalize)
        kq = jnp.einsum("hrj,hrb->hjb", self.query, self.key)
        return features.fold(jnp.einsum("hta,hjb->abjt", self.value, kq))

    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        return self.reduced().cubic_coefficients()

    def zero_blocks(self) -> tuple[Array, ...]:
        dim = self.query.shape[2]
        return self.value[..., :dim], self.key[..., dim:]

    def reduced(self) -> ReducedSeparate:
        """The model without its zero blocks."""
        dim = self.query.shape[2]
        return ReducedSeparate(self.value[..., dim:], self.key[..., :dim], self.query, self.normalize)
