"""One head learning one eigenvector: the scalar ODE (21) of zhang2025, by diffrax and in closed form.

With k = q = v e and F from the population loss, τ v̇ = g λ² v² − g² λ³ a v⁵, a = 1 + (1 + tr Λ/λ)/N. In
units of the fixed point v* = (g λ a)^(-1/3) and of the time 1/(g λ² v*), x = v/v* obeys ẋ = x² − x⁵
whatever λ, N and g are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import expit

from ...core.errors import IclearnError
from .flow import check_times, integrate
from .population import check_sizes

HALF_LOSS = (1 - 0.5**0.5) ** (1 / 3)
"""x at which half of the drop in the loss is done: the loss on the way is ∝ (1 − x³)²."""

Values = float | np.ndarray


def fixed_value(eigenvalue: Values, trace: float, context_len: float, *, gain: float = 1.0) -> Values:
    """v* = [g λ (1 + (1 + tr Λ/λ)/N)]^(-1/3), where (21) comes to rest (20)."""
    check_sizes(context_len, gain)
    return (gain * (eigenvalue + (eigenvalue + trace) / context_len)) ** (-1 / 3)


def growth_rate(eigenvalue: Values, trace: float, context_len: float, *, gain: float = 1.0) -> Values:
    """g λ² v*: the inverse of the ODE's own unit of time."""
    return gain * eigenvalue**2 * fixed_value(eigenvalue, trace, context_len, gain=gain)


def _field(_: Any, v: Array, args: tuple[Array, Array]) -> Array:
    rise, brake = args
    return rise * v**2 - brake * v**5


def integrate_head(
    eigenvalue: float,
    trace: float,
    context_len: float,
    v_0: float,
    times: np.ndarray,
    *,
    gain: float = 1.0,
    rtol: float = 1e-11,
) -> np.ndarray:
    """v(t) of (21) at `times`, integrated numerically (diffrax)."""
    check_sizes(context_len, gain)
    brake = gain**2 * eigenvalue**2 * (eigenvalue + (eigenvalue + trace) / context_len)
    args = (jnp.asarray(float(gain * eigenvalue**2)), jnp.asarray(float(brake)))
    tolerances = rtol, rtol * abs(v_0) * 1e-2
    return np.asarray(integrate(_field, jnp.asarray(float(v_0)), args, check_times(times), *tolerances))


def _primitive(logit: np.ndarray) -> np.ndarray:
    """∫ dx/(x²(1 − x³)) for 0 < x < 1 as a function of ℓ = ln(x/(1 − x)), so that x or 1 − x may be tiny.

    Partial fractions: 1/x² + [1/(1 − x) + (x − 1)/(x² + x + 1)]/3.
    """
    root, x = 3**0.5, expit(logit)
    logs = np.logaddexp(0, logit) / 3 + np.log1p(x + x * x) / 6
    return -1 - np.exp(-logit) + logs - np.arctan((2 * x + 1) / root) / root


def _logit(v: Values, v_star: Values, name: str) -> np.ndarray:
    x = np.asarray(v, float) / v_star
    if not ((x > 0) & (x < 1)).all():
        raise IclearnError(f"{name} must lie between 0 and the fixed point {v_star:.6g}, not {v}")
    return np.log(x) - np.log1p(-x)


def time_to_reach(
    v: Values, eigenvalue: float, trace: float, context_len: float, v_0: float, *, gain: float = 1.0
) -> np.ndarray:
    """t(v): the implicit solution of (21), for 0 < v_0 and v below v*.

    g λ² v* t/τ = Φ(v/v*) − Φ(v_0/v*),  Φ(x) = −1/x − ln(1 − x)/3 + ln(1 + x + x²)/6 − arctan((2x + 1)/√3)/√3.

    The term 1/x_0 dominates for small v_0: a plateau lasts about τ/(g λ² v_0).
    """
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    units = _primitive(_logit(v, v_star, "v")) - _primitive(_logit(v_0, v_star, "v_0"))
    return units / growth_rate(eigenvalue, trace, context_len, gain=gain)


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """(Φ, ℓ) at values of ℓ so close that one step of Newton's method leads from a chord to 1e-13."""
    logits = np.linspace(-46, 46, 2**16)
    return _primitive(logits), logits


def own_course(units: Values, x_0: Values) -> np.ndarray:
    """x = v/v* at a time in the ODE's own units, from 0 < x_0 < 1; both may be arrays.

    Φ is inverted in ℓ = ln(x/(1 − x)): by the table, then one step of Newton's method.
    """
    target = _primitive(np.log(x_0) - np.log1p(-np.asarray(x_0))) + units
    heights, logits = _table()
    before = -np.log(np.maximum(-target, 1.0))  # where x is below the table it is −1/Φ
    logit = np.where(target < heights[0], before, np.interp(target, heights, logits))
    x = expit(logit)
    return expit(logit + (target - _primitive(logit)) * x * (1 + x + x * x))


def own_wait(x_0: Values, progress: float = HALF_LOSS) -> np.ndarray:
    """The time in the ODE's own units from x_0 to `progress`; 0 if x_0 is beyond."""
    start = np.minimum(x_0, progress)
    return _primitive(_logit(progress, 1.0, "progress")) - _primitive(np.log(start) - np.log1p(-start))


def head_course(
    times: np.ndarray, eigenvalue: float, trace: float, context_len: float, v_0: float, *, gain: float = 1.0
) -> np.ndarray:
    """v(t) of (21) at `times` by inverting `time_to_reach`, exact to rounding."""
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    _logit(v_0, v_star, "v_0")
    elapsed = np.asarray(times, float) * growth_rate(eigenvalue, trace, context_len, gain=gain)
    if (elapsed < 0).any():
        raise IclearnError("times must not be negative: v_0 is the value at time 0")
    return v_star * own_course(elapsed, v_0 / v_star)


def plateau_duration(eigenvalue: Values, v_0: Values, *, gain: float = 1.0) -> Values:
    """τ/(g λ² v_0): how long the plateau before learning λ lasts, to leading order in small v_0.

    >>> round(plateau_duration(0.5, 0.01), 9)
    400.0
    """
    return 1 / (gain * eigenvalue**2 * v_0)


def drop_duration(
    eigenvalue: float,
    trace: float,
    context_len: float,
    v_0: float,
    *,
    gain: float = 1.0,
    progress: float = HALF_LOSS,
) -> float:
    """The time (21) takes from v_0 to `progress`·v* (default: half of the loss drop); 0 if v_0 is beyond."""
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    _logit(min(v_0, progress * v_star), v_star, "v_0")
    return float(own_wait(v_0 / v_star, progress) / growth_rate(eigenvalue, trace, context_len, gain=gain))
