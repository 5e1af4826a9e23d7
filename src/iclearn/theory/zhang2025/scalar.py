"""One head learning one eigenvector: the scalar ODE (21) of zhang2025, by diffrax and in closed form.

With k = q = v e and the force F of the population loss, τ v̇ = g λ² v² − g² λ³ a v⁵, a = 1 + (1 + tr Λ/λ)/N. In units
of the fixed point v* = (g λ a)^(-1/3) and of the time 1/(g λ² v*), x = v/v* obeys ẋ = x² − x⁵ whatever λ, N and g are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core.errors import IclearnError
from .flow import check_times, integrate
from .population import Size, check_sizes

HALF_LOSS = (1 - 0.5**0.5) ** (1 / 3)
"""x = v/v* at which half of the drop in the loss is done: the loss on the way is ∝ (1 − x³)²."""

Values = float | np.ndarray


def fixed_value(eigenvalue: Values, trace: Values, context_len: Size, *, gain: float = 1.0) -> Values:
    """Where (21) comes to rest (20): v* = [g λ (1 + (1 + tr Λ/λ)/N)]^(-1/3).

    Args:
        eigenvalue: λ, a number or an array.
        trace: tr Λ, of a shape that broadcasts with λ; tr Λ + σ² where the labels have noise of variance σ².
        context_len: N.
        gain: g, see `gain_of`.

    Returns:
        v*, in the shape of λ.

    >>> round(fixed_value(0.4, 1.0, 31), 4)
    1.3097
    """
    check_sizes(context_len, gain)
    return (gain * (eigenvalue + (eigenvalue + trace) / context_len)) ** (-1 / 3)


def growth_rate(eigenvalue: Values, trace: Values, context_len: Size, *, gain: float = 1.0) -> Values:
    """The inverse of the unit of time of (21): g λ² v*, in 1/τ.

    Args:
        eigenvalue, trace, context_len, gain: see `fixed_value`.

    Returns:
        The rate, in the shape of λ.

    >>> round(growth_rate(0.4, 1.0, 31), 4)
    0.2095
    """
    return gain * eigenvalue**2 * fixed_value(eigenvalue, trace, context_len, gain=gain)


def _field(_: Any, v: Array, args: tuple[Array, Array]) -> Array:
    rise, brake = args
    return rise * v**2 - brake * v**5


def integrate_head(
    eigenvalue: float, trace: float, context_len: Size, v_0: float, times: np.ndarray, *, gain: float = 1.0
) -> np.ndarray:
    """v(t) of (21), integrated numerically (diffrax, to a relative 1e-11): a second form of `head_course`.

    Args:
        eigenvalue, trace, context_len, gain: see `fixed_value`.
        v_0: v at time 0.
        times: (time) t/τ, increasing.

    Returns:
        (time) v.

    >>> integrate_head(0.4, 1.0, 31, 0.1, np.array([0.0, 100.0])).round(4).tolist()
    [0.1, 1.3097]
    """
    check_sizes(context_len, gain)
    brake = gain**2 * eigenvalue**2 * (eigenvalue + (eigenvalue + trace) / context_len)
    args = (jnp.asarray(float(gain * eigenvalue**2)), jnp.asarray(float(brake)))
    tolerances = 1e-11, 1e-11 * abs(v_0) * 1e-2
    return np.asarray(integrate(_field, jnp.asarray(float(v_0)), args, check_times(times), *tolerances))


def _primitive(logit: Values) -> Values:
    """∫ dx/(x²(1 − x³)) for 0 < x < 1 as a function of ℓ = ln(x/(1 − x)), so that x or 1 − x may be tiny.

    Partial fractions: 1/x² + [1/(1 − x) + (x − 1)/(x² + x + 1)]/3.
    """
    from scipy.special import expit  # a fifth of a second of import time that not every run needs

    root, x = 3**0.5, expit(logit)
    logs = np.logaddexp(0, logit) / 3 + np.log1p(x + x * x) / 6
    return -1 - np.exp(-logit) + logs - np.arctan((2 * x + 1) / root) / root


def _logit(v: Values, v_star: Values, name: str) -> Values:
    x = np.asarray(v, float) / v_star
    if not ((x > 0) & (x < 1)).all():
        raise IclearnError(f"{name} must lie between 0 and the fixed point {v_star:.6g}, not {v}")
    return np.log(x) - np.log1p(-x)


def time_to_reach(
    v: Values, eigenvalue: float, trace: float, context_len: Size, v_0: float, *, gain: float = 1.0
) -> Values:
    """t(v): the implicit solution of (21), by partial fractions.

    g λ² v* t/τ = Φ(v/v*) − Φ(v_0/v*),  Φ(x) = −1/x − ln(1 − x)/3 + ln(1 + x + x²)/6 − arctan((2x + 1)/√3)/√3.

    The term 1/x_0 dominates for small v_0: a plateau lasts about τ/(g λ² v_0), see `plateau_duration`.

    Args:
        v: a number or an array between 0 and v*.
        eigenvalue, trace, context_len, gain: see `fixed_value`.
        v_0: v at time 0, between 0 and v*.

    Returns:
        t/τ in the shape of v.

    >>> round(float(time_to_reach(0.5, 0.4, 1.0, 31, 0.1)), 3)
    50.342
    """
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    units = _primitive(_logit(v, v_star, "v")) - _primitive(_logit(v_0, v_star, "v_0"))
    return units / growth_rate(eigenvalue, trace, context_len, gain=gain)


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """(Φ, ℓ) at values of ℓ so close that one step of Newton's method leads from a chord to 1e-13."""
    logits = np.linspace(-46, 46, 2**16)
    return np.asarray(_primitive(logits)), logits


