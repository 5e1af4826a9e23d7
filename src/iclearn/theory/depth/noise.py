"""Noise of a level drawn for every prompt (Vladymyrov et al. 2024): ridge with the true level, and with the mean one.

Blocks ``gd`` and ``sparse`` are linear in the labels, so their loss depends on the law of the level only through E σ²,
and no such model of any depth beats ridge regression with the constant λ = E σ²/N.
"""

from __future__ import annotations

import numpy as np

from ...core.checks import check_int
from ..xie2025.bayes import wishart_expectation

_LEVELS = 32  # Gauss-Legendre nodes of σ


def ridge_loss(dim: int, context_len: int, noise: float) -> float:
    """E tr λ/(S + λ), λ = σ²/N: the loss of ridge regression that knows the noise, which is the least possible.

    Args:
        dim: d.
        context_len: N.
        noise: σ².

    Returns:
        The loss.

    >>> round(ridge_loss(10, 20, 3.0), 5)
    2.08052
    """
    rank = min(dim, context_len)
    found = wishart_expectation(lambda w: noise / (w + noise), dim, context_len, noise) if noise > 0 else 0.0
    return float(found) + dim - rank  # directions that the context does not show keep their error


def constant_ridge_loss(dim: int, context_len: int, largest: float) -> float:
    """The bound for models that are linear in the labels: ridge with λ = E σ²/N for σ ~ U(0, σ_max).

    Args:
        dim: d.
        context_len: N.
        largest: σ_max.

    Returns:
        The loss.

    >>> round(constant_ridge_loss(10, 20, 1.0), 5)
    0.3415
    """
    return ridge_loss(dim, context_len, largest**2 / 3)


def oracle_ridge_loss(dim: int, context_len: int, largest: float) -> float:
    """The mean over σ ~ U(0, σ_max) of the loss of ridge regression that knows the level of each prompt.

    Args:
        dim: d.
        context_len: N.
        largest: σ_max.

    Returns:
        The loss.

    >>> round(oracle_ridge_loss(10, 20, 3.0), 5)
    1.7685
    """
    check_int("dim", dim, 1)
    places, shares = np.polynomial.legendre.leggauss(_LEVELS)
    levels = largest * (places + 1) / 2
    return float(np.sum(shares / 2 * [ridge_loss(dim, context_len, sigma**2) for sigma in levels]))
