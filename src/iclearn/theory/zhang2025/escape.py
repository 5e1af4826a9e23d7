"""How small heads leave a plateau: the cubic flow near zero, solved from any initial weights, many heads at once.

While the effective matrix of the small heads is negligible the force F is constant and diagonal in the eigenbasis,
c_d = g λ_d² for eigenvectors not learned yet and 0 for the others, and each head moves alone by (14a-c):
v̇ = Σ c_d k_d·q_d, k̇_d = c_d v q_d, q̇_d = c_d v k_d. With p = (k + q)/√2, n = (k − q)/√2 and θ = ∫ v dt,

    p_d ∝ e^{c_d θ},   n_d ∝ e^{−c_d θ},   v̇ = Σ_d c_d (|p_d|² − |n_d|²)/2.

So v dv/dθ is a function of θ, and with a_d = |p_d|², b_d = |n_d|² at θ = 0 it integrates to

    v² = v_0² + ½ Σ_d [a_d (e^{2 c_d θ} − 1) + b_d (e^{−2 c_d θ} − 1)],      t = ∫ dθ/|v|.

θ moves like a particle in one dimension in the potential −½ v², a concave hill: it passes the top, or turns once where
v = 0 and comes back with the other sign of v. Either way it reaches infinity at a finite time t_b, aligned with the
largest c_d. Equation (21) blows up at 1/(g λ² v_0), so the v_0 it needs for these weights is 1/(g λ² t_b). This is our
derivation; the paper leaves v_0 open.

The time is summed by Gauss's rule over intervals no longer than the distance to the nearest complex zero of v², from
the start or from the turning point, with θ = y² there to take away the root; it is exact to 1e-9 and mostly to
rounding. A head that would come to rest at the top exactly takes as long as rounding lets it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import IclearnError

_NODES, _GAUSS = np.polynomial.legendre.leggauss(16)
_ROUNDING = 4e-16
_STRETCHES = 10_000  # some 20 are enough
_LEFT = 1e-9  # stop when the time left, which is known to leading order, is this small a part of the time gone


@dataclass(frozen=True)
class _Way:
    """Heads that move up in θ from x = 0: v² there, a, b and c (dim, head); in units where all is of order one."""

    square: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def of(self, heads: np.ndarray) -> _Way:
        return _Way(self.square[heads], self.a[:, heads], self.b[:, heads], self.c[:, heads])

    def moved(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """a and b at x."""
        grown = np.exp(np.minimum(2 * self.c * x, 700.0))
        return self.a * grown, self.b / grown

    def squares(self, x: np.ndarray) -> np.ndarray:
        """v² at x (head, point), without cancellation near x = 0."""
        more = np.expm1(np.minimum(2 * self.c[:, :, None] * x, 700.0))
        gained = (more * (self.a[:, :, None] - self.b[:, :, None] / (1 + more))).sum(0)
        least = np.maximum(1e-17 * self.square, 1e-300)  # at the top of the hill only rounding can go below
        return np.maximum(self.square[:, None] + gained / 2, least[:, None])

    def slope(self, x: np.ndarray) -> np.ndarray:
        """dv²/dx at x."""
        a, b = self.moved(x)
        return (self.c * (a - b)).sum(0)

    def times(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """∫ dx/v from one x to another, close enough for one rule of Gauss in y = √x."""
        low, high = np.sqrt(first)[:, None], np.sqrt(last)[:, None]
        y = (low + high) / 2 + (high - low) / 2 * _NODES
        return ((high - low) * y / np.sqrt(self.squares(y * y))) @ _GAUSS

    def stretch(self, x: np.ndarray) -> np.ndarray:
        """How far from x the next complex zeros of v², and the scale of the exponentials, allow `times` to go.

        Infinite where nothing drives the head any more.
        """
        a, b = self.moved(x)
        square = self.squares(x[:, None])[:, 0]
        slope, bend = (self.c * (a - b)).sum(0), 2 * (self.c**2 * (a + b)).sum(0)
        present = (self.a > 0) | (b > 1e-17 * square)
        fastest = np.where(present, self.c, 0).max(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            widest = 2 / fastest
            local = np.minimum(square / np.abs(slope) * np.where(slope > 0, 4.0, 1.2), 2.7 * np.sqrt(square / bend))
            other = 2 * slope / bend  # from a turning point to the zero behind it
        first = np.where(slope > 0, np.maximum(local, np.where(self.square > 0, 1e-18, 1.0) * other), local)
        step = np.where(x > 0, np.maximum(local, 1e-9 * x), first)
        return np.where(fastest > 0, np.minimum(step, widest), np.inf)

    def inside(self, first: np.ndarray, last: np.ndarray, share: np.ndarray, span: np.ndarray) -> np.ndarray:
        """x between two points, `span` after the first; `share` is span over the time to the last."""
        low, high = np.sqrt(first), np.sqrt(last)
        whole, y = high - low, low + share * (high - low)
        for _ in range(60):
            rest = span - self.times(first, y * y)
            low, high = np.where(rest > 0, y, low), np.where(rest > 0, high, y)
            step = rest * np.sqrt(self.squares(y[:, None] ** 2)[:, 0]) / (2 * np.maximum(y, 1e-300))
            new = y + step
            new = np.where((new >= low) & (new <= high), new, (low + high) / 2)
            close, y = np.abs(new - y) <= 1e-8 * whole, new
            if close.all():  # the error of Newton's method is as the square of its last step
                break
        return y * y

    def march(self, far: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(x, time) when heads reach x = `far` or the time `end`, or blow up; time is inf if none of it comes."""
        x, t = np.zeros_like(self.square), np.zeros_like(self.square)
        left = np.arange(len(x))
        for _ in range(_STRETCHES):
            own, here, now = self.of(left), x[left], t[left]
            there = np.minimum(here + own.stretch(here), far[left])
            drifts = np.isinf(there)  # at a constant speed, for ever
            there = np.where(drifts, here, there)
            span = own.times(here, there)
            late = ~drifts & (now + span >= end[left])
            if late.any():
                rest = (end[left] - now)[late]
                there[late] = own.of(late).inside(here[late], there[late], rest / span[late], rest)
                span[late] = rest
            if drifts.any():
                speed, span[drifts] = np.sqrt(own.squares(here[:, None])[:, 0]), (end[left] - now)[drifts]
                there[drifts] = (here + np.where(np.isfinite(end[left]), end[left] - now, 0) * speed)[drifts]
            x[left], t[left] = there, now + span
            slope = own.slope(there)
            rest = 2 * np.sqrt(own.squares(there[:, None])[:, 0]) / np.where(slope > 0, slope, 1e-300)
            out = (rest < _LEFT * t[left]) & ~late
            t[left[out]] += rest[out]
            left = left[~(late | drifts | out | (there >= far[left]))]
            if not len(left):
                return x, t
        raise IclearnError(f"{len(left)} heads cannot be followed: their weights differ too much in size")

    def turning(self) -> np.ndarray:
        """Where heads turn, v = 0; NaN where they go on, or creep to rest.

        Newton's method from below: v² is convex, so it goes no further than the zero, or finds v² rising.
        """
        x, turns = np.zeros_like(self.square), np.zeros(len(self.square), bool)
        left = np.flatnonzero(self.slope(x) < 0)
        for _ in range(200):
            own, here = self.of(left), x[left]
            square, slope = own.squares(here[:, None])[:, 0], own.slope(here)
            falls = slope < 0
            step = square / np.where(falls, np.maximum(-slope, 1e-290), 1.0)
            blur = _ROUNDING * (2 * own.square + (own.b * np.minimum(2 * own.c * here, 1)).sum(0))
            found = falls & ((square <= blur) | (step <= _ROUNDING * here))
            turns[left[found & (slope < -10 * _ROUNDING)]] = True
            left, step = left[falls & ~found], step[falls & ~found]
            x[left] = np.minimum(x[left] + step, 1e300)
            if not len(left):
                break
        return np.where(turns, x, np.nan)


