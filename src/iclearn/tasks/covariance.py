"""Covariances of the inputs: named spectra, explicit ones, rotations, trace normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import check_choice
from ..core.errors import IclearnError
from ..core.rng import random_rotation
from ..core.spec import Spec

Shape = Literal["linear", "white", "power", "two_level", "spiked", "eigenvalues", "matrix"]
_PARAMETERS = {"linear": 0, "white": 0, "power": 1, "two_level": 2, "spiked": 1}


@dataclass(frozen=True)
class Covariance(Spec, kind="covariance"):
    """Covariance Λ of the inputs. Make one with `linear`, `white`, `power`, `two_level`, `spiked`, `eigenvalues` or
    `matrix`.

    Eigenvalues are kept in decreasing order. `trace` normalizes their sum (None: leave them); `rotate` turns the
    eigenvectors by a random orthogonal matrix from the seed's ``covariance`` stream.

    >>> Covariance.linear().values(4)
    array([0.4, 0.3, 0.2, 0.1])
    """

    shape: Shape = "linear"
    parameters: tuple[float, ...] = ()
    rotate: bool = True
    trace: float | None = 1.0

    def __post_init__(self) -> None:
        check_choice("covariance shape", self.shape, Shape)
        object.__setattr__(self, "parameters", tuple(float(v) for v in self.parameters))
        needed = _PARAMETERS.get(self.shape, len(self.parameters))
        if len(self.parameters) != needed:
            raise IclearnError(f"covariance {self.shape} takes {needed} parameters, not {len(self.parameters)}")
        if self.shape == "two_level" and not self.parameters[0].is_integer():
            raise IclearnError(f"two_level needs a whole number of large eigenvalues, not {self.parameters[0]}")
        if self.trace is not None and not self.trace > 0:
            raise IclearnError(f"the trace must be positive, not {self.trace}")

    @staticmethod
    def linear(*, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """λ_d ∝ d, the public code's default."""
        return Covariance("linear", (), rotate, trace)

    @staticmethod
    def white(*, trace: float | None = 1.0) -> Covariance:
        """All eigenvalues equal; with ``trace=None`` the identity."""
        return Covariance("white", (), False, trace)

    @staticmethod
    def power(exponent: float = 1.0, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """λ_d ∝ d^-exponent."""
        return Covariance("power", (float(exponent),), rotate, trace)

    @staticmethod
    def two_level(num_large: int, ratio: float, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """`num_large` eigenvalues `ratio` times as large as the others."""
        return Covariance("two_level", (float(num_large), float(ratio)), rotate, trace)

    @staticmethod
    def spiked(spike: float, *, rotate: bool = True, trace: float | None = 1.0) -> Covariance:
        """The identity with one eigenvalue raised to 1 + `spike`."""
        return Covariance("spiked", (float(spike),), rotate, trace)

    @staticmethod
    def eigenvalues(values: Sequence[float], *, rotate: bool = False, trace: float | None = None) -> Covariance:
        """Exactly these eigenvalues, in any order."""
        return Covariance("eigenvalues", tuple(float(v) for v in values), rotate, trace)

    @staticmethod
    def matrix(entries: Sequence[Sequence[float]] | np.ndarray, *, trace: float | None = None) -> Covariance:
        """Exactly this symmetric positive definite matrix."""
        array = np.asarray(entries, float)
        if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.allclose(array, array.T):
            raise IclearnError(f"a covariance matrix must be square and symmetric, not of shape {array.shape}")
        return Covariance("matrix", tuple(float(v) for v in array.ravel()), False, trace)

    def _as_matrix(self, dim: int) -> np.ndarray:
        if len(self.parameters) != dim * dim:
            raise IclearnError(f"a covariance matrix of {len(self.parameters)} entries does not fit dim {dim}")
        return np.array(self.parameters).reshape(dim, dim)

    def _raw_values(self, dim: int, xp: Any) -> Any:
        """Eigenvalues before they are ordered and scaled, by numpy, or by jax.numpy where parameters are traced."""
        ranks = np.arange(1, dim + 1, dtype=float)
        match self.shape:
            case "linear":
                return ranks
            case "white":
                return np.ones(dim)
            case "power":
                return xp.asarray(ranks) ** -self.parameters[0]
            case "two_level":
                return xp.where(ranks <= self.parameters[0], self.parameters[1], 1.0)
            case "spiked":
                return xp.where(ranks == 1, 1 + self.parameters[0], 1.0)
            case "eigenvalues":
                return xp.asarray(self.parameters)
            case "matrix":
                return np.linalg.eigvalsh(self._as_matrix(dim))

    def values(self, dim: int) -> np.ndarray:
        """The eigenvalues λ_1 ≥ … ≥ λ_dim."""
        if self.shape == "two_level" and not 0 < self.parameters[0] < dim:
            count = int(self.parameters[0])
            raise IclearnError(f"two_level needs between 1 and {dim - 1} large eigenvalues, not {count}")
        if self.shape == "eigenvalues" and len(self.parameters) != dim:
            raise IclearnError(f"{len(self.parameters)} eigenvalues were given for dim {dim}")
        raw = self._raw_values(dim, np)
        if not (np.isfinite(raw).all() and (raw > 0).all()):
            raise IclearnError(f"eigenvalues must be positive, not {np.round(raw, 6).tolist()}")
        raw = np.sort(raw)[::-1]
        return raw if self.trace is None else raw * (self.trace / raw.sum())

    def traceable_fields(self) -> frozenset[str]:
        """Fields that only change eigenvalues: `two_level` counts them, `matrix` turns the eigenvectors."""
        smooth = {"parameters"} if self.shape in ("power", "spiked", "eigenvalues") else set()
        return frozenset({"trace", *smooth})

    @property
    def diagonal(self) -> bool:
        """Whether the eigenvectors are the axes."""
        return not self.rotate and self.shape != "matrix"

    def _traced_values(self, dim: int) -> Float[Array, " dim"]:
        """`values` for traced numbers, which were checked before they were traced."""
        raw = jnp.sort(jnp.asarray(self._raw_values(dim, jnp), jnp.float64))[::-1]
        return raw if self.trace is None else raw * (self.trace / raw.sum())

    def factor(self, dim: int, key: Key[Array, ""]) -> Float[Array, "dim dim"]:
        """A with Λ = A Aᵀ: eigenvectors in the order of `values`, each times the root of its eigenvalue."""
        if isinstance(self.parameters, jax.Array) or isinstance(self.trace, jax.Array):
            roots = jnp.sqrt(self._traced_values(dim))
            return random_rotation(key, dim) * roots if self.rotate else jnp.diag(roots)
        roots = np.sqrt(self.values(dim))
        if self.shape == "matrix":
            return jnp.asarray(np.linalg.eigh(self._as_matrix(dim))[1][:, ::-1] * roots)
        if self.rotate:
            return random_rotation(key, dim) * roots
        return jnp.asarray(np.diag(roots))
