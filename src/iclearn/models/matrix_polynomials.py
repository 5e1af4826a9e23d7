"""Matrices whose entries are polynomials of the entries of a symmetric matrix, kept as coefficients.

This is how the coefficients of a deep linear transformer come out of its weights: a layer multiplies, transposes and
adds such matrices, starting from the symmetric matrix itself. Products are folded over monomials: a·b and b·a are one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import jax_settings as jax_settings


@lru_cache(maxsize=64)
def monomials(variables: int, degree: int) -> np.ndarray:
    """(monomial, degree) the variables of every monomial of a degree, in lexicographic order.

    >>> monomials(2, 2).tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    chosen = list(itertools.combinations_with_replacement(range(variables), degree))
    return np.array(chosen, int).reshape(len(chosen), degree)


@lru_cache(maxsize=64)
def _exponents(variables: int, degree: int) -> np.ndarray:
    """(monomial, variable) the exponents of all monomials up to a degree, degree by degree."""
    tables = [monomials(variables, n) for n in range(degree + 1)]
    return np.concatenate([(t[:, :, None] == np.arange(variables)).sum(1) for t in tables]).astype(np.int16)


@lru_cache(maxsize=256)
def product_places(variables: int, first: int, second: int) -> np.ndarray:
    """Where the products of all monomials up to two degrees are among those up to their sum, first × second, flat.

    >>> product_places(2, 1, 1).tolist()  # 1, a, b times 1, a, b among 1, a, b, aa, ab, bb
    [0, 1, 2, 1, 3, 4, 2, 4, 5]
    """
    places = {row.tobytes(): place for place, row in enumerate(_exponents(variables, first + second))}
    sums = _exponents(variables, first)[:, None] + _exponents(variables, second)[None]
    return np.array([places[row.tobytes()] for row in sums.reshape(-1, variables)])


@dataclass(frozen=True)
class MatrixPolynomial:
    """A matrix of polynomials.

    Args:
        coefficients: (monomial, row, column) of all monomials up to `degree`, degree by degree.
        degree: the largest degree.
        variables: how many variables there are.

    >>> square = symmetric_matrix(2, jnp.float64) @ symmetric_matrix(2, jnp.float64)
    >>> np.flatnonzero(square.coefficients[:, 0, 0]).tolist()  # S_00² + S_01²; 1, three variables, six squares
    [4, 7]
    """

    coefficients: Float[Array, "monomial row column"]
    degree: int
    variables: int

    def _up_to(self, degree: int) -> Float[Array, "monomial row column"]:
        missing = math.comb(self.variables + degree, degree) - len(self.coefficients)
        return jnp.pad(self.coefficients, ((0, missing), (0, 0), (0, 0)))

    def __add__(self, other: MatrixPolynomial) -> MatrixPolynomial:
        degree = max(self.degree, other.degree)
        return MatrixPolynomial(self._up_to(degree) + other._up_to(degree), degree, self.variables)

    def __sub__(self, other: MatrixPolynomial) -> MatrixPolynomial:
        return self + MatrixPolynomial(-other.coefficients, other.degree, other.variables)

    @property
    def T(self) -> MatrixPolynomial:
        """The transpose."""
        return MatrixPolynomial(jnp.swapaxes(self.coefficients, 1, 2), self.degree, self.variables)

    def __matmul__(self, other: MatrixPolynomial) -> MatrixPolynomial:
        every = jnp.einsum("aij,bjk->abik", self.coefficients, other.coefficients)
        degree, shape = self.degree + other.degree, every.shape[2:]
        count = math.comb(self.variables + degree, degree)
        where = product_places(self.variables, self.degree, other.degree)
        folded = jnp.zeros((count, *shape), every.dtype).at[where].add(every.reshape(-1, *shape))
        return MatrixPolynomial(folded, degree, self.variables)

    def between(self, left: Float[Array, "row dim"], right: Float[Array, "dim column"]) -> MatrixPolynomial:
        """The polynomial between two matrices of numbers.

        Args:
            left: (row, dim).
            right: (dim, column).

        Returns:
            left · self · right.
        """
        return MatrixPolynomial(left @ self.coefficients @ right, self.degree, self.variables)


def constant(matrix: Float[Array, "row column"], variables: int) -> MatrixPolynomial:
    """A matrix of numbers as polynomials of degree zero."""
    return MatrixPolynomial(matrix[None], 0, variables)


def symmetric_matrix(dim: int, dtype: Any) -> MatrixPolynomial:
    """The symmetric matrix S of `dim` rows itself; its variables are the entries i ≤ j, row by row."""
    rows, cols = np.triu_indices(dim)
    part = np.zeros((len(rows) + 1, dim, dim))
    place = np.arange(len(rows)) + 1
    part[place, rows, cols] = part[place, cols, rows] = 1.0
    return MatrixPolynomial(jnp.asarray(part, dtype), 1, len(rows))
