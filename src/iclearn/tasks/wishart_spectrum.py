"""The spectrum of S = (1/N) Σ x xᵀ for N standard normal inputs: exact moments of any order and a Gauss quadrature.

m_k = E tr S^k from zonal polynomials. In the power sum p_k only partitions λ with λ_3 ≤ 1 occur, because the
coefficient of p_k in the Jack polynomial J_λ (α = 2) is Π' (2(j−1) − (i−1)) over the boxes (i, j) of λ but (1, 1),
which vanishes when the box (3, 2) is there (Macdonald, Symmetric Functions and Hall Polynomials, VI.10). With the
expectation of J_λ under a Wishart law, Π (N − (i−1) + 2(j−1)) J_λ(I), that leaves O(k²) rational terms:

    N^k m_k = Σ_λ 2k Π' (2(j−1) − (i−1)) / h_λ · Π (d − (i−1) + 2(j−1)) (N − (i−1) + 2(j−1)),

h_λ = Π (2a + l + 1)(2a + l + 2) over arms a and legs l. A measure with these moments has Gauss nodes and weights for
which Σ_k weight_k f(node_k) = E tr f(S) exactly for polynomials f of degree < 2 nodes.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.checks import check_int

_DIGITS = 40  # beyond those that the condition of the moments takes, about 8 a node


class SpectralQuadrature(NamedTuple):
    """Nodes and weights with Σ_k weights_k f(nodes_k) = E tr f(S) for polynomials of degree < 2 · len(nodes).

    Args:
        nodes: (node) eigenvalues.
        weights: (node) positive, of sum d.

    >>> rule = spectral_quadrature(dim=5, context_len=20, nodes=4)
    >>> round(float(rule.weights @ rule.nodes**3), 12)
    10.05
    """

    nodes: np.ndarray
    weights: np.ndarray


def spectral_moments(dim: int, context_len: int, count: int) -> tuple[Fraction, ...]:
    """m_0, …, m_{count−1} with m_k = E tr S^k, exactly.

    Args:
        dim: d.
        context_len: N; may be less than d.
        count: how many moments.

    Returns:
        The moments.

    >>> [str(m) for m in spectral_moments(5, 20, 4)]
    ['5', '5', '13/2', '201/20']
    """
    check_int("dim", dim, 1)
    check_int("context_len", context_len, 1)
    return tuple(Fraction(dim) if k == 0 else _moment(dim, context_len, k) for k in range(count))


@lru_cache(maxsize=4096)
def _moment(dim: int, context: int, order: int) -> Fraction:
    total = Fraction(0)
    for first in range(1, order + 1):
        for second in range(min(first, order - first) + 1):
            ones = order - first - second
            if second == 0 and ones > 0:
                continue  # the parts after an empty one are empty
            rows = [first, *([second] if second else []), *([1] * ones)]
            if len(rows) <= min(dim, context):  # E J_λ vanishes for longer ones
                total += _term(rows, dim, context)
    return 2 * order * total / Fraction(context) ** order


def _term(rows: list[int], dim: int, context: int) -> Fraction:
    """Π' (2(j−1) − (i−1)) Π (d − i + 1 + 2(j−1))(N − i + 1 + 2(j−1)) / h_λ for one partition."""
    top = bottom = 1
    for i, length in enumerate(rows):
        for j in range(length):
            leg = sum(1 for below in rows[i + 1 :] if below > j)
            arm = length - j - 1
            top *= (2 * j - i if (i, j) != (0, 0) else 1) * (dim - i + 2 * j) * (context - i + 2 * j)
            bottom *= (2 * arm + leg + 1) * (2 * arm + leg + 2)
    return Fraction(top, bottom)


@lru_cache(maxsize=256)
def spectral_quadrature(dim: int, context_len: int, nodes: int) -> SpectralQuadrature:
    """The Gauss quadrature of the mean spectral measure of S.

    Coefficients of the orthogonal polynomials come from exact moments by Chebyshev's algorithm in many digits; nodes
    are refined and weights computed in the same digits, because weights far out in the tail are tiny and matter.

    Args:
        dim: d.
        context_len: N ≥ 1.
        nodes: how many.

    Returns:
        Nodes, increasing, and weights in double precision.
    """
    check_int("nodes", nodes, 1)
    moments = spectral_moments(dim, context_len, 2 * nodes)
    with localcontext() as context:
        context.prec = _DIGITS + 8 * nodes
        exact = [Decimal(m.numerator) / Decimal(m.denominator) for m in moments]
        centers, squares = _chebyshev(exact, nodes)
        diagonal = np.array([float(a) for a in centers])
        off = np.sqrt(np.array([float(b) for b in squares[1:]]))
        from scipy.linalg import eigh_tridiagonal  # takes a tenth of a second to import

        starts = eigh_tridiagonal(diagonal, off, eigvals_only=True) if nodes > 1 else diagonal
        pairs = [_node(Decimal(float(start)), centers, squares) for start in starts]
        found = sorted((float(node), float(weight)) for node, weight in pairs)
    return SpectralQuadrature(np.array([n for n, _ in found]), np.array([w for _, w in found]))


def _chebyshev(moments: list[Decimal], nodes: int) -> tuple[list[Decimal], list[Decimal]]:
    """Recurrence p_{k+1} = (x − a_k) p_k − b_k p_{k−1} of the monic orthogonal polynomials, from 2·nodes moments."""
    before, row = [Decimal(0)] * len(moments), list(moments)
    centers, squares = [moments[1] / moments[0]], [moments[0]]
    for k in range(1, nodes):
        new = [Decimal(0)] * len(moments)
        for index in range(k, len(moments) - k):
            new[index] = row[index + 1] - centers[-1] * row[index] - squares[-1] * before[index] * (k > 1)
        centers.append(new[k + 1] / new[k] - row[k] / row[k - 1])
        squares.append(new[k] / row[k - 1])
        before, row = row, new
    return centers, squares


def _node(start: Decimal, centers: list[Decimal], squares: list[Decimal]) -> tuple[Decimal, Decimal]:
    """The zero of the last polynomial near `start`, by Newton's method, and its weight 1/Σ p_k²/‖p_k‖²."""
    x, total = start, Decimal(1)
    for _ in range(60):
        value, slope, old, old_slope = Decimal(1), Decimal(0), Decimal(0), Decimal(0)
        norm, total = squares[0], Decimal(1) / squares[0]
        for k, center in enumerate(centers):
            square = squares[k] if k else Decimal(0)
            new = (x - center) * value - square * old
            new_slope = value + (x - center) * slope - square * old_slope
            value, slope, old, old_slope = new, new_slope, value, slope
            if k + 1 < len(centers):
                norm *= squares[k + 1]
                total += value * value / norm
        step = value / slope
        x -= step
        if abs(step) < abs(x) * Decimal(10) ** -_DIGITS:
            break
    return x, Decimal(1) / total
