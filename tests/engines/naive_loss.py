"""Losses of merged attention in plain numpy and jax, for tests that must not use the engines' own."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from iclearn.core.dataset import Arrays


def merged_loss(arrays: Arrays, value, kq):
    """Mean over prompts of (y_q − Σ_h p_hᵀ G Q_h x_q)², G = Σ over tokens, the query's label being 0. (One output.)"""
    tokens = jnp.asarray(np.concatenate([arrays.x, arrays.y], -1))
    gram = jnp.einsum("pna,pnb->pab", tokens, tokens)
    predicted = jnp.einsum("ha,pab,hjb,pj->p", value[:, 0], gram, kq, jnp.asarray(arrays.x[:, -1]))
    return jnp.mean((jnp.asarray(arrays.y_query[:, 0]) - predicted) ** 2)


def gram_features(arrays: Arrays) -> np.ndarray:
    """All products G_ab x_j of every prompt, repeats included: the column space of the features."""
    tokens = np.concatenate([arrays.x, arrays.y], -1)
    gram = np.einsum("pna,pnb->pab", tokens, tokens)
    return np.einsum("pab,pj->pabj", gram, arrays.x[:, -1]).reshape(len(gram), -1)
