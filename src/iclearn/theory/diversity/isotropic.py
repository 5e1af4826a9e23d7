"""Errors of trained linear attention on a pool of isotropic tasks, as dim → ∞: one formula for every case (lu2025).

With α = ℓ/d, κ = k/d, τ = n/d², noise ρ, ridge λ and q = (c + ρ)/α for tasks of variance c, all fixed as d → ∞:

1. M(ν) = lim tr(R + ν)⁻¹/d for the second moment R of the pool (Marchenko-Pastur);
2. the effective ridge ξ ≥ 0 solves τλ/ξ = τ − 1 + ξ M(q + ξ), and ν = q + ξ;
3. e_IDG = [ρ + ν − ν²M − ξ(1 − 2νM − ν²M')] / [1 − (1 − 2ξM − ξ²M')/τ], and v = e_IDG/τ;
4. e_ICL = ρ + q_t [1 − 2νM − ν²M' + v(M + ξM')] + t [v(M + ξM') − ν²M'], q_t = (t + ρ)/α_test, for new tasks of
   variance t.

Ridge regression on n prompts with features of covariance (1/d) I ⊗ (R + qI) and teacher R(R + q)⁻¹: the equivalent
matrix is R(R + ν)⁻¹, 3 is (bias + noise)/(1 − df₂/n), and 4 carries its variance over to another law of tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.checks import as_numbers, require

_BLOCK = 1 << 14  # points at once: their arrays stay in the cache
_NEWTON = 100  # steps at most; about ten are needed
_CLOSE = 1e-10  # relative size of the last step: the error after it is of the order of its square


class PoolErrors(NamedTuple):
    """Errors of trained linear attention in the limit, noise of the target included; arrays of one shape.

    Args:
        icl: e_ICL, on new tasks.
        idg: e_IDG, on the tasks of the pool with new inputs.
        effective_ridge: ξ.
        variance: v = e_IDG/τ.
    """

    icl: np.ndarray
    idg: np.ndarray
    effective_ridge: np.ndarray
    variance: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """g_task = e_ICL − e_IDG: what is lost because the pool was memorized."""
        return self.icl - self.idg


def pool_resolvent(nu: Any, kappa: Any, variance: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """M(ν) = lim tr(R + ν)⁻¹/d, and its derivative, for R the second moment of κd tasks N(0, cI).

    M = 2/(b + √(b² + 4cν/κ)) with b = ν + c − c/κ, and M' = −½M²[1 + (ν + c + c/κ)/√(b² + 4cν/κ)].

    Args:
        nu: ν > 0.
        kappa: κ = k/d; infinite: R = cI.
        variance: c.

    Returns:
        M and M', of the shape that the arguments have together.

    >>> [round(float(value), 6) for value in pool_resolvent(1.0, np.inf)]
    [0.5, -0.25]
    """
    nu, kappa, variance = np.broadcast_arrays(*(np.asarray(a, float) for a in (nu, kappa, variance)))
    moment, _, curved = _resolvent(nu, kappa, variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return moment, -curved / nu**2


def _resolvent(nu: Any, kappa: Any, variance: Any) -> tuple[Any, Any, Any]:
    """M, νM and −ν²M'; the first is infinite at ν = 0, κ ≤ 1, the others are not."""
    ratio = variance / kappa
    b = nu + variance - ratio
    root = np.sqrt(b * b + 4 * ratio * nu)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = (root - b) / (2 * ratio)  # νM without cancellation where b < 0
        share = np.where(b < 0, small, 2 * nu / (b + root))
        share = np.where(nu == 0, np.maximum(0.0, 1 - kappa), share)
        moment = np.where(nu == 0, np.where(b > 0, 1 / b, np.inf), share / nu)
        curved = 0.5 * share * share * (1 + (nu + variance + ratio) / root)
    return moment, share, np.where(share == 0, 0.0, curved)


