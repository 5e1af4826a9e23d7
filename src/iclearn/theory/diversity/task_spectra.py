"""Spectra of task covariances by name: isotropic, power law, linear, flat on a subspace, a spike."""

from __future__ import annotations

import numpy as np

from ...core.checks import check_int
from ...core.errors import IclearnError


def task_spectrum(name: str, dim: int) -> np.ndarray:
    """The eigenvalues of a covariance of tasks, of mean one.

    Args:
        name: ``isotropic``; ``power:P`` (c_j ∝ j^−P); ``linear`` (c_j ∝ d + 1 − j); ``flat:M`` (the first M, zero
            elsewhere); ``spike:I`` or ``spike:I:F`` (at index I, from 0, negative from the end: d − F(d − 1), all
            others F, 0 where it is left out).
        dim: d.

    Returns:
        (dim) the eigenvalues, in the order of their eigenvectors.

    >>> [task_spectrum(name, 2).tolist() for name in ("flat:1", "spike:-1:0.5")]
    [[2.0, 0.0], [0.5, 1.5]]
    """
    check_int("dim", dim, 1)
    kind, *rest = name.split(":")
    try:
        numbers = [float(value) for value in rest]
        values = _values(kind, numbers, dim)
    except (TypeError, ValueError, IndexError, OverflowError):
        values = None
    if values is None or not np.isfinite(values).all() or values.min() < 0 or not values.sum() > 0:
        allowed = "isotropic, power:P, linear, flat:M (1 ≤ M ≤ dim), spike:I or spike:I:F (0 ≤ F, index I below dim)"
        raise IclearnError(f"a spectrum of {dim} eigenvalues is one of {allowed}, not {name!r}")
    return values * (dim / values.sum())


def _values(kind: str, numbers: list[float], dim: int) -> np.ndarray:
    index = np.arange(1.0, dim + 1)
    if kind == "power":
        return index ** -_only(numbers)
    if kind == "flat":
        return (index <= _whole(_only(numbers), 1, dim)).astype(float)
    if kind == "spike":
        where, floor = numbers if len(numbers) == 2 else (_only(numbers), 0.0)
        values = np.full(dim, floor)
        values[_whole(where, -dim, dim - 1)] = dim - floor * (dim - 1)
        return values
    if kind not in ("isotropic", "linear") or numbers:
        raise ValueError(kind)
    return np.ones(dim) if kind == "isotropic" else index[::-1].copy()


def _only(numbers: list[float]) -> float:
    (number,) = numbers
    return number


def _whole(number: float, least: int, most: int) -> int:
    if number != int(number) or not least <= number <= most:
        raise ValueError(number)
    return int(number)
