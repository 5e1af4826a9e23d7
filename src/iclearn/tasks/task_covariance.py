"""Covariances of task vectors: any order of eigenvalues, zeros allowed; the eigenvectors are the axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..core.checks import as_numbers, require
from ..core.spec import Spec
from .covariance import MOST_DIM

Spectrum = Literal["isotropic", "power", "linear", "flat", "spike", "eigenvalues"]
_COUNTS = {"isotropic": 0, "power": 1, "linear": 0, "flat": 1, "spike": 2}


def _spike(dim: int, index: float, floor: float) -> np.ndarray:
    values = np.full(dim, floor)
    values[int(index)] = dim - floor * (dim - 1)
    return values


# (dim, parameters) → eigenvalues before they are scaled
_SPECTRA: dict[str, Callable[..., np.ndarray]] = {
    "isotropic": lambda dim: np.ones(dim),
    "power": lambda dim, exponent: np.arange(1.0, dim + 1) ** -exponent,
    "linear": lambda dim: np.arange(dim, 0.0, -1.0),
    "flat": lambda dim, count: (np.arange(dim) < count).astype(float),
    "spike": _spike,
    "eigenvalues": lambda dim, *values: np.array(values),
}


@dataclass(frozen=True)
class TaskCovariance(Spec, kind="task_covariance"):
    """Covariance C of task vectors, made by `isotropic`, `power`, `linear`, `flat`, `spike` or `eigenvalues`.

    Unlike `Covariance`, which is that of the inputs, it keeps the order of its eigenvalues and may have zeros: laws of
    training and of test share their eigenvectors (the axes) and not the order of eigenvalues.

    Args:
        shape: name of the spectrum.
        parameters: its numbers, as the function of that name explains them.
        mean: tr C / dim, to which the eigenvalues are scaled (None: they stay as they are).

    >>> TaskCovariance.spike(-1).values(4)
    array([0., 0., 0., 4.])
    """

    how_to_make: ClassVar[str] = "TaskCovariance.eigenvalues(values)"

    shape: Spectrum = "isotropic"
    parameters: tuple[float, ...] = ()
    mean: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(float(v) for v in self.parameters))
        given = len(self.parameters)
        needed = _COUNTS.get(self.shape, given)
        require(given == needed, f"task covariance {self.shape} takes {needed} parameters, not {given}")
        if self.shape in ("flat", "spike"):
            count = self.parameters[0]
            require(count.is_integer(), f"task covariance {self.shape} needs a whole number first, not {count}")
        require(self.mean is None or self.mean > 0, f"the mean of the eigenvalues must be positive, not {self.mean}")

    @staticmethod
    def isotropic(*, mean: float | None = 1.0) -> TaskCovariance:
        """All eigenvalues equal. For `mean` see `TaskCovariance`."""
        return TaskCovariance("isotropic", (), mean)

    @staticmethod
    def power(exponent: float, *, mean: float | None = 1.0) -> TaskCovariance:
        """c_j ∝ j^−exponent. For `mean` see `TaskCovariance`."""
        return TaskCovariance("power", (exponent,), mean)

    @staticmethod
    def linear(*, mean: float | None = 1.0) -> TaskCovariance:
        """c_j ∝ dim + 1 − j. For `mean` see `TaskCovariance`."""
        return TaskCovariance("linear", (), mean)

    @staticmethod
    def flat(count: int, *, mean: float | None = 1.0) -> TaskCovariance:
        """Equal on the first `count` eigenvectors and 0 on the others. For `mean` see `TaskCovariance`."""
        return TaskCovariance("flat", (count,), mean)

    @staticmethod
    def spike(index: int, floor: float = 0.0, *, mean: float | None = 1.0) -> TaskCovariance:
        """dim − floor·(dim − 1) on one eigenvector and `floor` on all others, before they are scaled to `mean`.

        Args:
            index: of the eigenvector; 0 is the first, −1 the last.
            floor: the other eigenvalues; 0 leaves one direction only.
            mean: see `TaskCovariance`.

        Returns:
            The covariance.
        """
        return TaskCovariance("spike", (index, floor), mean)

    @staticmethod
    def eigenvalues(values: Sequence[float] | np.ndarray, *, mean: float | None = None) -> TaskCovariance:
        """These eigenvalues in this order. For `mean` see `TaskCovariance`."""
        return TaskCovariance("eigenvalues", tuple(as_numbers("eigenvalues", values, 1).tolist()), mean)

    def values(self, dim: int) -> np.ndarray:
        """The eigenvalues; a spectrum that does not fit the dimension is refused.

        Args:
            dim: dimension of the task vectors.

        Returns:
            (dim) c_1, …, c_dim ≥ 0 in the order of the axes, not all of them 0.
        """
        require(dim <= MOST_DIM, f"dim must be at most {MOST_DIM}, not {dim}: a covariance has dim² entries")
        if self.shape == "flat":
            count = int(self.parameters[0])
            require(1 <= count <= dim, f"a flat spectrum needs between 1 and {dim} eigenvectors, not {count}")
        if self.shape == "spike":
            index = int(self.parameters[0])
            require(-dim <= index < dim, f"a spike needs an eigenvector from {-dim} to {dim - 1}, not {index}")
        if self.shape == "eigenvalues":
            require(len(self.parameters) == dim, f"{len(self.parameters)} eigenvalues were given for dim {dim}")
        raw = _SPECTRA[self.shape](dim, *self.parameters)
        fits = np.isfinite(raw).all() and (raw >= 0).all() and (raw > 0).any()
        require(fits, f"eigenvalues must not be negative, and not all 0: {np.round(raw, 6).tolist()}")
        return raw if self.mean is None else raw * (self.mean / raw.mean())

    def equal(self, dim: int) -> bool:
        """Whether all eigenvalues are equal in this dimension."""
        values = self.values(dim)
        return bool(np.all(values == values[0]))
