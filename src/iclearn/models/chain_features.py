"""The features in which deep linear transformers are linear: products of entries of S times β ⊗ x_q, or of G times x_q.

ŷ = x_qᵀ g_L(S) β with g_L = Σ over subsets l_1 < … < l_m of layers of (−1)^{m+1} A_{l_m}ᵀ S A_{l_{m−1}}ᵀ … S A_{l_1}ᵀ,
so the features are the monomials of degree < L of the n = d(d+1)/2 entries of S, times the d² products β_i x_j:
d² C(n+L−1, L−1). Blocks ``sparse`` are the same with g_L of degree (3^L − 1)/2 − 1, blocks ``full`` read all of G.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.prompt import Prompt
from .features import AbstractFeatureMap, attention_scale
from .matrix_polynomials import MatrixPolynomial, monomials


def gd_features(dim: int, layers: int) -> int:
    """d² C(n + L − 1, L − 1), n = d(d+1)/2: features of blocks ``gd``.

    >>> [gd_features(5, layers) for layers in (1, 2, 3, 4)]
    [25, 400, 3400, 20400]
    """
    pairs = dim * (dim + 1) // 2
    return dim**2 * math.comb(pairs + layers - 1, layers - 1)


def sparse_features(dim: int, layers: int) -> int:
    """d² C(n + D − 1, D − 1), D = (3^L − 1)/2: features of blocks ``sparse``.

    >>> [sparse_features(2, layers) for layers in (1, 2, 3)]
    [4, 80, 1820]
    """
    return gd_features(dim, (3**layers - 1) // 2)


def full_features(dim: int, layers: int) -> int:
    """d (C(f + D, D) − 1), f = (d+1)(d+2)/2, D = (3^L − 1)/2: features of blocks ``full`` and ``diag``.

    >>> [full_features(2, layers) for layers in (1, 2)]
    [12, 418]
    """
    degree, pairs = (3**layers - 1) // 2, (dim + 1) * (dim + 2) // 2
    return dim * (math.comb(pairs + degree, degree) - 1)


@lru_cache(maxsize=64)
def _places(dim: int, degree: int) -> np.ndarray:
    """Which monomial of the entries (i ≤ j) of S is S_{i_1 j_1} … S_{i_p j_p}, for all (dim²)^degree of them."""
    pair = np.zeros((dim, dim), int)
    rows, cols = np.triu_indices(dim)
    pair[rows, cols] = pair[cols, rows] = np.arange(len(rows))
    place = {tuple(row): i for i, row in enumerate(monomials(len(rows), degree).tolist())}
    flat = pair.ravel()
    every = [
        place[tuple(sorted(flat[list(entries)].tolist()))]
        for entries in itertools.product(range(dim**2), repeat=degree)
    ]
    return np.array(every)


@dataclass(frozen=True)
class ChainFeatures(AbstractFeatureMap):
    """Monomials of S of degree < `layers`, times x_q ⊗ β, degree by degree; for the other arguments see its base.

    Args:
        layers: L.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((5, 1)), jnp.ones((5, 1)), jnp.array([3.0]))
    >>> ChainFeatures(1, 1, "context", layers=3)(prompt)  # 1, S and S² times x_q β
    Array([3., 3., 3.], dtype=float64)
    """

    layers: int = 1

    @property
    def size(self) -> int:
        return gd_features(self.dim, self.layers)

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        x, y = prompt.x * prompt.mask[:, None], prompt.y[:, 0] * prompt.mask
        scale = attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))
        entries = (x.T @ x * scale)[np.triu_indices(self.dim)]
        outer = jnp.outer(prompt.query, x.T @ y * scale).ravel()
        parts = []
        for degree in range(self.layers):
            products = jnp.prod(entries[monomials(len(entries), degree)], -1)
            parts.append(jnp.outer(products, outer).ravel())
        return jnp.concatenate(parts)

    def fold(self, matrices: Sequence[Float[Array, "dim dim"]]) -> Float[Array, "feature output"]:
        """The coefficients of layers A_1, …, A_L.

        Args:
            matrices: A_l of every layer.

        Returns:
            (feature, 1) the coefficients.
        """
        dim, parts = self.dim, []
        for degree in range(self.layers):
            place = _places(dim, degree)
            count = math.comb(dim * (dim + 1) // 2 + degree - 1, degree)
            chain = jnp.zeros((len(place), dim, dim), matrices[0].dtype)
            for chosen in itertools.combinations(matrices, degree + 1):
                # x_j A_{l_m}ᵀ[j, i_1] S[i_1, j_1] A[j_1, i_2] … A_{l_1}ᵀ[j_p, i] β_i, entries (i_1 j_1) … first
                tensor = chosen[-1].T[None]
                for a in reversed(chosen[:-1]):
                    tensor = jnp.einsum("ejk,li->ekjli", tensor, a.T).swapaxes(2, 3)
                    tensor = tensor.reshape(-1, dim, dim)
                chain = chain + (-1.0) ** degree * tensor
            parts.append(jnp.zeros((count, dim, dim), chain.dtype).at[place].add(chain).ravel())
        return jnp.concatenate(parts)[:, None]


@dataclass(frozen=True)
class CurvedFeatures(ChainFeatures):
    """`ChainFeatures` of blocks ``sparse``: monomials of S of degree < (3^L − 1)/2, times x_q ⊗ β.

    Args:
        layers: (3^L − 1)/2 of L layers.

    >>> CurvedFeatures(2, 1, "context", layers=4).size  # two layers
    80
    """

    @property
    def by_default(self) -> bool:
        return False

    def unfold(self, gain: MatrixPolynomial) -> Float[Array, "feature output"]:
        """The coefficients of ŷ = x_qᵀ g(S) β.

        Args:
            gain: g.

        Returns:
            (feature, 1) the coefficients.
        """
        return gain.coefficients.reshape(self.size, 1)


@dataclass(frozen=True)
class GramMonomials(AbstractFeatureMap):
    """Monomials of degree 1, …, `degree` of the entries of G, times x_q: what layers of blocks ``full`` read.

    Args:
        degree: (3^L − 1)/2 of L layers.

    >>> GramMonomials(2, 1, "none", degree=4).size  # two layers
    418
    """

    degree: int = 1

    @property
    def by_default(self) -> bool:
        return False

    @property
    def size(self) -> int:
        pairs = (self.dim + 1) * (self.dim + 2) // 2
        return self.dim * (math.comb(pairs + self.degree, self.degree) - 1)

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        tokens = jnp.concatenate([prompt.x, prompt.y], -1) * prompt.mask[:, None]
        scale = attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))
        entries = (tokens.T @ tokens * scale)[np.triu_indices(self.dim + 1)]
        every = [jnp.prod(entries[monomials(len(entries), degree)], -1) for degree in range(1, self.degree + 1)]
        return jnp.outer(jnp.concatenate(every), prompt.query).ravel()

    def unfold(self, whole: MatrixPolynomial) -> Float[Array, "feature output"]:
        """The coefficients of minus the label entry of P(G) [x_q; 0].

        Args:
            whole: P, the product of all layers.

        Returns:
            (feature, 1) the coefficients.
        """
        return -whole.coefficients[1:, -1, : self.dim].reshape(self.size, 1)
