"""Errors of least squares, averaging and Bayes in closed form."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import hyperu

from ...core.checks import literals_checked

LimitOf = Literal["relu", "quadratic", "quadratic_with_intercept"]


def least_squares_error(context: Any, dim: int, noise: float = 0.0) -> np.ndarray:
    """Least squares of least norm: (1 − i/d)₊ without noise, where it is the Bayes error too.

    With noise 1 − i/d + (σ²/d)·i/(d − i − 1) below d − 1 and σ²/(i − d − 1) above d + 1; from d − 1 to d + 1 the mean
    is infinite: report medians there.

    Args:
        context: i, pairs before the query.
        dim: d.
        noise: σ².

    Returns:
        The error, of the shape of `context`.

    >>> least_squares_error([0, 1, 2, 4], dim=2).tolist(), float(least_squares_error(6, dim=2, noise=1.0))
    ([1.0, 0.5, 0.0, 0.0], 0.3333333333333333)
    """
    i = np.asarray(context, float)
    clean = np.maximum(1 - i / dim, 0)
    if not noise:
        return clean
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = noise / dim * i / (dim - i - 1), noise / (i - dim - 1)
    extra = np.where(i < dim - 1, below, np.where(i > dim + 1, above, np.inf))
    return clean + np.where(i == 0, 0.0, extra)


def averaging_error(context: Any, dim: int, noise: float = 0.0, input_scale: float = 1.0) -> np.ndarray:
    """q·(1/i) Σ_j y_j x_j: s²[s⁴(1 + (d+1)/i) − 2s² + 1] + s⁴σ²/i for inputs s·N(0, I).

    Args:
        context: i, pairs before the query; with none it answers 0.
        dim: d.
        noise: σ².
        input_scale: s.

    Returns:
        The error, of the shape of `context`.

    >>> float(averaging_error(3, dim=5))
    2.0
    """
    i, s = np.asarray(context, float), input_scale**2
    with np.errstate(divide="ignore", invalid="ignore"):
        found = s * (s**2 * (1 + (dim + 1) / i) - 2 * s + 1) + s**2 * noise / i
    return np.where(i == 0, s, found)


def averaging_error_in_context(context: Any, dim: int) -> np.ndarray:
    """Averaging where the query is one of the context's points: [(d+2)² + 1 + (i−1)(d+1)]/i², without noise.

    Args:
        context: i ≥ 1, pairs before the query.
        dim: d.

    Returns:
        The error, of the shape of `context`.
    """
    i = np.asarray(context, float)
    return ((dim + 2) ** 2 + 1 + (i - 1) * (dim + 1)) / i**2


def bayes_error_one_dimension(context: Any, noise: float) -> np.ndarray:
    """The Bayes error for d = 1, σ² E (Σ x² + σ²)⁻¹ = (σ²/2) U(1, 2 − i/2, σ²/2) with Tricomi's function U.

    Args:
        context: i, pairs before the query.
        noise: σ² > 0.

    Returns:
        The error, of the shape of `context`.

    >>> round(float(bayes_error_one_dimension(0, 0.25)), 12)
    1.0
    """
    i = np.asarray(context, float)
    return noise / 2 * hyperu(1.0, 2 - i / 2, noise / 2)


def renormalized_error(excess: Any, dim: int, noise: float = 1.0) -> np.ndarray:
    """The error of G's noisy regression, against noisy labels that were scaled to variance d: (d·excess + σ²)/(d + σ²).

    Args:
        excess: excess error before renormalizing, divided by d.
        dim: d.
        noise: σ².

    Returns:
        The error divided by d; 1 for answering 0.

    >>> float(renormalized_error(1.0, dim=5))
    1.0
    """
    return (dim * np.asarray(excess, float) + noise) / (dim + noise)


@literals_checked
def linear_limit(functions: LimitOf) -> float:
    """The least error of a linear function of x for non-linear functions of N(0, I), with infinitely many pairs.

    Args:
        functions: ``relu`` networks (the odd half of relu is linear, the even half uncorrelated with it),
            ``quadratic`` functions, and these where the linear function has an intercept.

    Returns:
        The error, where answering 0 has 1.
    """
    return {"relu": 1 / 2, "quadratic": 1.0, "quadratic_with_intercept": 2 / 3}[functions]