def own_course(units: Values, x_0: Values) -> Values:
    """x = v/v* at a time in the ODE's own units, from 0 < x_0 < 1; both may be arrays.

    Φ is inverted in ℓ = ln(x/(1 − x)): by the table, then one step of Newton's method.
    """
    from scipy.special import expit

    target = _primitive(np.log(x_0) - np.log1p(-np.asarray(x_0))) + units
    heights, logits = _table()
    before = -np.log(np.maximum(-target, 1.0))  # where x is below the table it is −1/Φ
    logit = np.where(target < heights[0], before, np.interp(target, heights, logits))
    x = expit(logit)
    return expit(logit + (target - _primitive(logit)) * x * (1 + x + x * x))


def own_wait(x_0: Values, progress: float = HALF_LOSS) -> Values:
    """The time in the ODE's own units from x_0 to `progress`; 0 if x_0 is beyond."""
    start = np.minimum(x_0, progress)
    return _primitive(_logit(progress, 1.0, "progress")) - _primitive(np.log(start) - np.log1p(-start))


def head_course(
    times: np.ndarray, eigenvalue: float, trace: float, context_len: Size, v_0: float, *, gain: float = 1.0
) -> np.ndarray:
    """v(t) of (21), exact to rounding, by inverting `time_to_reach`.

    Args:
        times: (time) t/τ, not negative.
        eigenvalue, trace, context_len, gain: see `fixed_value`.
        v_0: v at time 0, between 0 and v*.

    Returns:
        (time) v.

    >>> head_course(np.array([0.0, 100.0]), 0.4, 1.0, 31, 0.1).round(4).tolist()
    [0.1, 1.3097]
    """
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    _logit(v_0, v_star, "v_0")
    elapsed = np.asarray(times, float) * growth_rate(eigenvalue, trace, context_len, gain=gain)
    if (elapsed < 0).any():
        raise IclearnError("times must not be negative: v_0 is the value at time 0")
    return v_star * np.asarray(own_course(elapsed, v_0 / v_star))


def plateau_duration(eigenvalue: Values, v_0: Values, *, gain: float = 1.0) -> Values:
    """How long the plateau before learning λ lasts, to leading order in small v_0: t/τ = 1/(g λ² v_0).

    It is the time at which v̇ = g λ² v² from v_0, which is (21) for small v, blows up.

    Args:
        eigenvalue: λ of the eigenvector that is learned next.
        v_0: the scale of its head at the start of the plateau.
        gain: g, see `gain_of`.

    Returns:
        The duration, in units of τ.

    >>> round(plateau_duration(0.5, 0.01), 9)
    400.0
    """
    return 1 / (gain * eigenvalue**2 * v_0)


def drop_duration(
    eigenvalue: float, trace: float, context_len: Size, v_0: float, *, gain: float = 1.0, progress: float = HALF_LOSS
) -> float:
    """The time that (21) takes from v_0 to a part of v*.

    Args:
        eigenvalue, trace, context_len, gain: see `fixed_value`.
        v_0: v at time 0.
        progress: v/v* at the end (default: `HALF_LOSS`, where half of the drop in the loss is done).

    Returns:
        t/τ; 0 if v_0 is beyond `progress`·v*.

    >>> round(drop_duration(0.4, 1.0, 31, 0.01), 2)  # 1/(λ² v_0) = 625
    619.02
    """
    v_star = fixed_value(eigenvalue, trace, context_len, gain=gain)
    _logit(min(v_0, progress * v_star), v_star, "v_0")
    return float(own_wait(v_0 / v_star, progress) / growth_rate(eigenvalue, trace, context_len, gain=gain))
