"""Errors of trained linear attention for tasks and new tasks of any covariances with common eigenvectors (letey2026).

The resolvent of the pool's second moment R has a deterministic equivalent, diagonal in the eigenbasis of C_train:
(R + ν)⁻¹ ≃ diag F_j, F_j = 1/(s c_j + ν), where s in (0, 1] solves s = 1 − (s/κ) mean_j c_j F_j. Then, with
s' = ds/dν = (s/κ) mean(c F²)/(1 + (ν/κ) mean(c F²)) and F2_j = −dF_j/dν = F_j²(1 + c_j s'), M = mean F and
M' = −mean F2 enter the equations of `isotropic`, and

e_ICL = ρ + q_t [1 + (v − 2ν)M + (ξv − ν²)M'] + mean_j t_j K_j,  K_j = v F_j + (ν² − ξv) F2_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.checks import require
from .isotropic import above_ridge, checked

_NEWTON = 200  # steps at most
_CLOSE = 1e-10  # relative size of the last step


class StructuredErrors(NamedTuple):
    """Errors in the limit, noise of the target included; arrays of one shape (kernel: one axis more).

    Args:
        icl: e_ICL, on new tasks.
        idg: e_IDG, on the tasks of the pool with new inputs.
        misalignment: mean_j t_j K_j = tr(C_test K)/d, the part of e_ICL that depends on where C_test points.
        floor: ρ + misalignment, to which e_ICL falls with the test-time context, as a straight line in 1/α_test.
        kernel: K_j over the eigenvectors of C_train: what a unit of test variance there costs.
        effective_ridge: ξ.
        variance: v = e_IDG/τ.
    """

    icl: np.ndarray
    idg: np.ndarray
    misalignment: np.ndarray
    floor: np.ndarray
    kernel: np.ndarray
    effective_ridge: np.ndarray
    variance: np.ndarray


def spectrum_resolvent(nu: Any, kappa: Any, spectrum: Any) -> tuple[np.ndarray, np.ndarray]:
    """F_j and F2_j = −dF_j/dν of tasks with the given spectrum: the fixed point at the top of this module.

    Args:
        nu: (…) ν > 0.
        kappa: (…) κ.
        spectrum: (…, eigenvector) c_j ≥ 0.

    Returns:
        (…, eigenvector) F and F2.

    >>> first, second = spectrum_resolvent(1.0, np.inf, [1.0, 0.0])
    >>> first.tolist(), second.tolist()
    ([0.5, 1.0], [0.25, 1.0])
    """
    nu, kappa, spectrum = np.asarray(nu, float), np.asarray(kappa, float), np.asarray(spectrum, float)
    nu, inverse = nu[..., None], 1 / kappa[..., None]
    shape = np.broadcast_shapes(nu.shape, inverse.shape, (*spectrum.shape[:-1], 1))
    s = np.zeros(shape)
    for _ in range(_NEWTON):  # g(s) = s − 1 + mean(sc/(sc + ν))/κ grows and is concave: Newton from the left stays left
        reached = spectrum / (s * spectrum + nu)
        g = s - 1 + inverse * s * reached.mean(-1, keepdims=True)
        slope = 1 + inverse * nu * (reached / (s * spectrum + nu)).mean(-1, keepdims=True)
        s = np.minimum(s - g / slope, 1.0)
        if not (np.abs(g) > _CLOSE * slope * s).any():
            break
    first = 1 / (s * spectrum + nu)
    spread = inverse * (spectrum * first**2).mean(-1, keepdims=True)
    return first, first**2 * (1 + spectrum * s * spread / (1 + nu * spread))


def _effective_ridge(q: Any, kappa: Any, inverse_tau: Any, ridge: Any, train: np.ndarray) -> np.ndarray:
    """ξ of every point, by Newton."""
    slope = 1 - inverse_tau
    xi = np.where((ridge > 0) | (slope < 0), above_ridge(train.mean(-1) + q, slope, ridge), 0.0)
    for _ in range(_NEWTON):
        first, second = spectrum_resolvent(q + xi, kappa, train)
        moment, derivative = first.mean(-1), -second.mean(-1)
        h = slope * xi + inverse_tau * xi**2 * moment - ridge
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(xi > 0, h / (slope + inverse_tau * (2 * xi * moment + xi**2 * derivative)), 0.0)
        xi = np.maximum(xi - change, 0.0)
        if not (np.abs(change) > _CLOSE * xi).any():
            break
    return xi


def structured_errors(
    train: Any, test: Any, alpha: Any, kappa: Any, tau: Any, noise: Any, ridge: Any = 0.0, *,
    test_alpha: Any = None, target_noise: Any = None,
) -> StructuredErrors:  # fmt: skip
    """Errors of trained linear attention as dim → ∞, for tasks N(0, C_train) and new tasks N(0, C_test).

    The equations are those at the top of this module. With all c_j equal and all t_j equal this is
    `isotropic.pool_errors`.

    Args:
        train: (…, eigenvector) c_j ≥ 0, in units in which a label without noise has variance mean c.
        test: (…, eigenvector) t_j ≥ 0 along the same eigenvectors, in their order.
        alpha: (…) α = context_len/dim, finite.
        kappa: (…) κ = num_tasks/dim; may be infinite.
        tau: (…) τ = num_prompts/dim²; may be infinite.
        noise: (…) ρ, the variance of the noise on the labels.
        ridge: (…) λ, as in `isotropic.pool_errors`.
        test_alpha: (…) α of the new tasks' prompts (None: α); may be infinite.
        target_noise: (…) the variance of the noise on the targets (None: ρ).

    Returns:
        The errors, of the shape that all arguments but the last axis of the spectra have together.

    >>> found = structured_errors([1.0, 1.0], [2.0, 0.0], 1.0, 0.5, 2.0, 0.01)
    >>> round(float(found.icl), 4), round(float(found.idg), 4)
    (1.234, 0.6096)
    """
    train, test = checked("spectrum", train), checked("spectrum", test)
    require(train.ndim and test.ndim, "a spectrum is a list of eigenvalues, not one number")
    same = train.shape[-1] == test.shape[-1]
    require(same, f"spectra of {train.shape[-1]} and {test.shape[-1]} eigenvalues have no common eigenvectors")
    require((train.mean(-1) > 0).all(), "the tasks of the pool must not all be zero: their spectrum needs a c_j > 0")
    given = {"alpha": alpha, "kappa": kappa, "tau": tau, "noise": noise, "ridge": ridge}
    given |= {"test_alpha": alpha if test_alpha is None else test_alpha}
    given |= {"target_noise": noise if target_noise is None else target_noise}
    arrays = [checked(name, value) for name, value in given.items()]
    require(np.isfinite(arrays[0]).all(), "alpha must be finite here: pool_errors takes infinitely long contexts")
    shape = np.broadcast_shapes(*(a.shape for a in arrays), train.shape[:-1], test.shape[:-1])
    alpha, kappa, tau, noise, ridge, test_alpha, target = (np.broadcast_to(a, shape) for a in arrays)
    q, test_q, inverse_tau = (train.mean(-1) + noise) / alpha, (test.mean(-1) + noise) / test_alpha, 1 / tau
    require((q > 0).all(), "alpha is too large for floating point")
    xi = _effective_ridge(q, kappa, inverse_tau, ridge, train)
    nu = q + xi
    first, second = spectrum_resolvent(nu, kappa, train)
    moment, derivative = first.mean(-1), -second.mean(-1)
    rest = 1 - 2 * nu * moment - nu**2 * derivative
    freedom = 1 - 2 * xi * moment - xi**2 * derivative
    with np.errstate(divide="ignore", invalid="ignore"):
        idg = (target + nu - nu**2 * moment - xi * rest) / (1 - inverse_tau * freedom)
        idg = np.where((tau == 1) & (ridge == 0), np.inf, idg)
        v = idg * inverse_tau
        kernel = v[..., None] * first + (nu**2 - xi * v)[..., None] * second
        misalignment = (kernel * test).mean(-1)
        length = test_q * (1 + (v - 2 * nu) * moment + (xi * v - nu**2) * derivative)
    floor = target + misalignment
    return StructuredErrors(floor + length, idg, misalignment, floor, kernel, xi, v)
