"""The exact error of reduced linear attention with any matrix Γ, at finite dim and context (lu2025).

In lu2025's units (inputs N(0, I/d), tasks with E‖w‖² = d): ŷ = x_qᵀ Γ h with the context's features
h = [(d/ℓ) Σ y x, (1/ℓ) Σ y²]. Given w, with s = ‖w‖²/d and α = ℓ/d,

E h = [w, s + ρ],  E h_x h_xᵀ = (1 + 1/ℓ) w wᵀ + ((s + ρ)/α) I,
E h_x h_y = (1 + 2/ℓ)(s + ρ) w,  E h_y² = (1 + 2/ℓ)(s + ρ)²,

so that e(Γ) = E s + ρ − (2/d) tr(ΓA) + (1/d) tr(ΓBΓᵀ) with A = E h wᵀ and B = E h hᵀ. In iclearn's units (inputs
N(0, I), tasks w/√d) features, Γ and errors are the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.checks import as_numbers, check_int, require
from .isotropic import checked


class TaskMoments(NamedTuple):
    """All that the error of Γ knows about a law of tasks, in units in which E‖w‖² = d.

    Args:
        mean: (dim) E w.
        second: (dim, dim) E w wᵀ.
        weighted: (dim) E[s w], s = ‖w‖²/d.
        power: E s.
        square: E s².
    """

    mean: np.ndarray
    second: np.ndarray
    weighted: np.ndarray
    power: float
    square: float


def pool_moments(pool: Any) -> TaskMoments:
    """The moments of a task taken uniformly from a pool: test law IDG.

    Args:
        pool: (task, dim) the tasks.

    Returns:
        The moments.

    >>> pool_moments([[2.0, 0.0], [0.0, 2.0]]).square
    4.0
    """
    pool = as_numbers("a pool of tasks", pool, 2)
    s = (pool**2).mean(-1)
    count = len(pool)
    return TaskMoments(pool.mean(0), pool.T @ pool / count, s @ pool / count, float(s.mean()), float((s**2).mean()))


def new_moments(spectrum: Any, *, sphere: bool = False) -> TaskMoments:
    """The moments of new tasks N(0, diag t): test law ICL.

    Args:
        spectrum: (dim) t_j.
        sphere: tasks uniform on the sphere ‖w‖² = Σ t_j instead, for equal t_j.

    Returns:
        The moments: mean 0, E s² = (mean t)² + 2 Σ t²/d², or (mean t)² on the sphere.

    >>> new_moments([1.0, 1.0]).square, new_moments([1.0, 1.0], sphere=True).square
    (2.0, 1.0)
    """
    values = checked("spectrum", spectrum)
    require(values.ndim == 1, f"a spectrum has one axis, not shape {values.shape}")
    require(not sphere or np.ptp(values) == 0, "tasks on the sphere have equal variance along every direction")
    power = float(values.mean())
    spread = 0.0 if sphere else 2 * float((values**2).sum()) / len(values) ** 2
    return TaskMoments(np.zeros(len(values)), np.diag(values), np.zeros(len(values)), power, power**2 + spread)


def feature_moments(
    law: TaskMoments, context_len: int, noise: float, *, leading: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """A = E h wᵀ and B = E h hᵀ of the context's features; the equations are those at the top of this module.

    Args:
        law: the tasks.
        context_len: ℓ.
        noise: ρ.
        leading: leave out the terms 1/ℓ and 2/ℓ, and the spread of s, as the public code of letey2026 does.

    Returns:
        (dim + 1, dim) A and (dim + 1, dim + 1) B.
    """
    check_int("context_len", context_len, 1)
    dim = len(law.mean)
    once, twice = (1.0, 1.0) if leading else (1 + 1 / context_len, 1 + 2 / context_len)
    square = law.power**2 if leading else law.square
    third = law.weighted + noise * law.mean  # E (s + ρ) w
    a = np.vstack([law.second, third])
    b = np.empty((dim + 1, dim + 1))
    b[:dim, :dim] = once * law.second + (law.power + noise) * dim / context_len * np.eye(dim)
    b[:dim, dim] = b[dim, :dim] = twice * third
    b[dim, dim] = twice * (square + 2 * noise * law.power + noise**2)
    return a, b


def matrix_error(
    gamma: Any, law: TaskMoments, context_len: int, noise: float, *, leading: bool = False
) -> float | np.ndarray:
    """e(Γ), the exact mean squared error on prompts of a law of tasks, noise of the target included.

    Args:
        gamma: (…, dim, dim + 1) Γ, or (…, dim, dim) where the column for mean y² is left out.
        law: the tasks: `pool_moments` (IDG) or `new_moments` (ICL).
        context_len: ℓ.
        noise: ρ.
        leading: as in `feature_moments`.

    Returns:
        (…) the error.

    >>> round(float(matrix_error(np.zeros((2, 3)), new_moments([1.0, 1.0]), 8, 0.1)), 6)
    1.1
    """
    gamma = as_numbers("gamma", gamma)
    dim = len(law.mean)
    fits = gamma.ndim >= 2 and gamma.shape[-2] == dim and gamma.shape[-1] in (dim, dim + 1)
    require(fits, f"gamma must be (…, {dim}, {dim + 1}) or (…, {dim}, {dim}) for tasks of {dim}, not {gamma.shape}")
    a, b = (m[: gamma.shape[-1]] for m in feature_moments(law, context_len, noise, leading=leading))
    linear = np.einsum("...ij,ji->...", gamma, a)
    squared = np.einsum("...ij,...ij->...", gamma @ b[:, : gamma.shape[-1]], gamma)
    return law.power + noise - 2 / dim * linear + squared / dim


def best_matrix(law: TaskMoments, context_len: int, noise: float, *, label_square: bool = True) -> np.ndarray:
    """The Γ of least error: training on infinitely many prompts of a law of tasks, Γ = AᵀB⁻¹.

    Without the last column this is R[(1 + 1/ℓ)R + ((tr R/d + ρ)/α) I]⁻¹.

    Args:
        law: the tasks.
        context_len: ℓ.
        noise: ρ.
        label_square: with the column for mean y².

    Returns:
        (dim, dim + 1) Γ, or (dim, dim).

    >>> best_matrix(new_moments([1.0]), 8, 0.0, label_square=False).round(4).tolist()
    [[0.8]]
    """
    a, b = feature_moments(law, context_len, noise)
    size = len(b) if label_square else len(b) - 1
    return np.linalg.solve(b[:size, :size], a[:size]).T
