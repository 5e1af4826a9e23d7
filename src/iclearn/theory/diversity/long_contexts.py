"""Limits and edges of the isotropic formula: long contexts, the transition at κ = 1, the best ridge (lu2025).

All follow from `isotropic.pool_errors` by expanding M at small q = (1 + ρ)/α; the edge of the non-monotone region is
where the term of order 1/α of e_ICL changes its sign. Unit task variance, no ridge but in `best_ridge`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ...core.checks import literals_checked, require
from .isotropic import checked, pool_errors


def gap_limit(alpha: Any, kappa: Any, noise: Any) -> np.ndarray:
    """The leading order of e_ICL − e_IDG for infinitely many prompts (τ = ∞) and long contexts.

    1 − κ for κ < 1 (the pool is memorized), ½√q at κ = 1, q²[κ³/(κ − 1)³ − κ/(κ − 1)] for κ > 1: exponents 0, −½, −2
    in α.

    Args:
        alpha: α, large.
        kappa: κ, finite.
        noise: ρ.

    Returns:
        The gap.

    >>> gap_limit(100.0, [0.5, 1.0, 2.0], 0.0).round(4).tolist()
    [0.5, 0.05, 0.0006]
    """
    kappa, q = checked("kappa", kappa), (1 + checked("noise", noise)) / checked("alpha", alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = kappa / (kappa - 1)
        above = q**2 * (u**3 - u)
    return np.where(kappa < 1, 1 - kappa, np.where(kappa == 1, np.sqrt(q) / 2, above))


def joint_gap_limit(kappa: Any, noise: Any, ratio: Any, alpha: Any = np.inf) -> np.ndarray:
    """The leading order of e_ICL − e_IDG as α and τ grow together with α/τ = ratio: the transition at κ = 1.

    (1 − κ)(1 + ratio·ρ/(1 + ρ)) for κ < 1, and ratio·ρ/((κ − 1)α) → 0 for κ > 1.

    Args:
        kappa: κ, other than 1.
        noise: ρ.
        ratio: α/τ.
        alpha: α, for κ > 1.

    Returns:
        The gap.

    >>> joint_gap_limit([0.5, 2.0], 0.01, 5.0).round(4).tolist()
    [0.5248, 0.0]
    """
    kappa, noise, ratio = checked("kappa", kappa), checked("noise", noise), np.asarray(ratio, float)
    with np.errstate(divide="ignore"):
        above = ratio * noise / ((kappa - 1) * checked("alpha", alpha))
    return np.where(kappa < 1, (1 - kappa) * (1 + ratio * noise / (1 + noise)), above)


def growth_rate(kappa: Any, tau: Any, noise: Any) -> np.ndarray:
    """lim e_ICL/α as α → ∞ without ridge: a pool smaller than min(τ, 1)·d makes the error grow with the context.

    ρ/(1 + ρ)·(1 − κ)/(τ − 1) for τ > 1, and ρ/(1 + ρ)·(τ − κ)/(1 − τ) for τ < 1; zero for κ ≥ min(τ, 1).

    Args:
        kappa: κ.
        tau: τ, other than 1.
        noise: ρ.

    Returns:
        The rate.

    >>> growth_rate([0.5, 0.2, 2.0], [2.0, 0.5, 2.0], 1.0).round(4).tolist()
    [0.25, 0.3, 0.0]
    """
    kappa, tau, noise = checked("kappa", kappa), checked("tau", tau), checked("noise", noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.maximum(np.minimum(tau, 1) - kappa, 0.0) / np.abs(tau - 1)
    return noise / (1 + noise) * rate


def nonmonotone_edge(tau: float, noise: float) -> float:
    """The largest κ at which e_ICL is not monotone in α for τ > 1: κ_c > 1.

    τ − 1 + (1 + ρ)u = ρu³ with u = κ/(κ − 1). Derived here; lu2025 draws the line κ = min(τ, 1), which lies inside.

    Args:
        tau: τ > 1.
        noise: ρ > 0.

    Returns:
        κ_c.

    >>> round(nonmonotone_edge(2.0, 0.5), 6)
    2.0
    """
    require(tau > 1 and noise > 0, f"the edge is known for tau > 1 and noise > 0, not tau {tau}, noise {noise}")
    upper = 2 + np.sqrt((1 + noise) / noise) + np.cbrt(tau / noise)  # the cubic is positive there
    u: Any = brentq(lambda u: noise * u**3 - (1 + noise) * u - (tau - 1), 1.0, 2 * upper, xtol=1e-14)
    return float(u / (u - 1))


def bayes_error(alpha: Any, noise: Any) -> np.ndarray:
    """The error of the posterior mean for Gaussian tasks as dim → ∞, noise of the target included.

    e = ρ(1 + m) with m = 2/(ρ + α − 1 + √((ρ + α − 1)² + 4ρ)): ridge regression with ridge ρ, by Marchenko-Pastur.

    Args:
        alpha: α.
        noise: ρ > 0.

    Returns:
        The error, which no predictor can be below on new tasks.

    >>> round(float(bayes_error(2.0, 0.1)), 4)
    0.1844
    """
    alpha, noise = checked("alpha", alpha), checked("noise", noise)
    b = noise + alpha - 1
    root = np.sqrt(b * b + 4 * noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        return noise + np.where(b > 0, 2 * noise / (b + root), (root - b) / 2)


@literals_checked
def best_ridge(
    alpha: float, kappa: float, tau: float, noise: float, error: Literal["icl", "idg"] = "icl"
) -> tuple[float, float]:
    """The ridge λ that makes an error of `pool_errors` least. For κ < 1 new tasks want more of it than the pool.

    Args:
        alpha: α.
        kappa: κ.
        tau: τ.
        noise: ρ.
        error: ``icl`` or ``idg``.

    Returns:
        λ and the error there.

    >>> [round(value, 3) for value in best_ridge(10.0, 0.5, 2.0, 0.1)]
    [0.342, 0.731]
    """
    grid = np.linspace(np.log(1e-8), np.log(1e4), 200)
    values = getattr(pool_errors(alpha, kappa, tau, noise, np.exp(grid)), error)
    least = int(np.argmin(values))
    low, high = grid[max(least - 1, 0)], grid[min(least + 1, len(grid) - 1)]

    def at(log: float) -> float:
        return float(getattr(pool_errors(alpha, kappa, tau, noise, np.exp(log)), error))

    found: Any = minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x)), float(found.fun)
