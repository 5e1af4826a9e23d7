"""A loss curve against the saddle levels of a theory: how long it stays near each, in that plateau's own time.

Levels and time scales are plain arrays, so nothing here depends on a paper's conventions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError
from .reading import finite, loss_curve

NEAR = 0.25  # of the gap to the neighboring level: a level that sampling moved by a per cent is still near

Stay = Literal["long", "short", "undecided", "not reached"]


@dataclass(frozen=True)
class LevelStay:
    """The time a curve spends near level m; see `match_plateaus`.

    Args:
        index: m.
        level: the loss at the saddle.
        time: time spent within a quarter of the gap to the neighboring levels.
        own: the same in the plateau's own time scale.
        left: whether the curve went on below it; where it did not, `time` is a lower bound.
        stay: ``long`` (conspicuous), ``short``, ``undecided`` (the run ended before it was long), ``not reached``.
    """

    index: int
    level: float
    time: float
    own: float
    left: bool
    stay: Stay


@dataclass(frozen=True)
class SaddleMatch:
    """Where a loss curve stays, and how it ends; see `match_plateaus`.

    Args:
        stays: one for every level that has a time scale, in order.
        threshold: stays of at least this many own time units are long.
        finished: the run reached the last level.
        stopped_at: the level near which the run ended (the last one if it finished; None if it ended in a drop).
        sentence: how the run ended, in words.
    """

    stays: tuple[LevelStay, ...]
    threshold: float
    finished: bool
    stopped_at: int | None
    sentence: str

    @property
    def conspicuous(self) -> tuple[int, ...]:
        """The levels at which the curve stays long."""
        return tuple(s.index for s in self.stays if s.stay == "long")

    @property
    def undecided(self) -> tuple[int, ...]:
        """The levels at which the run ended before the stay was long."""
        return tuple(s.index for s in self.stays if s.stay == "undecided")

    @property
    def own_times(self) -> Float[np.ndarray, " level"]:
        """(level) the time near each level, in its own time scale."""
        return np.array([s.own for s in self.stays])


def time_between(loss: Float[np.ndarray, " step"], time: Float[np.ndarray, " step"], low: float, high: float) -> float:
    """The time a curve, straight between its points, spends at losses between two heights.

    Args:
        loss: (point) the curve.
        time: (point) of each point.
        low, high: the heights.

    Returns:
        The time.

    >>> time_between(np.array([4.0, 0.0]), np.array([0.0, 1.0]), 1.0, 2.0)
    0.25
    """
    bottom, top = np.minimum(loss[:-1], loss[1:]), np.maximum(loss[:-1], loss[1:])
    height = top - bottom
    overlap = np.clip(np.minimum(top, high) - np.maximum(bottom, low), 0, None)
    flat = (height == 0) & (bottom >= low) & (bottom <= high)
    share = np.where(flat, 1.0, overlap / np.where(height == 0, 1.0, height))
    return float(share @ np.diff(time))


def long_stay(first: float, gap: float, scale: float, levels: int, rank: int | None = None) -> float:
    """The longest a plateau can be that no new head ends, in own time units: (1 + ln(t₀ v D)) / v (our derivation).

    A new head starts from weights of the size v₀ of the initialization and needs a time 1/v₀, as on the first plateau:
    t₀ = 1/v₀. A new pair in a head that has grown to v meets a linear instability of rate v instead: it needs
    ln(v/a₀)/v, with a₀ ≥ v₀/(eD) the part of its initial weights along one of D directions, and one e-folding to spare
    for unlucky ones. The value of a grown head follows from the first drop, whose size is v³/scale by (16)-(21) of
    zhang2025: v = (gap · scale)^⅓. The least is four e-foldings, what two drops take themselves: where even the first
    plateau is short, and for rank 1, where heads have no second pair.

    For D = 8 and init 5e-3 in the public code's conventions this is 15 to 17. The e-folding to spare and the exception
    for rank 1 were set with such runs in view: new pairs make stays below 12 there, new heads mostly above 45.

    Args:
        first: own time near the first level, t₀.
        gap: loss between the first two levels.
        scale: own time scale of the first level, τ/(gain · λ₁²), with time measured in units of τ.
        levels: D.
        rank: R, where it is known.

    Returns:
        The duration, in units of τ/(gain · λ²) of the plateau in question.

    >>> round(long_stay(first=200.0, gap=0.19, scale=0.65, levels=8), 1)
    15.4
    """
    value = (gap * scale) ** (1 / 3)
    pair = 0.0 if rank == 1 else 1 + np.log(max(first * value * levels, 1.0))
    return float(max(pair, 4.0) / value)


def match_plateaus(
    loss: Any,
    levels: Any,
    time_scales: Any,
    *,
    time: Any = None,
    rank: int | None = None,
    threshold: float | None = None,
) -> SaddleMatch:
    """How long a loss curve stays near each saddle level of a theory, and where it ended.

    Args:
        loss: (point) the curve, or a Trace.
        levels: (D + 1) L(M_0) > L(M_1) > … > L(M_D), the last being the minimum (zhang2025, (19)).
        time_scales: (D) τ/(gain · λ_{m+1}²) for m = 0 … D-1: the gain is 1 where the model sees β̂ = (1/N) Σ y x, and N
            where it sees the sum. In the units of `time`; the default threshold needs those to be t/τ.
        time: (point) of each point (default: a Trace's own t/τ, or 0, 1, …).
        rank: R of the model, where it is known: heads of rank 1 have no second pair to grow.
        threshold: own time units from which a stay is long; by default what `long_stay` derives from the first plateau.

    Returns:
        The stays, and how the run ended.

    >>> t = np.linspace(0, 200, 4001)
    >>> curve = 1.5 / (1 + np.exp(t - 80)) + 1 / (1 + np.exp(t - 150)) + 0.5 / (1 + np.exp(t - 151)) + 1
    >>> match = match_plateaus(curve, [4, 2.5, 1.5, 1], [1, 1, 1], time=t)
    >>> match.conspicuous, match.finished
    ((0, 1), True)
    """
    curve, times = loss_curve(loss, time)
    heights, scales = finite("the levels", levels, 1), finite("the time scales", time_scales, 1)
    if heights.size < 2 or not (np.diff(heights) < 0).all():
        raise IclearnError(f"levels must be at least two, each below the one before, not {heights.tolist()}")
    if scales.size != heights.size - 1 or not (scales > 0).all():
        raise IclearnError(
            f"{heights.size} levels need {heights.size - 1} positive time scales (the last level is the minimum), "
            f"not {scales.tolist()}"
        )
    gaps = -np.diff(heights)
    above = np.append(gaps[0], gaps)  # over the first level, as far as below it
    upper, lower = heights + NEAR * above, np.append(heights[:-1] - NEAR * gaps, -np.inf)
    near = [time_between(curve, times, lower[m], upper[m]) for m in range(scales.size)]
    lowest = float(curve.min())
    if threshold is None:
        threshold = long_stay(near[0] / scales[0], gaps[0], scales[0], scales.size, rank)
    stays = []
    for m, spent in enumerate(near):
        own, left = spent / float(scales[m]), bool(lowest < lower[m])
        stay: Stay = "undecided" if lowest <= upper[m] else "not reached"
        if own >= threshold:
            stay = "long"
        elif left:
            stay = "short"
        stays.append(LevelStay(m, float(heights[m]), spent, own, left, stay))
    ended = float(np.median(curve[-max(1, curve.size // 100) :]))
    stopped = next((m for m in range(heights.size) if lower[m] <= ended <= upper[m]), None)
    finished = stopped == heights.size - 1
    if finished:
        words = f"finished: reached the last level {heights[-1]:.6g}"
    elif stopped is None:
        place = "above the first level" if ended > upper[0] else "in a drop"
        words = f"unfinished: ended {place} at {ended:.6g}"
    else:
        words = f"unfinished: stopped on plateau {stopped} at {heights[stopped]:.6g}"
    return SaddleMatch(tuple(stays), threshold, finished, stopped, words)
