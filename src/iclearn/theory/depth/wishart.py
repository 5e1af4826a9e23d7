"""Moments m_k = E tr S^k of S = (1/N) Σ x xᵀ, x ~ N(0, I_d), by two routes that share nothing with `tasks`.

Recursion. For products of traces of W = N S, integration by parts gives

    E[tr W^{k+1} Q] = (N + k) E[tr W^k Q] + Σ_{i<k} E[tr W^{i+1} tr W^{k−1−i} Q]
                      + Σ_j 2 n_j E[tr W^{k+n_j} Q / tr W^{n_j}]

with Q = Π_j tr W^{n_j} and tr W⁰ = d, in integers. Always reducing the smallest exponent keeps the terms few.

Pfaffian. By de Bruijn's formula the normalization of the eigenvalue density is the Pfaffian of
A_ij = ∬ sgn(y − x) x^i y^j (xy)^α e^{−(x+y)/2} dx dy, α = (N − d − 1)/2, bordered by ∫ x^{i+α} e^{−x/2} dx for odd d;
its logarithmic derivative along the weight x^k is N^k m_k = ½ tr(A⁻¹ dA). Up to factors that cancel, A is rational.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache

from ...core.checks import check_int, require


def recursion_moments(dim: int, context_len: int, count: int) -> tuple[Fraction, ...]:
    """m_0, …, m_{count−1} by the recursion.

    Args:
        dim: d.
        context_len: N.
        count: how many, at most 81.

    Returns:
        The moments, exactly.

    >>> [float(m) for m in recursion_moments(5, 20, 5)]
    [5.0, 5.0, 6.5, 10.05, 17.45]
    """
    check_int("dim", dim, 1)
    check_int("context_len", context_len, 1)
    require(count <= 81, f"the recursion goes up to moment 80, not {count - 1}: use tasks.wishart_spectrum")
    expect = _expectations(dim, context_len)
    return tuple(Fraction(expect((k,)), context_len**k) for k in range(count))


@lru_cache(maxsize=16)
def _expectations(dim: int, context: int):  # type: ignore[no-untyped-def]
    """E of products of traces of W, as a function of the decreasing tuple of their exponents."""

    @cache
    def expect(parts: tuple[int, ...]) -> int:
        factor = dim ** sum(1 for n in parts if n == 0)
        parts = tuple(n for n in parts if n > 0)
        if not parts:
            return factor
        k, rest = parts[-1] - 1, parts[:-1]  # the smallest part, which keeps the others few
        total = (context + k) * expect(_sorted((k, *rest)))
        total += sum(expect(_sorted((i + 1, k - 1 - i, *rest))) for i in range(k))
        for j, n in enumerate(rest):
            total += 2 * n * expect(_sorted((k + n, *rest[:j], *rest[j + 1 :])))
        return factor * total

    return expect


def _sorted(parts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(parts, reverse=True))


def pfaffian_moments(dim: int, context_len: int, count: int) -> tuple[Fraction, ...]:
    """m_0, …, m_{count−1} by de Bruijn's Pfaffian.

    Args:
        dim: d.
        context_len: N.
        count: how many.

    Returns:
        The moments, exactly.

    >>> pfaffian_moments(5, 20, 4) == recursion_moments(5, 20, 4)
    True
    """
    check_int("dim", dim, 1)
    check_int("context_len", context_len, 1)
    small, large = min(dim, context_len), max(dim, context_len)  # W and its other Gram matrix share their eigenvalues
    size = small + small % 2
    inverse = _inverse(_skew(small, large, 0))
    found = [Fraction(dim)]
    for k in range(1, count):
        change = _skew(small, large, k)
        trace = sum(inverse[i][j] * change[j][i] for i in range(size) for j in range(size))
        found.append(trace / 2 / context_len**k)
    return tuple(found)


def _skew(dim: int, context: int, power: int) -> list[list[Fraction]]:
    """A, or for power k > 0 its derivative along the weight x^k, both over the common factor 2^{2α+2} Γ(α+1)²."""
    size = dim + dim % 2
    table = [[Fraction(0)] * size for _ in range(size)]
    for i in range(dim):
        for j in range(dim):
            if power == 0:
                table[i][j] = _pair(i, j, context - dim + 1)
            else:
                table[i][j] = _pair(i + power, j, context - dim + 1) + _pair(i, j + power, context - dim + 1)
        if dim % 2:
            table[i][dim] = _rising(i + power, context - dim + 1)
            table[dim][i] = -table[i][dim]
    return table


@cache
def _rising(i: int, twice: int) -> Fraction:
    """∫ x^{i+α} e^{−x/2} dx over 2^{α+1} Γ(α+1): 2^i (α+1)(α+2)…(α+i), with twice = 2(α+1)."""
    value = Fraction(1)
    for step in range(i):
        value *= twice + 2 * step
    return value


@cache
def _pair(i: int, j: int, twice: int) -> Fraction:
    """A_ij over 2^{2α+2} Γ(α+1)², which is rational up to a factor that does not depend on i and j.

    A_ij = 2^{u+v} Γ(u)Γ(v) (1 − 2 I_{1/2}(v, u)) with u = i+α+1, v = j+α+1. It vanishes for i = j, and
    I_x(v+1, u) = I_x(v, u) − x^v (1−x)^u Γ(u+v)/(Γ(v+1)Γ(u)) takes it from there.
    """
    if i == j:
        return Fraction(0)
    if j < i:
        return -_pair(j, i, twice)
    # j > i: the step from (i, j − 1) to (i, j) multiplies 2^v Γ(v) by 2(v − 1) = twice + 2(j − 1) and adds
    # 2^{u+v} Γ(u)Γ(v) · 2 · 2^{−(u+v−1)} Γ(u+v−1)/(Γ(v)Γ(u)) = 4 Γ(u+v−1), in units of 4 Γ(2α+2)
    value = _pair(i, j - 1, twice) * (twice + 2 * (j - 1))
    added = Fraction(1)
    for step in range(i + j - 1):
        added *= twice + step
    return value + added


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a matrix of fractions, by elimination."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(r for r in range(column, size) if rows[r][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column][column]
        rows[column] = [value / lead for value in rows[column]]
        for r in range(size):
            factor = rows[r][column]
            if r != column and factor != 0:
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [row[size:] for row in rows]