def above_ridge(total: Any, slope: Any, ridge: Any) -> Any:
    """A bound of ξ from above, from which Newton descends to it.

    h(ξ) = (1 − 1/τ)ξ + ξ²M(q + ξ)/τ − λ is convex, since ξ²/(x + q + ξ) is, and by Jensen at least what it is with
    M = 1/(c + q + ξ) for the mean c of the spectrum: the positive root of that quadratic lies right of the root of h.

    Args:
        total: c + q.
        slope: 1 − 1/τ.
        ridge: λ.

    Returns:
        The bound.
    """
    linear = slope * total - ridge
    wide = np.sqrt(linear * linear + 4 * ridge * total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(linear > 0, 2 * ridge * total / (linear + wide), (wide - linear) / 2)


def _ridge_of(q: Any, kappa: Any, inverse_tau: Any, ridge: Any, variance: Any) -> Any:
    """ξ of every point, by Newton."""
    slope = 1 - inverse_tau
    xi = above_ridge(variance + q, slope, ridge)
    for _ in range(_NEWTON):
        nu = q + xi
        moment, _, curved = _resolvent(nu, kappa, variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(xi > 0, xi / nu, 0.0)
            h = slope * xi + inverse_tau * xi * xi * moment - ridge
            change = h / (slope + inverse_tau * (2 * xi * moment - part * part * curved))
        change = np.where(xi > 0, change, 0.0)
        xi = np.maximum(xi - change, 0.0)
        if not (np.abs(change) > _CLOSE * xi).any():
            break
    return xi


def _ridgeless(q: Any, kappa: Any, inverse_tau: Any, variance: Any) -> Any:
    """ξ at λ = 0: zero for τ ≥ 1, else (1 − τ)/(τ M_{κ/τ}(q))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moment = _resolvent(q, kappa * inverse_tau, variance)[0]
        return np.where(inverse_tau > 1, (inverse_tau - 1) / moment, 0.0)


def _block(point: np.ndarray) -> np.ndarray:
    alpha, kappa, tau, noise, ridge, train, test, test_alpha, target = point
    q, test_q, inverse_tau = (train + noise) / alpha, (test + noise) / test_alpha, 1 / tau
    xi = _ridgeless(q, kappa, inverse_tau, train)
    some = ridge > 0
    if some.any():
        xi[some] = _ridge_of(q[some], kappa[some], inverse_tau[some], ridge[some], train[some])
    nu = q + xi
    moment, share, curved = _resolvent(nu, kappa, train)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(nu > 0, xi / nu, np.where(tau < 1, (1 - tau) / (1 - kappa), 0.0))  # at α = ∞ its limit
        rest = 1 - 2 * share + curved  # of the squares: 1 − 2νM − ν²M'
        freedom = 1 - 2 * part * share + part * part * curved  # df₂ of n
        idg = np.maximum(target + nu - nu * share - xi * rest, 0.0) / (1 - inverse_tau * freedom)
        idg = np.where((xi == 0) & (tau == 1), np.inf, idg)
        variance = idg * inverse_tau
        spread = np.where(nu > 0, moment - part * curved / nu, moment)
        carried = np.where(variance > 0, variance * spread, 0.0)
        icl = target + np.where(test_q > 0, test_q * (rest + carried), 0.0)
        icl += np.where(test > 0, test * (carried + curved), 0.0)
    return np.stack([icl, idg, xi, variance])


def pool_errors(
    alpha: Any, kappa: Any, tau: Any, noise: Any, ridge: Any = 0.0, *,
    train_variance: Any = 1.0, test_variance: Any = None, test_alpha: Any = None, target_noise: Any = None,
) -> PoolErrors:  # fmt: skip
    """Errors of trained linear attention as dim → ∞, for numbers or arrays of them: a phase diagram is one call.

    The equations are those at the top of this module. κ = ∞ (a task for every prompt), τ = ∞ (infinitely many prompts)
    and α = ∞ (infinitely long contexts, after τ → ∞ where both are infinite) are allowed; at τ = 1, λ = 0 both errors
    are infinite.

    Args:
        alpha: α = context_len/dim.
        kappa: κ = num_tasks/dim.
        tau: τ = num_prompts/dim².
        noise: ρ, the variance of the noise on the labels, in units in which a label without noise has variance 1.
        ridge: λ of (M + (λ/d) I)⁻¹b for the mean moments M, b of the features; 0: the limit λ → 0.
        train_variance: c of the tasks of the pool.
        test_variance: t of the new tasks (None: c).
        test_alpha: α of the new tasks' prompts (None: α).
        target_noise: the variance of the noise on the targets, in training and in the errors (None: ρ).

    Returns:
        The errors, of the shape that the arguments have together.

    >>> found = pool_errors(1.0, [0.5, np.inf], 2.0, 0.01)
    >>> found.icl.round(4).tolist(), found.idg.round(4).tolist()
    ([1.234, 1.025], [0.6096, 1.025])
    """
    test_variance = train_variance if test_variance is None else test_variance
    test_alpha = alpha if test_alpha is None else test_alpha
    given = {
        "alpha": alpha, "kappa": kappa, "tau": tau, "noise": noise, "ridge": ridge, "train_variance": train_variance,
        "test_variance": test_variance, "test_alpha": test_alpha,
        "target_noise": noise if target_noise is None else target_noise,
    }  # fmt: skip
    arrays = [checked(name, value) for name, value in given.items()]
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(given, arrays, strict=True) if a.ndim)
        require(False, f"these shapes do not go together: {shapes}")
        raise
    points = [np.broadcast_to(a, shape).ravel() for a in arrays]
    found = np.empty((4, points[0].size))
    for start in range(0, points[0].size, _BLOCK):
        part = slice(start, start + _BLOCK)
        found[:, part] = _block(np.stack([p[part] for p in points]))
    return PoolErrors(*(row.reshape(shape) for row in found))


_FINITE = ("noise", "ridge", "train_variance", "test_variance", "target_noise", "spectrum")
_MAY_VANISH = ("noise", "ridge", "test_variance", "target_noise", "spectrum")


def checked(name: str, value: Any) -> np.ndarray:
    """A parameter of the theory as an array; values outside its range are refused.

    Args:
        name: as `pool_errors` names it, or ``spectrum``.
        value: a number or an array.

    Returns:
        The array.

    >>> checked("kappa", [0.5, np.inf]).tolist()
    [0.5, inf]
    """
    array = as_numbers(name, value)
    low = array >= 0 if name in _MAY_VANISH else array > 0
    good = low & (np.isfinite(array) if name in _FINITE else True)
    bound = "of at least 0" if name in _MAY_VANISH else "above 0"
    finite = "finite numbers" if name in _FINITE else "numbers"
    require(good.all(), f"{name} must be {finite} {bound}, not {array[~good].ravel()[:1]}")
    return array
