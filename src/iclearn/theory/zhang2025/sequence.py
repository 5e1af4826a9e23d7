"""The sequence of drops of separate attention: which head learns which eigenvector, when, and how fast.

Between drops, small heads follow the cubic flow of `escape`; a drop by a new head follows (21). In a head
of rank R > 1 that has grown, v is of order one, so its unused pairs grow exponentially, κ̇ = κ v (g λ² − g²
λ³ a v κ²): a logistic curve for κ² and a brief plateau. Everything is to leading order in small initial
weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from .escape import SmallHead
from .population import Spectrum, check_sizes, spectrum
from .saddles import fixed_point_weights, learned_components
from .scalar import HALF_LOSS, drop_duration
from .weights import SeparateWeights

# ∫ v dt of (21) long after its drop, extrapolated back to its blow-up time 1/(g λ² v_0), is
# [ln(v*/v_0) + _LEAD]/(g λ²).
_LEAD = 1 - np.log(3) / 2 + np.pi / (6 * 3**0.5)
_HALF_LOGISTIC = HALF_LOSS**3


@dataclass(frozen=True)
class Drop:
    """Eigenvector `component` (from 0) is learned by `head`, a new head or a new pair of a grown one.

    `start` is when its plateau begins, `time` when half of the drop in the loss is done. `v_0` is the scale
    at `start` that (21) grows from (new head), or κ = ‖k‖ = ‖q‖ of the pair (new pair); `limit` is v* or
    κ*, where it ends; `rate` is the inverse of its unit of time: g λ² v* for a new head, the growth rate of
    κ for a new pair. `sign` is that of the head's v.
    """

    component: int
    head: int
    new_head: bool
    start: float
    time: float
    v_0: float
    limit: float
    rate: float
    sign: int = 1


@dataclass
class _Grown:
    """A grown head: its value, what it holds, and the modes (k ± q)/√2 of its unused pairs (rank, dim)."""

    value: float
    modes: np.ndarray
    sign: int
    held: list[int] = field(default_factory=list)

    def hold(self, component: int, target: np.ndarray) -> None:
        """Take the pair direction of `component`, leaving to the other modes what is orthogonal to it."""
        taken = self.modes[:, component]
        norm = np.linalg.norm(taken)
        if norm > 0:
            self.modes = self.modes - np.outer(taken, taken @ self.modes) / norm**2
        self.held.append(component)
        self.value = float(target[self.held].sum() ** (1 / 3))


class _Race:
    """Who escapes next? Holds all heads at the time `now`, in the eigenbasis."""

    def __init__(self, small: dict[int, SmallHead], values: np.ndarray, context_len: float, gain: float, rank: int):
        check_sizes(context_len, gain)
        self.small, self.grown = small, dict[int, _Grown]()
        self.values, self.context_len, self.gain, self.rank = values, context_len, gain, rank
        self.target = fixed_point_weights(range(len(values)), values, context_len, gain=gain)
        self.now, self.learned = 0.0, 0

    def rates(self) -> np.ndarray:
        """Force left on each eigenvector, c_d = g λ_d² or 0 where it is learned."""
        rates = self.gain * self.values**2
        rates[: self.learned] = 0
        return rates

    def _pass(self, span: float) -> None:
        rates = self.rates()
        self.small = {h: head.after(span, rates) for h, head in self.small.items()}
        for grown in self.grown.values():
            if len(grown.held) < self.rank:
                grown.modes = grown.modes * np.exp(rates * grown.value * span)
        self.now += float(span)
        self.learned += 1

    def _pair(self, head: int) -> tuple[float, float, float]:
        """(κ_0, κ*, growth rate of κ) of the next pair of a grown head."""
        grown, d = self.grown[head], self.learned
        full = float(self.target[[*grown.held, d]].sum() ** (1 / 3))
        kappa = float(np.linalg.norm(grown.modes[:, d]) / 2**0.5)
        return kappa, float((self.target[d] / full) ** 0.5), float(self.rates()[d] * grown.value)

    def pair_span(self, head: int) -> float:
        """∫(1 − κ²/κ*²)dt: time until the force is gone if this head's next pair learns next."""
        kappa, full, rate = self._pair(head)
        return max(0.0, np.log(full / kappa) / rate) if kappa > 0 else np.inf

    def head_span(self, blow_up: float) -> float:
        """The same for a head that blows up after t_b: ∫(1 − v³/v*³)dt = t_b − 1/(g λ² v*) under (21)."""
        d = self.learned
        return max(0.0, blow_up - 1 / (self.rates()[d] * self.target[d] ** (1 / 3)))

    def grow_pair(self, head: int) -> Drop:
        d, start, span = self.learned, self.now, self.pair_span(head)
        kappa, full, rate = self._pair(head)
        y_0, y = min((kappa / full) ** 2, _HALF_LOGISTIC), _HALF_LOGISTIC
        wait = (np.log(y / (1 - y)) - np.log(y_0 / (1 - y_0))) / (2 * rate)
        self._pass(span)
        self.grown[head].hold(d, self.target)
        return Drop(d, head, False, start, float(start + wait), kappa, full, rate, self.grown[head].sign)

    def grow_head(self, head: int, v_0: float, modes: np.ndarray, sign: int = 1) -> Drop:
        d, start, rates = self.learned, self.now, self.rates()
        v_star = float(self.target[d] ** (1 / 3))
        wait = drop_duration(self.values[d], self.values.sum(), self.context_len, v_0, gain=self.gain)
        self._pass(self.head_span(1 / (rates[d] * v_0)))
        travelled = np.log(2**0.5 * v_star / np.linalg.norm(modes[:, d])) + _LEAD - 1
        self.grown[head] = _Grown(v_star, modes * np.exp(rates / rates[d] * max(0.0, float(travelled))), sign)
        self.grown[head].hold(d, self.target)
        return Drop(d, head, True, start, start + wait, v_0, v_star, float(rates[d] * v_star), sign)

    def next_drop(self) -> Drop:
        rates = self.rates()
        ends = {h: head.blow_up(rates) for h, head in self.small.items()}
        spans = {h: self.head_span(end) for h, (end, _) in ends.items()}
        spans |= {h: self.pair_span(h) for h, grown in self.grown.items() if len(grown.held) < self.rank}
        winner = min(spans, key=lambda h: spans[h])
        if not np.isfinite(spans[winner]):
            raise IclearnError("no head leaves zero from these weights: give every head some initial weights")
        if winner in self.grown:
            return self.grow_pair(winner)
        head, (end, sign) = self.small.pop(winner), ends[winner]
        modes = head.plus if sign > 0 else head.minus
        return self.grow_head(winner, float(1 / (rates[self.learned] * end)), modes, sign)


