"""The optimum of linear self-attention with too few heads: a search over one angle.

Observed, not proved: with Λ^½ΣΛ^½ ∝ I the best p_1 … p_H span [−κΔ; 1], Δ = w* − w_q, taken in coordinates where the
guess is zero, and H−1 directions orthogonal to Δ. No descent over spans from random starts has found a lower loss (the
tests repeat some of them). What is exact is the loss for each span, which is a linear regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from ...core.errors import IclearnError, MissingClosedForm
from .law import Law
from .lsa_loss import fold_symmetric
from .optimum import minimal_heads, optimum
from .token_moments import GramMoments, gram_moments, regression_loss


class HeadOptimum(NamedTuple):
    """The least loss of a number of heads; see `best_loss`.

    Args:
        num_heads: H.
        loss: the least loss.
        kappa: κ of the best span [−κΔ; 1] if it was searched for, else None.
    """

    num_heads: int
    loss: float
    kappa: float | None


def span_loss(
    law: Law | GramMoments, span: Float[np.ndarray, "entry head"], guess: Float[np.ndarray, " dim"] | None = None
) -> float:
    """The least loss over all Q_h when p_1 … p_H span given directions, by regression on exact moments.

    For any Λ, Σ, noise and guess: features are (p_hᵀG)_b x_qj, in which the Q_h are linear.

    Args:
        law: of the task, or its `gram_moments`.
        span: (dim + 1, head) a basis of the span as columns.
        guess: (dim) w_q (None: 0).

    Returns:
        The loss.

    >>> round(span_loss(Law(np.zeros(2), context_len=3), np.array([[0.0], [0.0], [1.0]])), 12)
    1.0
    """
    moments = gram_moments(law) if isinstance(law, Law) else law
    size, num_heads = span.shape
    whole = np.linalg.qr(np.column_stack([span, np.eye(size)]))[0]
    rows, cols = np.triu_indices(size)
    kept = rows < num_heads  # pairs of an orthonormal basis, one of which is in the span
    tensor = np.einsum("af,bf->abf", whole[:, rows[kept]], whole[:, cols[kept]])
    weights = np.zeros(size - 1) if guess is None else guess
    return regression_loss(moments, weights, fold_symmetric(tensor))[0]


def _angle_loss(
    angle: Float[np.ndarray, " angle"], num_heads: int, dim: int, context: int, norm: float, scale: float, noise: float
) -> Float[np.ndarray, " angle"]:
    """Loss of the span p_1 = [sin θ e_1; cos θ], p_h = e_h; white inputs, Δ = norm·e_1, δ ~ N(0, scale·I).

    Unrolled for labels y' = y − w*·x. Rotations that keep the span split `span_loss`'s regression into one on
    three invariants (component 1) and one on a single feature for each other component (2..H see y'x_j,
    H+1..d see p_1's mix).
    """
    sin, cos, few = np.sin(angle), np.cos(angle), num_heads - 1
    label = dim * scale + noise  # E S_yy
    cross = scale + (scale + label) / context  # E S_1y²
    mixed = label + 2 * scale / context  # E S_11 S_yy
    square = (label**2 + 2 * dim * scale**2) * (1 + 2 / context)  # E S_yy²
    seen = scale - scale**2 / cross
    unseen = scale - (cos * scale) ** 2 / (cos**2 * cross + sin**2 / context)
    # component 1: f = (sin S_11 + cos S_1y, sin S_1y + cos S_yy, Σ_{2..H} S_jj), target δ_1 + norm
    f11 = sin**2 * (1 + 2 / context) + cos**2 * cross
    f12 = sin * cos * (mixed + cross)
    f22 = sin**2 * cross + cos**2 * square
    t1, t2 = sin * norm + cos * scale, sin * scale + cos * norm * label
    second = np.stack([np.stack([f11, f12], -1), np.stack([f12, f22], -1)], -2)
    target = np.stack([t1, t2], -1)
    if few:
        ones = np.ones_like(angle)
        border = few * np.stack([sin, cos * mixed], -1)
        corner = few * (few + 2 / context) * ones[:, None, None]
        second = np.block([[second, border[:, :, None]], [border[:, None, :], corner]])
        target = np.concatenate([target, few * norm * ones[:, None]], -1)
    solved = np.linalg.solve(second, target[..., None])[..., 0]
    fitted = 2 * np.sum(target * solved, -1) - np.einsum("ka,kab,kb->k", solved, second, solved)
    return scale + norm**2 - fitted + few * seen + (dim - num_heads) * unseen


def best_loss(law: Law, num_heads: int, guess: ArrayLike | None = None, *, enough: int | None = None) -> HeadOptimum:
    """The least loss of linear self-attention with a given number of heads and guess g = w_q·x_q.

    With `minimal_heads` or more it is the closed form `optimum`. With fewer, p_1 … p_H span [−κΔ; 1] and H−1 directions
    orthogonal to Δ = w* − w_q, and κ is searched for; that this is the optimum is observed, not proved, and it is
    always an upper bound. Fewer heads need Λ^½ΣΛ^½ ∝ I, else `MissingClosedForm` is raised.

    Args:
        law: of the task.
        num_heads: H.
        guess: (dim) w_q (None: 0).
        enough: `minimal_heads`, where it is known already.

    Returns:
        The loss, with κ if it was searched for.

    >>> round(best_loss(Law.isotropic(10, 10, 3), num_heads=2).loss, 6)
    6.263769
    """
    if num_heads < 1:
        raise IclearnError(f"num_heads must be at least 1, not {num_heads}")
    enough = minimal_heads(law, guess) if enough is None else enough
    if num_heads >= enough:
        return HeadOptimum(num_heads, optimum(law, guess).loss, None)
    scale = law.isotropic_scale
    if scale is None:
        raise MissingClosedForm(
            f"the optimum of {num_heads} heads is known only if the prior covariance is a multiple of the "
            f"inverse of the inputs': take at least {enough} heads, or train with engine "
            "moments or samples"
        )
    norm = float(np.linalg.norm(law.whitened(guess)[0]))

    def loss(angle: Float[np.ndarray, " angle"]) -> Float[np.ndarray, " angle"]:
        return _angle_loss(angle, num_heads, law.dim, law.context_len, norm, scale, law.noise)

    # tan θ = norm·(1−κ): once even in θ and once in the angle of 1−κ, for norms of any size
    found, angle = min(_least(loss, stretch) for stretch in (1.0, norm))
    return HeadOptimum(num_heads, found, float(1 - np.tan(angle) / norm))


def _least(loss: Callable[[np.ndarray], np.ndarray], stretch: float) -> tuple[float, float]:
    """Least value of a function of an angle θ mod π, and θ, searched evenly in φ, tan θ = stretch·tan φ."""

    def at(phi: Float[np.ndarray, " angle"]) -> Float[np.ndarray, " angle"]:
        return np.arctan2(stretch * np.sin(phi), np.cos(phi))

    def one(phi: float) -> float:
        return float(loss(at(np.array([phi])))[0])

    grid, spacing = np.linspace(-np.pi / 2, np.pi / 2, 1000, endpoint=False, retstep=True)
    middle = grid[np.argmin(loss(at(grid)))]
    near = (middle - spacing, middle + spacing)
    found: Any = minimize_scalar(one, bounds=near, method="bounded", options={"xatol": 1e-12})
    return float(found.fun), float(at(np.array([found.x]))[0])
