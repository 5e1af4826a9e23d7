"""Is a theory the limit of what is measured at finite dim? Judged by the order in 1/d, never by closeness at one d.

The relative excess of the mean error over theory at the same dim is fitted twice, weighted by its standard errors: by
b/d + c/d², which holds the limit at theory, and by a + b/d + c/d², which leaves it free. Theory passes where the first
fit goes through the means and a is zero, both within four standard errors, and where the data could have told:
four standard errors of a are at most `CAP`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..judging import Outcome, Word, worst

ERRORS = 4.0
CAP = 0.15
LEAST = 4  # sizes that a fit of three numbers can be judged with


class Approach(NamedTuple):
    """How means at several dims come to theory.

    Args:
        limit: a, the relative excess left at d = ∞ where the fit is free to leave one.
        limit_error: its standard error.
        residual: the largest distance of a mean from the fit b/d + c/d², in standard errors.
        slope: b of that fit.
    """

    limit: float
    limit_error: float
    residual: float
    slope: float


def approach(dims: Any, excess: Any, errors: Any) -> Approach:
    """Fit the approach to a limit.

    Args:
        dims: (size) d.
        excess: (size) relative excess over the limit.
        errors: (size) its standard errors.

    Returns:
        The fits.

    >>> dims = np.array([10.0, 20.0, 30.0, 40.0])
    >>> found = approach(dims, 2 / dims + 5 / dims**2, 0.01 * np.ones(4))
    >>> round(found.slope, 6), abs(found.limit) < 1e-9, found.residual < 1e-9
    (2.0, True, True)
    """
    dims, excess, errors = (np.asarray(a, float) for a in (dims, excess, errors))
    powers = np.stack([np.ones_like(dims), 1 / dims, 1 / dims**2], 1) / errors[:, None]
    fixed = np.linalg.lstsq(powers[:, 1:], excess / errors)[0]
    free = np.linalg.lstsq(powers, excess / errors)[0]
    spread = np.linalg.inv(powers.T @ powers)[0, 0] ** 0.5
    residual = float(np.abs(excess / errors - powers[:, 1:] @ fixed).max())
    return Approach(float(free[0]), float(spread), residual, float(fixed[0]))


def judge_approach(table: xr.Dataset, **where: Any) -> Outcome:
    """Whether theory is the limit of the means, at every point of a table by `setup.sizes_table`.

    Args:
        table: (dim, …) mean, error, theory.
        where: labels to which the table is cut.

    Returns:
        The worst word over all points, with the point where the limit left free is farthest from theory.
    """
    part = table.sel(**where) if where else table
    part = part.stack(point=[axis for axis in part.dims if axis != "dim"])
    names = [", ".join(map(str, point)) for point in part["point"].values]  # of tuples of labels
    mean, error, theory = (part[name].transpose("dim", "point").values for name in ("mean", "error", "theory"))
    dims = part["dim"].values
    if not (np.isfinite(mean).all() and np.isfinite(theory).all()):
        return Outcome("NaN", "failed")
    if len(dims) < LEAST or not np.isfinite(error).all():
        return Outcome(f"{len(dims)} sizes: at least {LEAST} with two draws each are needed", "unfinished")
    found = [approach(dims, *column) for column in zip((mean / theory - 1).T, (error / theory).T, strict=True)]
    words: list[Word] = []
    for one in found:
        distance = max(one.residual, abs(one.limit) / one.limit_error)
        sharp = ERRORS * one.limit_error <= CAP
        word: Word = "contradicted" if distance > 2 * ERRORS else "reproduced" if sharp and distance <= ERRORS else "inconclusive"  # fmt: skip
        words.append(word)
    far = int(np.argmax([abs(one.limit) / one.limit_error for one in found]))
    told = {
        "farthest": names[far], "excess left at d = ∞ there": found[far].limit, "its standard error": found[far].limit_error,
        "largest standard error of it": max(one.limit_error for one in found),
        "largest residual in standard errors": max(one.residual for one in found),
        "b, from and to": [min(one.slope for one in found), max(one.slope for one in found)],
    }  # fmt: skip
    return Outcome(told, worst(*words))


def falling_as(theory: xr.DataArray, dims: Any, slope: float = 3.0, error: float = 0.002) -> xr.Dataset:
    """A made-up table whose means exceed theory by slope/d: example data of claims judged by `judge_approach`.

    Args:
        theory: (dim, …) theory.
        dims: d.
        slope: b.
        error: relative standard error of every mean.

    Returns:
        The table.
    """
    over = xr.DataArray(1 + slope / np.asarray(dims, float), {"dim": list(dims)}, ("dim",))
    return xr.Dataset({"mean": theory * over, "error": error * theory, "theory": theory})