def drop_sequence(
    weights: SeparateWeights,
    eigenvalues: Spectrum,
    context_len: float,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    count: int | None = None,
) -> list[Drop]:
    """The drops that gradient flow makes from these small initial weights, in order.

    On each plateau every small head is a candidate, with the blow-up time of its own weights; so is each
    grown head with an unused pair. The first to escape learns the largest eigenvector left, the force on it
    vanishes, and the others go on from where they are.

    Args:
        basis: eigenvectors as columns, in the order of decreasing eigenvalues (default: the axes).
        count: the first so many drops only (default: all that the heads have room for).
    """
    values = spectrum(eigenvalues)
    own = weights if basis is None else weights.rotated(jnp.asarray(basis, float))
    num_heads, rank, dim = own.key.shape
    if dim != len(values):
        raise IclearnError(f"{len(values)} eigenvalues were given for weights of dim {dim}")
    rows = zip(np.asarray(own.value), np.asarray(own.key), np.asarray(own.query), strict=True)
    race = _Race({h: SmallHead.from_weights(*row) for h, row in enumerate(rows)}, values, context_len, gain, rank)
    room = learned_components(dim, rank, num_heads)
    return [race.next_drop() for _ in range(room if count is None else min(count, room))]


def typical_sequence(
    eigenvalues: Spectrum,
    context_len: float,
    v_0: float | Sequence[float],
    *,
    num_heads: int,
    rank: int = 1,
    gain: float = 1.0,
) -> list[Drop]:
    """The drops when the scale of each new head at the start of its plateau is known, and nothing else.

    The durations add up: a plateau left by a new head lasts about τ/(g λ² v_0), one left by a new pair only
    ln(1/v_0) times the unit of its growth.

    Args:
        v_0: one scale for all heads, or one for each head in the order in which they grow.
    """
    values = spectrum(eigenvalues)
    room = learned_components(len(values), rank, num_heads)
    needed = -(-room // rank)
    scales = np.broadcast_to(np.asarray(v_0, float), (needed,)) if np.ndim(v_0) == 0 else np.asarray(v_0, float)
    if len(scales) < needed or not (scales > 0).all():
        raise IclearnError(f"v_0 needs {needed} positive head scales for these sizes, not {np.asarray(v_0).tolist()}")
    race = _Race({}, values, context_len, gain, rank)
    drops = []
    for m in range(room):
        head = m // rank
        if m % rank:
            drops.append(race.grow_pair(head))
        else:
            modes = np.zeros((rank, len(values)))
            pairs = np.arange(min(rank, len(values) - m))
            modes[pairs, m + pairs] = 2**0.5 * scales[head]
            drops.append(race.grow_head(head, float(scales[head]), modes))
    return drops
