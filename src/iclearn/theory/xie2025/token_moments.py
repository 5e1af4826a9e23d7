"""Exact moments of what linear self-attention reads: sym(G) ⊗ x_q, G = (1/C) Σ [x; y][x; y]ᵀ.

Given w, tokens [x; y] are Gaussian with covariance K(w) = [[Λ, Λw], [wᵀΛ, wᵀΛw + σ²]]. G is the mean of C independent
[x; y][x; y]ᵀ, so by Isserlis' theorem E[G_ab G_ce | w] = K_ab K_ce + (K_ac K_be + K_ae K_bc)/C. K is quadratic in the
Gaussian w, so its own two moments need w to fourth order. The query is independent of the context: a factor Λ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .law import Law


class GramMoments(NamedTuple):
    """Moments of u = [1; entries a ≤ b of G row by row], from which those of u ⊗ x_q follow by a factor Λ.

    See `gram_moments`.

    Args:
        second: (entry, entry) E[u uᵀ].
        cross: (entry, dim) E[u wᵀ].
        inputs: (dim, dim) Λ.
        constant: E[y_q²].
    """

    second: Float[np.ndarray, "entry entry"]
    cross: Float[np.ndarray, "entry dim"]
    inputs: Float[np.ndarray, "dim dim"]
    constant: float

    def loss(self, coefficients: Float[np.ndarray, "entry dim"]) -> float:
        """E(uᵀ W x_q − y_q)² for the coefficients W (entry, dim)."""
        curved = self.second @ coefficients - 2 * self.cross
        return self.constant + float(np.einsum("uj,uk,jk->", coefficients, curved, self.inputs))


class FeatureMoments(NamedTuple):
    """Moments of features φ; the loss of ŷ = φᵀv is vᵀ second v − 2 cross·v + constant. See `feature_moments`.

    Args:
        second: (feature, feature) E[φφᵀ].
        cross: (feature) E[φ y_q].
        constant: E[y_q²].
    """

    second: Float[np.ndarray, "feature feature"]
    cross: Float[np.ndarray, " feature"]
    constant: float


def token_covariance_moments(
    law: Law,
) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b c e"], Float[np.ndarray, "a b dim"]]:
    """E[K], E[K_ab K_ce] and E[K_ab w_k] of K(w) under the prior w ~ N(w*, Σ).

    With u = Λw and q = wᵀΛw + σ²: cov(u, u) = ΛΣΛ, cov(u, q) = 2ΛΣΛw*, var q = 2tr(ΛΣΛΣ) + 4w*ᵀΛΣΛw*.
    """
    dim, inputs, prior, mean = law.dim, law.inputs, law.prior, law.mean
    x, y = slice(0, dim), dim
    turned = inputs @ prior  # ΛΣ
    uu = turned @ inputs
    uq = 2 * uu @ mean
    qq = 2 * np.einsum("ij,ji->", turned, turned) + 2 * mean @ uq

    first = np.zeros((dim + 1, dim + 1))
    first[x, x] = inputs
    first[x, y] = first[y, x] = inputs @ mean
    first[y, y] = mean @ inputs @ mean + law.label_variance + law.noise

    second = np.multiply.outer(first, first)
    for one, two in [((x, y), (x, y)), ((x, y), (y, x)), ((y, x), (x, y)), ((y, x), (y, x))]:
        second[(*one, *two)] += uu
    for place in [(x, y, y, y), (y, x, y, y), (y, y, x, y), (y, y, y, x)]:
        second[place] += uq
    second[y, y, y, y] += qq

    cross = np.multiply.outer(first, mean)
    cross[x, y] += turned
    cross[y, x] += turned
    cross[y, y] += 2 * prior @ inputs @ mean
    return first, second, cross


def gram_moments(law: Law) -> GramMoments:
    """Exact moments of u = [1; sym(G)] and of w under the law.

    Args:
        law: of the task.

    Returns:
        The moments, with 1 + (d+1)(d+2)/2 entries of u.

    >>> gram_moments(Law(np.array([2.0]), context_len=4)).cross.tolist()  # E[w], E[G_xx w], E[G_xy w], E[G_yy w]
    [[2.0], [2.0], [5.0], [14.0]]
    """
    first, second, cross = token_covariance_moments(law)
    pairings = second.transpose(0, 2, 1, 3) + second.transpose(0, 2, 3, 1)
    squared = second + pairings / law.context_len
    rows, cols = np.triu_indices(law.dim + 1)
    entries = 1 + len(rows)
    joint = np.empty((entries, entries))
    joint[0, 0] = 1.0
    joint[0, 1:] = joint[1:, 0] = first[rows, cols]
    joint[1:, 1:] = squared[rows[:, None], cols[:, None], rows, cols]
    constant = law.label_variance + float(law.mean @ law.inputs @ law.mean)
    return GramMoments(joint, np.vstack([law.mean, cross[rows, cols]]), law.inputs, constant)


def feature_moments(law: Law) -> FeatureMoments:
    """Exact moments of the features [x_q; sym(G) ⊗ x_q], in which every linear self-attention is linear.

    sym(G) ⊗ x_q is ordered as `iclearn.models.features.GramQuery` orders it: entries a ≤ b of G row by row, then the
    entry of x_q; G sums over the context only.

    Args:
        law: of the task.

    Returns:
        The moments of the d + d(d+1)(d+2)/2 features.

    >>> second, cross, constant = feature_moments(Law(np.array([2.0]), context_len=4))
    >>> second.shape, float(constant)  # E[y_q²] = tr(ΛΣ) + w*ᵀΛw*
    ((4, 4), 5.0)
    """
    gram = gram_moments(law)
    return FeatureMoments(np.kron(gram.second, gram.inputs), (gram.cross @ gram.inputs).ravel(), gram.constant)


def regression_loss(
    moments: GramMoments, guess: Float[np.ndarray, " dim"], basis: Float[np.ndarray, "pair feature"] | None = None
) -> tuple[float, Float[np.ndarray, "entry dim"]]:
    """Least loss of ŷ = w_q·x_q + (linear in sym(G) ⊗ x_q) by the normal equations, and coefficients W of u.

    Args:
        basis: restrict to combinations of u in the span of these columns (rows: all entries of u but the leading 1).
    """
    free = moments.second[1:, 1:]
    target = moments.cross[1:] - np.outer(moments.second[1:, 0], guess)
    if basis is not None:
        free, target = basis.T @ free @ basis, basis.T @ target
    scale = 1 / np.sqrt(np.diagonal(free))
    solved = np.linalg.lstsq(free * np.outer(scale, scale), target * scale[:, None], rcond=None)[0] * scale[:, None]
    coefficients = np.vstack([guess, solved if basis is None else basis @ solved])
    # The loss AT the solution: an error of size e in the coefficients costs e² only.
    return moments.loss(coefficients), coefficients


def normal_equations(law: Law, guess: ArrayLike | None = None) -> tuple[float, Float[np.ndarray, "entry dim"]]:
    """The optimum over all T = Σ_h p_h ⊗ Q_h (any H ≥ d+1 heads) with guess g = w_q·x_q, solved numerically.

    `optimum` has the closed form.

    Args:
        law: of the task.
        guess: (dim) w_q (None: 0).

    Returns:
        The loss, and the coefficients W (entry, dim) of u = [1; sym(G)] in ŷ = uᵀ W x_q.

    >>> round(normal_equations(Law(np.zeros(2), context_len=3))[0], 12)  # d(d+1)/(C+d+1)
    1.0
    """
    return regression_loss(gram_moments(law), law.guess(guess))
