"""The task of xie2025: linear regression whose weights have a prior with a mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ...core.errors import IclearnError

Vector = Float[np.ndarray, " dim"]


def eigenvalues(matrix: Float[np.ndarray, "dim dim"]) -> Vector:
    """Eigenvalues of a symmetric matrix, at once where it is diagonal.

    Args:
        matrix: (dim, dim).

    Returns:
        (dim) ascending.
    """
    if _is_diagonal(matrix):
        return np.sort(np.diagonal(matrix))
    return np.linalg.eigvalsh(matrix)


def _is_diagonal(matrix: Float[np.ndarray, "dim dim"]) -> bool:
    return np.count_nonzero(matrix) == np.count_nonzero(np.diagonal(matrix))


def product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The product of two matrices (dim, dim), of which a diagonal one scales rows or columns of the other."""
    if _is_diagonal(first):
        return np.diagonal(first)[:, None] * second
    return first * np.diagonal(second) if _is_diagonal(second) else first @ second


def solved(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """matrix⁻¹ values, of a vector or a matrix; at once where `matrix` is diagonal."""
    return (values.T / np.diagonal(matrix)).T if _is_diagonal(matrix) else np.linalg.solve(matrix, values)


def _positive_definite(name: str, value: ArrayLike | None, dim: int) -> np.ndarray:
    matrix = np.eye(dim) if value is None else np.array(value, float)
    if matrix.shape != (dim, dim):
        raise IclearnError(f"{name} has shape {matrix.shape}; a prior mean of {dim} entries needs ({dim}, {dim})")
    if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max() > 1e-10 * np.abs(matrix).max():
        raise IclearnError(f"{name} must be a finite symmetric matrix")
    matrix = (matrix + matrix.T) / 2
    smallest = eigenvalues(matrix)[0]
    if not smallest > 0:
        raise IclearnError(f"{name} must be positive definite; its smallest eigenvalue is {smallest:.3g}")
    return matrix


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of prompts: x ~ N(0, Λ), w ~ N(w*, Σ), y = w·x + N(0, σ²), and y_q = w·x_q without noise.

    Args:
        mean: (dim) w*, the prior mean.
        context_len: C, the number of context pairs.
        inputs: (dim, dim) Λ (None: identity).
        prior: (dim, dim) Σ (None: identity).
        noise: σ², the variance of the noise on context labels.

    >>> Law(np.array([3.0, 0.0]), context_len=5).dim
    2
    """

    mean: Any
    context_len: int
    inputs: Any = None
    prior: Any = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        mean = np.array(self.mean, float)
        if mean.ndim != 1 or mean.size == 0 or not np.isfinite(mean).all():
            raise IclearnError(f"the prior mean must be a vector of finite numbers, not of shape {mean.shape}")
        if self.context_len < 1:
            raise IclearnError(f"context_len must be at least 1, not {self.context_len}")
        if not 0 <= self.noise < np.inf:
            raise IclearnError(f"the noise variance must be finite and at least 0, not {self.noise}")
        inputs = _positive_definite("the covariance of the inputs", self.inputs, mean.size)
        prior = _positive_definite("the covariance of the prior", self.prior, mean.size)
        for name, array in {"mean": mean, "inputs": inputs, "prior": prior}.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "noise", float(self.noise))

    @staticmethod
    def isotropic(dim: int, context_len: int, prior_norm: float = 0.0, noise: float = 0.0) -> Law:
        """Λ = Σ = I and w* = m·𝟏/√d, the setting of the paper's experiments; `prior_norm` is m = ‖w*‖."""
        if dim < 1:
            raise IclearnError(f"dim must be at least 1, not {dim}")
        if not 0 <= prior_norm < np.inf:
            raise IclearnError(f"the norm of the prior mean must be finite and at least 0, not {prior_norm}")
        return Law(np.full(dim, prior_norm / np.sqrt(dim)), context_len, noise=noise)

    @property
    def dim(self) -> int:
        """d, the dimension of the inputs."""
        return self.mean.size

    @property
    def label_variance(self) -> float:
        """tr(ΛΣ): E(y − w*·x)² without the noise."""
        return float(np.einsum("ij,ji->", self.inputs, self.prior))

    def guess(self, guess: ArrayLike | None) -> Vector:
        """The weights w_q (dim) of the guess g = w_q·x_q in the query's label slot; None is the classical guess 0."""
        weights = np.zeros(self.dim) if guess is None else np.array(guess, float)
        if weights.shape != (self.dim,):
            raise IclearnError(f"the guess has shape {weights.shape}; this task needs ({self.dim},)")
        return weights

    def whitened(self, guess: ArrayLike | None = None) -> tuple[Vector, Float[np.ndarray, "dim dim"]]:
        """Λ^½ (w* − w_q) (dim) and Λ^½ Σ Λ^½ (dim, dim): all that losses depend on, besides C and σ².

        Attention composed with an invertible linear map of the tokens [x; y] is attention again, so inputs may be
        whitened and w* taken off the labels.
        """
        root, prior = self._whitening
        return root @ (self.mean - self.guess(guess)), prior

    @cached_property
    def _whitening(self) -> tuple[np.ndarray, np.ndarray]:
        """Λ^½ and Λ^½ Σ Λ^½."""
        if _is_diagonal(self.inputs):
            scale = np.sqrt(np.diagonal(self.inputs))
            return np.diag(scale), scale[:, None] * self.prior * scale
        values, vectors = np.linalg.eigh(self.inputs)
        root = (vectors * np.sqrt(values)) @ vectors.T
        return root, root @ self.prior @ root

    @cached_property
    def isotropic_scale(self) -> float | None:
        """s where Λ^½ Σ Λ^½ = s·I (rotations then change nothing), None where it is not of this form."""
        _, prior = self.whitened()
        scale = float(np.trace(prior)) / self.dim
        return scale if np.allclose(prior, scale * np.eye(self.dim), rtol=0, atol=1e-12 * scale) else None
