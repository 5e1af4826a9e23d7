"""The sequence of drops of separate attention: which head learns which eigenvector, when, and how fast.

Between drops, small heads follow the cubic flow of `escape`; a drop by a new head follows (21). In a head of rank R > 1
that has grown, v is of order one, so its unused pairs k = q = κ e_d grow exponentially, κ̇ = κ v (g λ² − g² λ³ a v κ²)
by (14b): a logistic curve for κ² and a brief plateau. Everything is to leading order in small initial weights. Many
runs are followed at once; one run is a batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from .escape import SmallHead
from .population import Size, Spectrum, spectra, spectrum
from .saddles import learned_components
from .scalar import HALF_LOSS, fixed_value, own_wait
from .weights import SeparateWeights

# ∫ v dt of (21) long after its drop, extrapolated back to its blow-up time 1/(g λ² v_0), is
# [ln(v*/v_0) + _LEAD]/(g λ²).
_LEAD = 1 - np.log(3) / 2 + np.pi / (6 * 3**0.5)
_HALF_LOGISTIC = HALF_LOSS**3


@dataclass(frozen=True)
class Drop:
    """One drop of the loss: an eigenvector is learned by a new head, or by a new pair of a grown head.

    Args:
        component: the eigenvector, counted from 0 in the order of decreasing eigenvalues.
        head: the head that learns it.
        new_head: whether the head was small before; else it is a new pair of a grown head.
        start: t/τ at which its plateau begins.
        time: t/τ at which half of the drop in the loss is done.
        v_0: the scale at `start` that (21) grows from (new head), or κ = ‖k‖ = ‖q‖ of the pair (new pair).
        limit: v* or κ*, where `v_0` ends.
        rate: the inverse of its unit of time: g λ² v* for a new head, the growth rate of κ for a new pair.
        sign: of the head's v.

    >>> drop = typical_sequence([1.0], 31, 0.01, num_heads=1)[0]
    >>> drop.component, drop.new_head, round(drop.time, 2)
    (0, True, 98.72)
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


_NAMES = [field.name for field in fields(Drop)]


@dataclass(frozen=True)
class Drops:
    """The drops of many runs: the fields of `Drop` as arrays (run, drop); see `drop_sequences`.

    `component` (drop) is the same in all runs.
    """

    component: np.ndarray
    head: np.ndarray
    new_head: np.ndarray
    start: np.ndarray
    time: np.ndarray
    v_0: np.ndarray
    limit: np.ndarray
    rate: np.ndarray
    sign: np.ndarray

    @staticmethod
    def together(runs: Sequence[Sequence[Drop]]) -> Drops:
        """The drops of runs that learn the same components."""
        columns = {name: np.array([[getattr(drop, name) for drop in drops] for drops in runs]) for name in _NAMES}
        return Drops(**columns | {"component": columns["component"][0]})

    @staticmethod
    def in_turn(drops: Sequence[Drops]) -> Drops:
        """One drop after another of the same runs."""
        return Drops(*(np.concatenate([getattr(drop, name) for drop in drops], -1) for name in _NAMES))

    def of(self, run: int) -> list[Drop]:
        """The list of `Drop` of one run."""
        columns = [getattr(self, name)[run].tolist() for name in _NAMES[1:]]
        return [Drop(*row) for row in zip(self.component.tolist(), *columns, strict=True)]


