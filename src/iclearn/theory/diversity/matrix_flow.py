"""Gradient flow of reduced linear attention on infinitely many prompts: Γ(t) in closed form, and when it overshoots.

The exact error is e(Γ) = E s + ρ − (2/d) tr(ΓA) + (1/d) tr(ΓBΓᵀ) (`matrix_errors`), so that dΓ/dt = −∂e/∂Γ from Γ = 0
has Γ(t) = Aᵀ B⁻¹(1 − e^{−2Bt/d}). Without the column for mean y² every eigenvector of the pool's second moment R with
eigenvalue r is a mode of its own, which grows to r/((1 + 1/ℓ)r + q), q = (tr R/d + ρ)/α. For new tasks of as much
variance the best value is that of r = 1: modes with r > 1 pass it on their way, modes with r < 1 never reach it. So
where all r > 1 (κ < ¼ as d → ∞, but for the modes with r = 0, which never move) e_ICL must rise in the end, and
infinitely many prompts do not keep it from being transient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.checks import as_numbers, require
from .matrix_errors import TaskMoments, feature_moments


def flow_matrices(
    law: TaskMoments, context_len: int, noise: float, times: Any, *, label_square: bool = True
) -> np.ndarray:
    """Γ(t) of gradient flow from zero on infinitely many prompts of a law of tasks.

    Args:
        law: the tasks.
        context_len: ℓ.
        noise: ρ.
        times: (time) t ≥ 0, in units in which dΓ/dt is minus the gradient of the error; may be infinite.
        label_square: with the column for mean y².

    Returns:
        (time, dim, entry) Γ(t).

    >>> from .matrix_errors import new_moments
    >>> flow_matrices(new_moments([1.0]), 8, 0.0, [0.0, np.inf], label_square=False).ravel().round(4).tolist()
    [0.0, 0.8]
    """
    times = as_numbers("times", times, 1)
    require(bool((times >= 0).all()), "times of a flow must be at least 0")
    a, b = feature_moments(law, context_len, noise)
    size = len(b) if label_square else len(b) - 1
    values, vectors = np.linalg.eigh(b[:size, :size])
    dim = len(law.mean)
    with np.errstate(invalid="ignore"):
        grown = np.where(np.isinf(times[:, None]), 1.0, -np.expm1(-2 / dim * values * times[:, None]))
    turned = a[:size].T @ vectors
    return (turned * (grown / values)[:, None, :]) @ vectors.T
