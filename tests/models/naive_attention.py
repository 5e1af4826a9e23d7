"""Attention as one would first write it: whole weight matrices, every row of the attention matrix, in numpy."""

from __future__ import annotations

import numpy as np


def outputs(tokens: np.ndarray, kq: np.ndarray, value: np.ndarray, *, softmax: bool) -> np.ndarray:
    """All tokens' outputs Σ_h Σ_j A_ij W_v x_j, with scores x_iᵀ W_kq x_j, for matrices of shape (heads, E, E)."""
    total = np.zeros_like(tokens)
    for one_kq, one_value in zip(kq, value, strict=True):
        scores = tokens @ one_kq @ tokens.T
        if softmax:
            scores = np.exp(scores - scores.max(1, keepdims=True))
            scores = scores / scores.sum(1, keepdims=True)
        total = total + scores @ tokens @ one_value.T
    return total


def prediction(
    x: np.ndarray,
    y: np.ndarray,
    query: np.ndarray,
    kq: np.ndarray,
    value: np.ndarray,
    *,
    softmax: bool = False,
    normalize: str = "none",
) -> np.ndarray:
    """The label entries at the query: the bottom right of the output."""
    context = np.concatenate([x, y], 1)
    last = np.concatenate([query, np.zeros(y.shape[1])])
    tokens = np.concatenate([context, last[None]])
    scale = {"none": 1.0, "context": 1 / len(x), "tokens": 1 / (len(x) + 1)}[normalize]
    if softmax and normalize == "context":
        scale = 1.0
    return outputs(tokens, kq, value, softmax=softmax)[-1, len(query) :] * scale


def products(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    """W_kq of separate weights (heads, rank, E): x_iᵀ W_kq x_j = (W_q x_i)·(W_k x_j)."""
    return np.einsum("hri,hrj->hij", query, key)