class _Race:
    """All heads of all runs at the times `now` (run), in the eigenbasis: who escapes next, and what follows.

    Each drop is of the same eigenvector in every run. A small head has `value`, `plus` and `minus` as in
    `SmallHead`; a grown one has `value`, what it holds, the drop it grew in, and in `plus` the modes (k ± q)/√2
    of its unused pairs. Their axes begin with run and head.
    """

    def __init__(self, small: SmallHead, values: np.ndarray, context_len: Size, gain: float, noise: float):
        runs, heads, self.rank, self.dim = small.plus.shape
        self.value, self.plus, self.minus = np.array(small.value), small.plus.copy(), small.minus.copy()
        self.grown, self.held = np.zeros((runs, heads), bool), np.zeros((runs, heads, self.dim), bool)
        self.sign, self.drop = np.ones((runs, heads), int), np.zeros((runs, heads), int)
        self.v_star = np.asarray(fixed_value(values, values.sum(-1, keepdims=True) + noise, context_len, gain=gain))
        self.target, self.force = self.v_star**3, gain * values**2
        self.now, self.learned, self.runs = np.zeros(runs), 0, np.arange(runs)

    def rates(self) -> np.ndarray:
        """Force left on each eigenvector (run, dim), c_d = g λ_d² or 0 where it is learned."""
        return np.where(np.arange(self.dim) < self.learned, 0, self.force)

    def small(self) -> tuple[tuple[np.ndarray, ...], SmallHead, np.ndarray]:
        """The heads that are small, in a row: where they are (run, head), themselves, and the rates of each.

        Only with the eigenvectors that are not learned yet: the others do not move.
        """
        at, left = np.nonzero(~self.grown), slice(self.learned, None)
        heads = SmallHead(self.value[at], self.plus[at][..., left], self.minus[at][..., left])
        return at, heads, self.force[at[0], left]

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(κ_0, κ*, growth rate of κ, span) of the next pair of every head (run, head).

        The span is ∫(1 − κ²/κ*²)dt, the time until the force is gone if this pair learns next; infinite where
        a head is small or has no pair left.
        """
        d = self.learned
        target = self.target[:, None]
        value = ((self.held * target).sum(-1) + target[:, :, d]) ** (1 / 3)
        kappa, full = np.linalg.norm(self.plus[..., d], axis=-1) / 2**0.5, np.sqrt(target[:, :, d] / value)
        rate = self.force[:, None, d] * self.value
        able = self.grown & (self.held.sum(-1) < self.rank) & (kappa > 0)
        ratio = np.where(able, full, 1) / np.where(able, kappa, 1)
        span = np.where(able, np.maximum(0, np.log(ratio) / np.where(able, rate, 1)), np.inf)
        return kappa, full, rate, span

    def head_span(self, blow_up: np.ndarray) -> np.ndarray:
        """The same for heads (run, …) that blow up after t_b: ∫(1 − v³/v*³)dt = t_b − 1/(g λ² v*) under (21)."""
        unit = 1 / (self.force * self.v_star)[:, self.learned]
        return np.maximum(0, blow_up - unit.reshape(-1, *[1] * (blow_up.ndim - 1)))

    def _pass(self, span: np.ndarray) -> None:
        """Let the time `span` (run) pass, at the end of which the next eigenvector is learned."""
        room = self.grown & (self.held.sum(-1) < self.rank)
        growth = self.rates()[:, None] * (np.where(room, self.value, 0) * span[:, None])[..., None]
        self.plus = self.plus * np.exp(growth)[:, :, None]
        if self.learned + 1 < self.dim:  # else nothing drives them any more
            at, heads, rates = self.small()
            later, left = heads.after(span[at[0]], rates), (*at, slice(None), slice(self.learned, None))
            self.value[at], self.plus[left], self.minus[left] = later.value, later.plus, later.minus
        self.now = self.now + span
        self.learned += 1

    def grow(self, head: np.ndarray, pair: np.ndarray, v_0: np.ndarray, modes: np.ndarray, sign: np.ndarray) -> Drops:
        """The next drop of every run, by `head`: its next pair where `pair`, else the head, whose scale is `v_0`.

        Args:
            modes: the growing modes (run, rank, dim) of the new heads.
        """
        d, start, rates, at = self.learned, self.now, self.rates(), (self.runs, head)
        kappa, full, speed, spans = (table[at] for table in self.pairs())
        v_0, limit = np.where(pair, kappa, v_0), np.where(pair, full, self.v_star[:, d])
        rate = np.where(pair, speed, rates[:, d] * limit)
        self.grown[at], new, old = True, np.nonzero(~pair)[0], np.nonzero(pair)[0]

        wait = np.zeros(len(start))
        wait[new] = own_wait((v_0 / limit)[new])
        y_0, y = np.minimum((v_0 / limit)[old] ** 2, _HALF_LOGISTIC), _HALF_LOGISTIC
        wait[old] = (np.log(y / (1 - y)) - np.log(y_0 / (1 - y_0))) / 2
        self._pass(np.where(pair, spans, self.head_span(1 / (rates[:, d] * v_0))))

        if len(new):
            size = np.linalg.norm(modes[new, :, d], axis=-1)
            traveled = np.maximum(0, np.log(2**0.5 * self.v_star[new, d] / size) + _LEAD - 1)
            growth = rates[new] / rates[new, d, None] * traveled[:, None]
            self.plus[new, head[new]] = modes[new] * np.exp(growth)[:, None]
            self.sign[new, head[new]], self.drop[new, head[new]] = sign[new], d
        self._hold(at, d)
        columns = (head, ~pair, start, start + wait / rate, v_0, limit, rate, self.sign[at])
        return Drops(np.array([d]), *(column[:, None] for column in columns))

    def _hold(self, at: tuple[np.ndarray, np.ndarray], component: int) -> None:
        """Heads take the pair direction of `component`, leaving to the other modes what is orthogonal to it."""
        modes = self.plus[at]
        taken = modes[..., component]
        norm = np.linalg.norm(taken, axis=-1, keepdims=True)
        taken = taken / np.where(norm > 0, norm, 1)
        self.plus[at] = modes - taken[:, :, None] * np.einsum("nr,nrd->nd", taken, modes)[:, None]
        self.held[(*at, component)] = True
        self.value[at] = (self.held[at] * self.target).sum(-1) ** (1 / 3)

    def next_drop(self) -> Drops:
        at, heads, rates = self.small()
        ends, signs = np.full(self.grown.shape, np.inf), np.ones(self.grown.shape, int)
        ends[at], signs[at] = heads.blow_up(rates)
        ages = np.argsort(self.drop, 1, kind="stable")  # where several are there at once: small heads, then the oldest
        spans = np.concatenate([self.head_span(ends), np.take_along_axis(self.pairs()[-1], ages, 1)], 1)
        winner, count = spans.argmin(1), ends.shape[1]
        if not np.isfinite(spans[self.runs, winner]).all():
            raise IclearnError("no head leaves zero from these weights: give every head some initial weights")
        pair = winner >= count
        head = np.where(pair, ages[self.runs, winner % count], winner % count)
        own = (self.runs, head)
        modes = np.where((signs[own] > 0)[:, None, None], self.plus[own], self.minus[own])
        v_0 = 1 / np.where(pair, 1.0, self.force[:, self.learned] * ends[own])
        return self.grow(head, pair, v_0, modes, signs[own])


def drop_sequences(
    weights: SeparateWeights,
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
    count: int | None = None,
) -> Drops:
    """`drop_sequence` of many runs at once.

    Args:
        weights: with a leading axis of runs.
        eigenvalues: of all runs (dim), or a row for each (run, dim).
        context_len, basis, gain, noise, count: see `drop_sequence`.

    Returns:
        The drops, as arrays over runs and drops.

    >>> from iclearn.theory.zhang2025 import random_separate
    >>> one = random_separate(dim=2, num_heads=3, rank=1, init=0.01, seed=0)
    >>> two = SeparateWeights(*(jnp.stack([part, 2 * part]) for part in (one.value, one.key, one.query)))
    >>> drops = drop_sequences(two, [0.6, 0.4], 31)
    >>> drops.component.tolist(), (drops.time[0] > drops.time[1]).tolist()
    ([0, 1], [True, True])
    """
    own = weights if basis is None else weights.rotated(jnp.asarray(basis, float))
    runs, num_heads, rank, dim = own.key.shape
    values = spectra(eigenvalues, runs)
    if dim != values.shape[1]:
        raise IclearnError(f"{values.shape[1]} eigenvalues were given for weights of dim {dim}")
    small = SmallHead.from_weights(*(np.asarray(part, float) for part in (own.value, own.key, own.query)))
    race = _Race(small, values, context_len, gain, noise)
    room = learned_components(dim, rank, num_heads)
    return Drops.in_turn([race.next_drop() for _ in range(room if count is None else min(count, room))])


def drop_sequence(
    weights: SeparateWeights,
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
    count: int | None = None,
) -> list[Drop]:
    """The drops that gradient flow makes from given small initial weights, in order.

    On each plateau every small head is a candidate, with the blow-up time of its own weights (`SmallHead.blow_up`); so
    is each grown head with an unused pair. The first to escape learns the largest eigenvector left, the force on it
    vanishes, and the others go on from where they are.

    Args:
        weights: (head) and (head, rank, dim).
        eigenvalues: (dim) of Λ.
        context_len: N.
        basis: (dim, dim) eigenvectors as columns, in the order of decreasing eigenvalues (default: the axes).
        gain: g, see `gain_of`.
        noise: σ², see `inflation`; it changes where a drop ends and how fast, not which head escapes.
        count: the first so many drops only (default: all that the heads have room for).

    Returns:
        A `Drop` for each eigenvector that is learned.

    >>> from iclearn.theory.zhang2025 import random_separate
    >>> drops = drop_sequence(random_separate(dim=2, num_heads=3, rank=1, init=0.01, seed=0), [0.6, 0.4], 31)
    >>> [drop.component for drop in drops], len({drop.head for drop in drops})
    ([0, 1], 2)
    """
    one = SeparateWeights(weights.value[None], weights.key[None], weights.query[None])
    how = {"basis": basis, "gain": gain, "noise": noise, "count": count}
    return drop_sequences(one, spectrum(eigenvalues), context_len, **how).of(0)


def typical_sequence(
    eigenvalues: Spectrum,
    context_len: Size,
    v_0: Spectrum | float,
    *,
    num_heads: int,
    rank: int = 1,
    gain: float = 1.0,
    noise: float = 0.0,
) -> list[Drop]:
    """The drops when only the scale of each new head at the start of its plateau is known.

    The durations add up: a plateau left by a new head lasts about τ/(g λ² v_0), one left by a new pair only ln(1/v_0)
    times the unit of its growth.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        v_0: one scale for all heads, or one for each head in the order in which they grow.
        num_heads: H.
        rank: R.
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.

    Returns:
        A `Drop` for each eigenvector that is learned.

    >>> drops = typical_sequence([0.6, 0.4], 31, 0.01, num_heads=2)
    >>> [round(drop.time - drop.start) for drop in drops]  # 1/(λ² v_0) = 278 and 625
    [275, 619]
    """
    values = spectrum(eigenvalues)
    room = learned_components(len(values), rank, num_heads)
    needed = -(-room // rank)
    scales = np.broadcast_to(np.asarray(v_0, float), (needed,)) if np.ndim(v_0) == 0 else np.asarray(v_0, float)
    if len(scales) < needed or not (scales > 0).all():
        raise IclearnError(f"v_0 needs {needed} positive head scales for these sizes, not {np.asarray(v_0).tolist()}")
    nothing = np.zeros((1, needed, rank, len(values)))
    race = _Race(SmallHead(nothing[:, :, 0, 0], nothing, nothing), values[None], context_len, gain, noise)
    drops = []
    for m in range(room):
        head, modes = m // rank, np.zeros((1, rank, len(values)))
        pairs = np.arange(min(rank, len(values) - m))
        modes[0, pairs, m + pairs] = 2**0.5 * scales[head]
        drops.append(race.grow(np.array([head]), np.array([m % rank > 0]), scales[[head]], modes, np.array([1])))
    return Drops.in_turn(drops).of(0)
