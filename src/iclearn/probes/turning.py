"""Where two curves cross, and where a curve turns from falling to rising: the threshold and t* of raventos2023."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import require
from ..core.errors import IclearnError
from .reading import finite


@dataclass(frozen=True)
class Crossing:
    """Where two curves cross; see `curve_crossing`.

    Args:
        at: the place of the first crossing (NaN: there is none).
        between: the two points around it.
        count: how often they cross.
        falls: whether the first curve is above before it and below after it.
    """

    at: float
    between: tuple[float, float]
    count: int
    falls: bool


def curve_crossing(places: Any, first: Any, second: Any, *, log: bool = True) -> Crossing:
    """Where one curve crosses another, interpolated between the points.

    Args:
        places: (point) growing, e.g. sizes of the pool of tasks.
        first: (point) one curve, e.g. the distance to ridge regression after long training.
        second: (point) the other, e.g. after short training.
        log: interpolate in the logarithms of places and values, which must be positive then.

    Returns:
        The first crossing. Points at which the curves are equal count as none of a sign of their own.

    >>> found = curve_crossing([1, 4, 16], [4.0, 2.0, 1.0], [1.0, 1.0, 2.0])
    >>> found.at, found.between, found.count, found.falls
    (8.0, (4.0, 16.0), 1, True)
    """
    x, a, b = (
        finite("the places", places, 1),
        finite("the first curve", first, 1),
        finite("the second curve", second, 1),
    )
    if not x.size == a.size == b.size or x.size < 2:
        raise IclearnError(f"curves need as many values as places, at least two: {x.size}, {a.size} and {b.size}")
    require(bool((np.diff(x) > 0).all()), "the places must grow")
    if log:
        require(bool(min(x.min(), a.min(), b.min()) > 0), "logarithms need positive places and values: say log=False")
        x, gap = np.log(x), np.log(a) - np.log(b)
    else:
        gap = a - b
    there = np.flatnonzero(gap != 0)
    turns = np.flatnonzero(np.diff(np.sign(gap[there])))
    if not turns.size:
        return Crossing(float("nan"), (float("nan"), float("nan")), 0, False)
    left, right = there[turns[0]], there[turns[0] + 1]
    place = x[left] + (x[right] - x[left]) * gap[left] / (gap[left] - gap[right])
    ends = np.array([place, x[left], x[right]])
    at, low, high = (np.exp(ends) if log else ends).round(12).tolist()
    return Crossing(at, (low, high), int(turns.size), bool(gap[left] > 0))


@dataclass(frozen=True)
class InteriorMinimum:
    """The least value of a curve and what comes after it; see `interior_minimum`.

    Args:
        time: t*, when the curve is least.
        value: the least value.
        rise: the last value over the least one.
        interior: whether the curve has a minimum before its end: least neither at the first nor the last point, and
            risen by more than asked for.
    """

    time: float
    value: float
    rise: float
    interior: bool


def interior_minimum(times: Any, values: Any, *, rise: float = 0.1) -> InteriorMinimum:
    """When a positive curve is least, and whether it rises again: in-context learning that comes and goes.

    The least of noisy values is below the curve, so a rise must be asked for that noise does not make.

    Args:
        times: (point) growing, e.g. training steps.
        values: (point) the curve, e.g. the distance to ridge regression on new tasks.
        rise: by which share of the least value the end is to be above it.

    Returns:
        The minimum.

    >>> found = interior_minimum([1, 2, 3, 4], [1.0, 0.2, 0.3, 0.5])
    >>> found.time, found.rise, found.interior
    (2.0, 2.5, True)
    """
    t, v = finite("the times", times, 1), finite("the curve", values, 1)
    if t.size != v.size or t.size < 3:
        raise IclearnError(f"a curve needs as many values as times, at least three: {t.size} and {v.size}")
    require(bool((np.diff(t) > 0).all()), "the times must grow")
    require(bool((v > 0).all()), "the curve must be positive: its rise is relative")
    least = int(v.argmin())
    up = float(v[-1] / v[least])
    return InteriorMinimum(float(t[least]), float(v[least]), up, 0 < least < t.size - 1 and up > 1 + rise)