@dataclass(frozen=True)
class SmallHead:
    """A head near zero, in the eigenbasis: it moves as if it were alone, and escapes in a finite time.

    All three arrays may have the same leading axes: then it is many heads, and what is asked of them has these axes.

    Args:
        value: (…) v.
        plus: (…, rank, dim) (k + q)/√2, the modes that grow for v > 0.
        minus: (…, rank, dim) (k − q)/√2, the modes that grow for v < 0.

    >>> pair = np.array([[0.1, 0.0]])
    >>> time, sign = SmallHead.from_weights(0.1, pair, pair).blow_up(np.array([2.0, 1.0]))
    >>> round(float(time), 6), int(sign)  # 1/(c_1 v) for an aligned head
    (5.0, 1)
    """

    value: float | np.ndarray
    plus: np.ndarray
    minus: np.ndarray

    @staticmethod
    def from_weights(value: float | np.ndarray, key: np.ndarray, query: np.ndarray) -> SmallHead:
        """The head with value v (…), keys and queries (…, rank, dim) in the eigenbasis."""
        root, key = 2**0.5, np.asarray(key)
        return SmallHead(np.asarray(value, float)[()], (key + query) / root, (key - query) / root)

    def _solve(self, rates: np.ndarray, until: float | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, θ, v) at `until`, or at the blow-up if that is infinite; time is inf if there is none."""
        shape, dim = np.shape(self.value), self.plus.shape[-1]
        rates = np.broadcast_to(rates, (*shape, dim)).reshape(-1, dim)
        value, until = np.reshape(self.value, -1), np.broadcast_to(until, shape).reshape(-1)
        plus, minus = (np.where(rates > 0, (m**2).sum(-2).reshape(-1, dim), 0) for m in (self.plus, self.minus))
        unit = np.sqrt(value**2 + (plus + minus).sum(-1))
        fastest = np.where(plus + minus > 0, rates, 0).max(-1)
        push = (rates * (plus - minus)).sum(-1)
        time, theta, v = np.full(len(value), np.inf), np.zeros(len(value)), np.zeros(len(value))
        free = (unit > 0) & np.isfinite(unit) & ((value != 0) | (push != 0))  # the others stay where they are
        unit, fastest, until = unit[free], np.where(fastest > 0, fastest, 1.0)[free], until[free]
        side = np.sign(np.where(value != 0, value, push))[free]
        size, clock = unit**2, unit * fastest  # in units of 1/clock everything is of order one
        plus, minus, onward = plus[free] / size[:, None], minus[free] / size[:, None], side[:, None] > 0
        ahead, behind = np.where(onward, plus, minus), np.where(onward, minus, plus)
        start = _Way(value[free] ** 2 / size, ahead.T, behind.T, (rates[free] / fastest[:, None]).T)

        top = start.turning()
        turns = np.isfinite(top)
        reach = np.where(turns, top, 0.0)
        a, b = start.moved(reach)
        way = _Way(np.where(turns, 0, start.square), np.where(turns, b, a), np.where(turns, a, b), start.c)
        gone, endless = np.zeros(len(reach)), np.full(len(reach), np.inf)  # `gone`: from the start to the turn
        gone[turns] = way.of(turns).march(reach[turns], endless[turns])[1]
        since = until * clock - gone
        x, t = way.march(endless, np.abs(since))
        back = turns & (since > 0)
        time[free] = (t + gone) / clock
        theta[free] = side * np.where(turns, reach - x, x) / fastest
        v[free] = side * np.where(back, -1, 1) * np.sqrt(way.squares(x[:, None])[:, 0]) * unit
        return time.reshape(shape), theta.reshape(shape), v.reshape(shape)

    def blow_up(self, rates: np.ndarray) -> tuple[float | np.ndarray, np.integer | np.ndarray]:
        """When the head leaves zero, t_b/τ, and with which sign of v.

        Args:
            rates: (dim) or (…, dim) c_d = g λ_d² of the eigenvectors that are not learned yet, 0 for the others.

        Returns:
            t_b/τ (…), infinite for a head that nothing drives (say v = 0 and k = 0), and the sign of v (…): with +1
            the head ends at k = q, with −1 at k = −q.
        """
        time, _, v = self._solve(np.asarray(rates, float), np.inf)
        return time[()], np.where(v >= 0, 1, -1)[()]

    def after(self, time: float | np.ndarray, rates: np.ndarray) -> SmallHead:
        """The head `time` (…) later, in units of τ and before it blows up, for the `rates` of `blow_up`."""
        rates = np.asarray(rates, float)
        _, theta, v = self._solve(rates, np.maximum(time, 0.0))
        grown = np.exp(rates * theta[..., None])[..., None, :]
        return SmallHead(v[()], self.plus * grown, self.minus / grown)


def effective_head_scale(value: float, key: np.ndarray, query: np.ndarray, rates: np.ndarray) -> float:
    """The v_0 that (21) needs for a head with these initial weights: 1/(max_d c_d · t_b), t_b of `SmallHead.blow_up`.

    An aligned head, k = q = v e_1, gives v itself.

    Args:
        value: v.
        key: (rank, dim) in the eigenbasis.
        query: (rank, dim) in the eigenbasis.
        rates: (dim) c_d = g λ_d², 0 where the eigenvector is learned.

    Returns:
        v_0.

    >>> pair = np.array([[0.1, 0.0]])
    >>> round(effective_head_scale(0.1, pair, pair, np.array([2.0, 1.0])), 6)
    0.1
    """
    rates = np.asarray(rates, float)
    return float(1 / (rates.max() * SmallHead.from_weights(value, key, query).blow_up(rates)[0]))
