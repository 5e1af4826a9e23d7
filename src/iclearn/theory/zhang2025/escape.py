"""How one small head leaves a plateau: the cubic flow near zero, solved from any initial weights.

While the effective matrix of the small heads is negligible the force F is constant and diagonal in the
eigenbasis, c_d = g λ_d² for eigenvectors not learned yet and 0 for the others, and each head moves alone:
v̇ = Σ c_d k_d·q_d, k̇_d = c_d v q_d, q̇_d = c_d v k_d. With p = (k + q)/√2, n = (k − q)/√2 and θ = ∫ v dt:

    p_d ∝ e^{c_d θ},   n_d ∝ e^{−c_d θ},   v̇ = Σ_d c_d (|p_d|² − |n_d|²)/2.

The head blows up at a finite time t_b, aligned with the largest c_d. Equation (21) blows up at 1/(g λ²
v_0), so the v_0 it needs for these weights is 1/(g λ² t_b). This is our derivation; the paper leaves v_0
open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

_GROWTH = 1e8  # stop when the head has grown this much: the time left is smaller than the time gone by as much


@dataclass(frozen=True)
class SmallHead:
    """A head near zero (eigenbasis): v, `plus` = (k + q)/√2 and `minus` = (k − q)/√2, both (rank, dim)."""

    value: float
    plus: np.ndarray
    minus: np.ndarray

    @staticmethod
    def from_weights(value: float, key: np.ndarray, query: np.ndarray) -> SmallHead:
        root = 2**0.5
        return SmallHead(float(value), (np.asarray(key) + query) / root, (np.asarray(key) - query) / root)

    def _solve(self, rates: np.ndarray, until: float) -> tuple[float, float, float]:
        """(time, θ, v) at `until` or when the head has grown by _GROWTH; time is inf if neither comes."""
        plus, minus = (self.plus**2).sum(0), (self.minus**2).sum(0)
        moving = rates > 0
        unit = float(np.sqrt(self.value**2 + (plus + minus)[moving].sum()))
        if not unit > 0:
            return np.inf, 0.0, 0.0
        plus, minus, c = plus / unit**2, minus / unit**2, rates / rates.max()
        clock = unit * rates.max()  # in units of 1/clock everything is of order one
        limit = until * clock

        def field(_: float, state: np.ndarray) -> list[float]:
            # In the stretched time s, ds = (size of the head) dt, the blow-up is an exponential.
            theta, v, _t = state
            grown, shrunk = plus * np.exp(2 * c * theta), minus * np.exp(-2 * c * theta)
            size = np.sqrt(v**2 + ((grown + shrunk) * moving).sum())
            return [v / size, float((c * (grown - shrunk)).sum()) / 2 / size, 1 / size]

        def grown_up(_: float, state: np.ndarray) -> float:
            return abs(state[1]) - _GROWTH

        def reached(_: float, state: np.ndarray) -> float:
            return state[2] - limit if np.isfinite(limit) else -1.0

        grown_up.terminal = reached.terminal = True  # type: ignore[attr-defined]
        start = [0.0, self.value / unit, 0.0]
        path = solve_ivp(field, (0, 1e5), start, "DOP853", events=(grown_up, reached), rtol=1e-9, atol=1e-12)
        theta, v, time = path.y[:, -1]
        return (time / clock if path.status == 1 else np.inf), theta * unit / clock, v * unit

    def blow_up(self, rates: np.ndarray) -> tuple[float, int]:
        """t_b/τ for the rates c_d = g λ_d² of what is not learned yet, and the sign of v there.

        With + the head has k = q, with − k = −q. A head nothing drives (say v = 0 and k = 0) stays for ever: inf.
        """
        time, _, v = self._solve(rates, np.inf)
        return time, (1 if v >= 0 else -1)

    def after(self, time: float, rates: np.ndarray) -> SmallHead:
        """The head `time` later (before it blows up)."""
        if not time > 0 or not (rates > 0).any():
            return self
        _, theta, v = self._solve(rates, time)
        return SmallHead(v, self.plus * np.exp(rates * theta), self.minus * np.exp(-rates * theta))


def effective_head_scale(value: float, key: np.ndarray, query: np.ndarray, rates: np.ndarray) -> float:
    """v_0 of (21) for a head with these weights (eigenbasis; key and query (rank, dim)): 1/(max(c) t_b).

    An aligned head, k = q = v e_1, gives v itself.

    >>> pair = np.array([[0.1, 0.0]])
    >>> round(effective_head_scale(0.1, pair, pair, np.array([2.0, 1.0])), 6)
    0.1
    """
    rates = np.asarray(rates, float)
    return float(1 / (rates.max() * SmallHead.from_weights(value, key, query).blow_up(rates)[0]))
