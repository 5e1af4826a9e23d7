"""Covariances of the inputs: named spectra, explicit ones, rotations, trace normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import as_numbers, require
from ..core.errors import IclearnError
from ..core.forms import as_array, numpy_of
from ..core.rng import random_rotation
from ..core.spec import Spec

Shape = Literal["linear", "white", "power", "two_level", "spiked", "eigenvalues", "matrix"]
MOST_DIM = 100_000
_MOST_TRACE = float(np.finfo(float).max ** (1 / 3))  # losses hold products of three eigenvalues
_PARAMETERS = {"linear": 0, "white": 0, "power": 1, "two_level": 2, "spiked": 1}

# (1..dim, parameters, numpy or jax.numpy where parameters are traced) → eigenvalues before they are ordered and scaled
_SPECTRA: dict[str, Callable[[np.ndarray, Any, Any], Any]] = {
    "linear": lambda ranks, p, xp: ranks,
    "white": lambda ranks, p, xp: np.ones(len(ranks)),
    "power": lambda ranks, p, xp: xp.asarray(ranks) ** -p[0],
    "two_level": lambda ranks, p, xp: xp.where(ranks <= p[0], p[1], 1.0),
    "spiked": lambda ranks, p, xp: xp.where(ranks == 1, 1 + p[0], 1.0),
    "eigenvalues": lambda ranks, p, xp: xp.asarray(p),
    "matrix": lambda ranks, p, xp: np.linalg.eigvalsh(np.reshape(p, (len(ranks), len(ranks)))),
}


@dataclass(frozen=True)
class Covariance(Spec, kind="covariance"):
    """Covariance Λ of the inputs, made by `linear`, `white`, `power`, `two_level`, `spiked`, `eigenvalues` or `matrix`.

    Args:
        shape: name of the spectrum.
        parameters: its numbers, as the function of that name explains them.
        rotate: whether to turn the eigenvectors by a random orthogonal matrix from the seed's ``covariance`` stream
            (else they are the axes).
        trace: the sum of the eigenvalues, to which they are scaled (None: they stay as they are).

    >>> Covariance.linear().values(4)
    array([0.4, 0.3, 0.2, 0.1])
    """

    how_to_make: ClassVar[str] = "Covariance.matrix(array) or Covariance.eigenvalues(values)"

    shape: Shape = "linear"
    parameters: tuple[float, ...] = ()
    rotate: bool = True
    trace: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(float(v) for v in self.parameters))
        given = len(self.parameters)
        needed = _PARAMETERS.get(self.shape, given)
        require(given == needed, f"covariance {self.shape} takes {needed} parameters, not {given}")
        if self.shape == "two_level":
            count = self.parameters[0]
            require(count.is_integer(), f"two_level needs a whole number of large eigenvalues, not {count}")
        require(self.trace is None or self.trace > 0, f"the trace must be positive, not {self.trace}")

    @staticmethod
    def linear(*, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """λ_d ∝ d, the public code's default. For `rotate` and `trace` see `Covariance`."""
        return Covariance("linear", (), rotate, trace)

    @staticmethod
    def white(*, trace: float | None = 1.0) -> Covariance:
        """All eigenvalues equal; with ``trace=None`` the identity."""
        return Covariance("white", (), False, trace)

    @staticmethod
    def power(exponent: float = 1.0, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """λ_d ∝ d^−exponent. For `rotate` and `trace` see `Covariance`."""
        return Covariance("power", (exponent,), rotate, trace)

    @staticmethod
    def two_level(num_large: int, ratio: float, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """`num_large` eigenvalues `ratio` times as large as the others. For `rotate` and `trace` see `Covariance`."""
        return Covariance("two_level", (num_large, ratio), rotate, trace)

    @staticmethod
    def spiked(spike: float, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """The identity with one eigenvalue raised to 1 + `spike`. For `rotate` and `trace` see `Covariance`."""
        return Covariance("spiked", (spike,), rotate, trace)

    @staticmethod
    def eigenvalues(values: Sequence[float], *, rotate: bool = False, trace: float | None = None) -> Covariance:
        """Exactly these eigenvalues, in any order. For `rotate` and `trace` see `Covariance`."""
        return Covariance("eigenvalues", tuple(as_numbers("eigenvalues", values, 1).tolist()), rotate, trace)

    @staticmethod
    def matrix(entries: Sequence[Sequence[float]] | np.ndarray, *, trace: float | None = None) -> Covariance:
        """Exactly this symmetric positive definite matrix (dim, dim), scaled to `trace` if that is given."""
        array = as_numbers("a covariance matrix", entries)
        symmetric = array.ndim == 2 and array.shape[0] == array.shape[1] and np.allclose(array, array.T)
        require(symmetric, f"a covariance matrix must be square and symmetric, not of shape {array.shape}")
        return Covariance("matrix", tuple(array.ravel()), False, trace)

    def _raw_values(self, dim: int, xp: Any) -> Any:
        """Eigenvalues before they are ordered and scaled, by numpy, or by jax.numpy where parameters are traced."""
        return _SPECTRA[self.shape](np.arange(1, dim + 1, dtype=float), self.parameters, xp)

    def _scaled(self, raw: Any, xp: Any) -> Any:
        raw = xp.sort(raw)[::-1]
        return raw if self.trace is None else raw * (self.trace / raw.sum())

    def values(self, dim: int) -> np.ndarray:
        """The eigenvalues; a spectrum that does not fit the dimension is refused.

        Args:
            dim: dimension of the inputs.

        Returns:
            (dim) λ_1 ≥ … ≥ λ_dim > 0.
        """
        count = len(self.parameters)
        require(dim <= MOST_DIM, f"dim must be at most {MOST_DIM}, not {dim}: a covariance has dim² entries")
        if self.shape == "two_level":
            large = int(self.parameters[0])
            require(0 < large < dim, f"two_level needs between 1 and {dim - 1} large eigenvalues, not {large}")
        if self.shape == "eigenvalues":
            require(count == dim, f"{count} eigenvalues were given for dim {dim}")
        if self.shape == "matrix":
            require(count == dim * dim, f"a covariance matrix of {count} entries does not fit dim {dim}")
        raw = self._raw_values(dim, np)
        if not (np.isfinite(raw).all() and (raw > 0).all()):
            raise IclearnError(f"eigenvalues must be positive, not {np.round(raw, 6).tolist()}")
        values = self._scaled(raw, np)
        large = f"the sum of the eigenvalues must be at most {_MOST_TRACE:.3g}; the largest is {values[0]:.3g}"
        require(values[0] <= _MOST_TRACE / dim, large)
        return values

    def traceable_fields(self) -> frozenset[str]:
        """Fields that only change eigenvalues: `two_level` counts them, `matrix` turns the eigenvectors."""
        smooth = {"parameters"} if self.shape in ("power", "spiked", "eigenvalues") else set()
        return frozenset({"trace", *smooth})

    @property
    def diagonal(self) -> bool:
        """Whether the eigenvectors are the axes."""
        return not self.rotate and self.shape != "matrix"

    def factor(self, dim: int, key: Key[Array, ""]) -> Float[Array, "dim dim"]:
        """A with Λ = A Aᵀ. Parameters and trace may be traced; they were checked before.

        Args:
            dim: dimension of the inputs.
            key: from which the rotation is drawn.

        Returns:
            (dim, dim) the eigenvectors as columns in the order of `values`, each times the root of its eigenvalue.
        """
        roots: Any
        if isinstance(self.parameters, jax.Array) or isinstance(self.trace, jax.Array):
            roots = jnp.sqrt(self._scaled(jnp.asarray(self._raw_values(dim, jnp), jnp.float64), jnp))
        else:
            roots = np.sqrt(self.values(dim))
        if self.shape == "matrix":
            return as_array(np.linalg.eigh(np.reshape(self.parameters, (dim, dim)))[1][:, ::-1] * roots)
        if not self.rotate:
            return as_array(numpy_of(roots).diag(roots))
        rotation = random_rotation(key, dim)
        with np.errstate(all="ignore"):  # as JAX: what overflows is infinite
            return as_array(numpy_of(rotation, roots).asarray(rotation) * roots)
