"""Population loss of any H-head linear self-attention, and of yq-LSA, from exact moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ...core.errors import IclearnError
from .law import Law
from .token_moments import GramMoments, gram_moments


class LSAWeights(NamedTuple):
    """Weights of linear self-attention with H heads: ŷ = g + Σ_h p_hᵀ G Q_h [x_q; g], g = w_q·x_q; see `lsa_loss`.

    G = (1/C) Σ_i [x_i; y_i][x_i; y_i]ᵀ is the Gram matrix of the context.

    Args:
        p: (head, dim + 1) p_h.
        q: (head, dim + 1, dim + 1) Q_h.
        guess: (dim) w_q.
    """

    p: Float[np.ndarray, "head entry"]
    q: Float[np.ndarray, "head entry entry"]
    guess: Float[np.ndarray, " dim"]


def fold_symmetric(tensor: Float[np.ndarray, "a b *rest"]) -> Float[np.ndarray, " pair *rest"]:
    """Coefficients of the entries a ≤ b of G for a tensor that acts on all G_ab: T_ab + T_ba for a < b."""
    rows, cols = np.triu_indices(tensor.shape[0])
    both = tensor + np.swapaxes(tensor, 0, 1)
    once = np.where(rows == cols, 0.5, 1.0)
    return both[rows, cols] * once.reshape(-1, *[1] * (tensor.ndim - 2))


def lsa_coefficients(weights: LSAWeights) -> Float[np.ndarray, "entry dim"]:
    """The matrix W with ŷ = uᵀ W x_q, u = [1; sym(G)]: heads act only through T = Σ_h p_h ⊗ Q_h.

    Flattened row by row, W is the coefficient vector of the features of `feature_moments`.

    Args:
        weights: of any number of heads.

    Returns:
        (entry, dim) W: a row for 1, and one for each entry a ≤ b of G row by row.

    >>> one = LSAWeights(np.array([[0.0, 1.0]]), np.array([[[0.5, 0.0], [0.0, 0.0]]]), np.zeros(1))
    >>> lsa_coefficients(one).ravel().tolist()  # ŷ = ½ G_xy x_q: a gradient step from 0
    [0.0, 0.0, 0.5, 0.0]
    """
    p, q, guess = (np.asarray(a, float) for a in weights)
    dim = guess.size
    if p.shape != (len(p), dim + 1) or q.shape != (len(p), dim + 1, dim + 1):
        raise IclearnError(
            f"weights p {p.shape} and q {q.shape} do not fit a guess of {dim} entries: "
            f"need (heads, {dim + 1}) and (heads, {dim + 1}, {dim + 1})"
        )
    lifted = q @ np.vstack([np.eye(dim), guess])  # Q_h [x_q; w_q·x_q] as a map of x_q
    return np.vstack([guess, fold_symmetric(np.einsum("ha,hbj->abj", p, lifted))])


def lsa_loss(law: Law | GramMoments, p: ArrayLike, q: ArrayLike, guess: ArrayLike | None = None) -> float:
    """E(ŷ − y_q)² of linear self-attention with H heads and guess g = w_q·x_q, from exact moments.

    Args:
        law: of the task; or its `gram_moments`, to compute them once for many weights.
        p, q: weights of the heads, see `LSAWeights`.
        guess: (dim) w_q (None: 0).

    Returns:
        The loss.

    >>> law = Law(np.zeros(2), context_len=3)
    >>> step = np.diag([0.5, 0.5, 0.0])  # one gradient step from 0 of size C/(C+d+1) = 1/2
    >>> round(lsa_loss(law, [[0.0, 0.0, 1.0]], step[None]), 12)
    1.0
    """
    moments = gram_moments(law) if isinstance(law, Law) else law
    weights = np.zeros(moments.inputs.shape[0]) if guess is None else np.asarray(guess, float)
    return moments.loss(lsa_coefficients(LSAWeights(np.asarray(p, float), np.asarray(q, float), weights)))
