"""Prompts and batches of them: the arrays every model reads."""

from __future__ import annotations

from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from . import jax_settings as jax_settings


class Prompt(eqx.Module):
    """One prompt: context pairs and a query. `mask` says which context pairs are there (prefixes use it).

    Functions take one prompt and are vmapped by the caller; a batch is the same object with a leading axis.
    """

    x: Float[Array, "*batch context dim"]
    y: Float[Array, "*batch context output"]
    query: Float[Array, "*batch dim"]
    mask: Bool[Array, "*batch context"]

    def tokens(self) -> Float[Array, "*batch tokens entry"]:
        """[x; y] per context pair and [query; 0] last; absent pairs are zero."""
        context = jnp.concatenate([self.x, self.y], -1) * self.mask[..., None]
        label = jnp.zeros((*self.query.shape[:-1], self.y.shape[-1]), self.query.dtype)
        last = jnp.concatenate([self.query, label], -1)[..., None, :]
        return jnp.concatenate([context, last], -2)

    def num_context(self) -> Float[Array, "*batch"]:
        return self.mask.sum(-1).astype(self.query.dtype)


class Document(eqx.Module):
    """One document of softmax regression: context words with their probabilities, and query words without.

    `target` is positive and sums to one; a prediction is a probability for each query word.
    """

    context: Float[Array, "*batch word dim"]
    target: Float[Array, "*batch word"]
    query: Float[Array, "*batch query_word dim"]


PromptT = TypeVar("PromptT", Prompt, Document)


class Batch(eqx.Module, Generic[PromptT]):
    """Prompts with their targets and weights; the weights sum to one over the batch they are a mean of.

    The loss of a prompt is `unit` times the mean over outputs of the squared error.
    """

    prompt: PromptT
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]
    unit: float = eqx.field(static=True, default=1.0)


class FeatureBatch(eqx.Module):
    """Like `Batch`, where only the features of each prompt are known (the public code's cubic features)."""

    features: Float[Array, "prompts feature"]
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]


def full_prompt(
    x: Float[Array, "*batch context dim"], y: Float[Array, "*batch context output"], query: Array
) -> Prompt:
    return Prompt(x, y, query, jnp.ones(x.shape[:-1], bool))
