"""Spectra of task covariances by name: isotropic, power law, linear, flat on a subspace, a spike."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from ...core.checks import check_choice, check_int
from ...core.errors import IclearnError
from ...tasks.task_covariance import TaskCovariance

NAMED = Literal["isotropic", "power", "linear", "flat", "spike"]


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
    floor = ["0"] if kind == "spike" and len(rest) == 1 else []
    try:
        check_choice("spectrum", kind, NAMED)
        return TaskCovariance(cast(Any, kind), tuple(float(value) for value in (*rest, *floor))).values(dim)
    except (ValueError, OverflowError, IclearnError) as error:
        allowed = "isotropic, power:P, linear, flat:M (1 ≤ M ≤ dim), spike:I or spike:I:F (0 ≤ F, index I below dim)"
        raise IclearnError(f"a spectrum of {dim} eigenvalues is one of {allowed}, not {name!r}") from error
