"""Slow stretches of an unfolded curve: candidates from its speed, then the weakest contrasts canceled.

Slow stretches and drops alternate along the distance the curve travels. As in persistent homology, neighbors whose
speeds differ least cancel first, until every stretch is so many times slower than the drops beside it. The order in
which they cancel does not depend on how many times are asked for, so that asking for more never finds more.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .curves import Unfolded

CONTRAST = 10.0  # "much smaller": an order of magnitude in slope
EDGE = 0.1  # a stretch ends where the curve has gone this fraction of the way to the next one
_FASTEST = 1 / 3  # the speed of a drop is that of its fastest third, whatever slower parts it has
_SIGNIFICANT = 8.0  # a drop is at least this many standard deviations of the noise,
_AGAINST = 2.0  # and this many times as large as the largest move in the other direction
_LENIENT = (1 / 2, 1 / 3)  # shares of contrast and clearness below which nothing is doubtful any more
_STRAIGHT = 1e-2  # of the whole distance: equal speeds over less than this happen in smooth curves, too
_RESOLUTION = 1e-10  # of the whole distance: slower motion than this is rounding


@dataclass(frozen=True)
class Core:
    """The slowest part of a stretch, as the interval [first, last] of the distance traveled."""

    first: float
    last: float


def crossings(curve: Unfolded, distances: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """First times at which the curve has traveled these distances."""
    i = np.minimum(np.maximum(curve.traveled.searchsorted(distances), 1), curve.traveled.size - 1)
    low, high, before, after = curve.traveled[i - 1], curve.traveled[i], curve.time[i - 1], curve.time[i]
    share = (distances - low) / np.where(high > low, high - low, np.inf)
    return before + np.minimum(np.maximum(share, 0.0), 1.0) * (after - before)


def crossing(curve: Unfolded, distance: float) -> float:
    """First time at which the curve has traveled this far: `crossings` of one distance, in a tenth of the time."""
    i = min(max(int(curve.traveled.searchsorted(distance)), 1), curve.traveled.size - 1)
    (low, high), (before, after) = curve.traveled[i - 1 : i + 1].tolist(), curve.time[i - 1 : i + 1].tolist()
    share = min(max((distance - low) / (high - low), 0.0), 1.0) if high > low else 0.0
    return before + share * (after - before)


def _knots(curve: Unfolded, least: Float[np.ndarray, " point"]) -> tuple[np.ndarray, np.ndarray]:
    """Times and distances that cut the curve each time it has moved by `least`, and after jumps of more than that.

    A stretch of jumps from each point to the next, which is most of a curve without noise, is taken at once.
    """
    jumps = curve.traveled[1:] - (curve.traveled[:-1] + least[:-1]) >= least[:-1]
    ends = [*np.flatnonzero(~jumps).tolist(), jumps.size]  # from each of these points the next is no jump away
    traveled, time, steps = curve.traveled.tolist(), curve.time.tolist(), least.tolist()
    times, distances = [time[0]], [0.0]
    here, on_point = 0, True  # the last point that is behind us, and whether the last knot is at it
    while True:
        if on_point:
            last = ends[bisect_left(ends, here)]
            times += time[here + 1 : last + 1]
            distances += traveled[here + 1 : last + 1]
            here = last
        target = distances[-1] + steps[here]
        reached = bisect_left(traveled, target, here + 1)
        if reached == len(traveled):
            break
        on_point = traveled[reached] - target >= steps[here]
        if not (on_point and reached == here + 1):
            share = (target - traveled[reached - 1]) / (traveled[reached] - traveled[reached - 1])
            times.append(time[reached - 1] + share * (time[reached] - time[reached - 1]))
            distances.append(target)
        if on_point:
            times.append(time[reached])
            distances.append(traveled[reached])
        here = reached if on_point else reached - 1
    if time[-1] > times[-1]:
        times.append(time[-1])
        distances.append(traveled[-1])
    return np.array(times), np.array(distances)


def _candidates(curve: Unfolded, hint: float, knots: float) -> list[Core]:
    """Slowest points: each counts once speed has fallen by `hint` before it and risen by as much after it.

    At the start of the curve the rise is enough (the first stretch), at its end the fall (where it comes to rest).
    Speed is measured between points at which the curve has moved by `knots` standard deviations of the noise.
    """
    total = float(curve.traveled[-1])
    least = np.maximum(knots * curve.noise, _RESOLUTION * total)  # less than this may be noise, or rounding
    times, distances = _knots(curve, least)
    lengths = np.maximum(np.diff(distances), _RESOLUTION * total)
    speed = np.log(lengths / np.diff(times))
    middle = np.interp((times[:-1] + times[1:]) / 2, curve.time, curve.traveled)
    cores: list[Core] = []
    slowing: bool | None = None
    contrast, least = float(np.log(hint)), 0
    lowest = highest = float(speed[0])
    for i, value in enumerate(speed.tolist()):
        if value < lowest:
            lowest, least = value, i
        elif value > highest:
            highest = value
        if slowing is not True and value < highest - contrast:
            slowing, lowest, least = True, value, i
        elif slowing is not False and value > lowest + contrast:
            where = 0.0 if slowing is None else _slowest(speed, distances, middle, least)
            cores.append(Core(where, where))
            slowing, highest = False, value
    if slowing:
        cores.append(Core(total, total))
    return cores


def _slowest(speed: np.ndarray, distances: np.ndarray, middle: np.ndarray, least: int) -> float:
    """Distance of the slowest point; on a straight stretch, where rounding would choose it, the middle of that."""
    lengths = np.maximum(np.diff(distances), _RESOLUTION * distances[-1])
    rounding = 16 * np.finfo(float).eps * distances[-1] / lengths
    alike = np.abs(speed - speed[least]) <= rounding + rounding[least]
    different = np.flatnonzero(~alike)
    at = int(np.searchsorted(different, least))
    first = int(different[at - 1]) + 1 if at else 0
    last = int(different[at]) if at < different.size else speed.size
    if last - first < 3 or distances[last] - distances[first] < _STRAIGHT * distances[-1]:
        return float(middle[least])
    return float((distances[first] + distances[last]) / 2)


def spans(cores: list[Core], total: float) -> list[tuple[float, float]]:
    """Where each stretch begins and ends: EDGE of the way from its core to its neighbors'."""
    before = [0.0, *[c.last for c in cores]]
    after = [*[c.first for c in cores[1:]], total]
    return [
        (c.first - EDGE * (c.first - b), c.last + EDGE * (a - c.last))
        for c, b, a in zip(cores, before, after, strict=False)
    ]


def _fastest(curve: Unfolded, begin: float, end: float) -> float:
    """Speed over the fastest third of the distance from `begin` to `end`, or over enough of it to exceed the noise."""
    length = end - begin
    window = max(_FASTEST * length, min(4 * _noise_between(curve, begin, end), 0.8 * length))
    first, last = np.searchsorted(curve.traveled, [begin, end])
    inner = curve.traveled[first : last : max(1, (last - first) // 512)]
    starts = np.concatenate([np.linspace(begin, end, 33), inner, inner - window])
    starts = starts[(starts >= begin) & (starts <= end - window)]
    taken = crossings(curve, starts + window) - crossings(curve, starts)
    return float(window / max(taken.min(), 1e-300))


def _noise_between(curve: Unfolded, upper: float, lower: float) -> float:
    first = int(np.searchsorted(curve.traveled, upper, side="left"))
    last = int(np.searchsorted(curve.traveled, lower, side="right"))
    return float(curve.noise[max(first - 1, 0) : last + 1].max())


class Pair(NamedTuple):
    """A stretch and a drop beside it.

    Args:
        contrast: how many times faster the drop is.
        clearness: size of the drop over the size that noise can hide.
        after: the drop comes after the stretch.
    """

    contrast: float
    clearness: float
    after: bool


def pairs(curve: Unfolded, cores: list[Core]) -> list[list[Pair]]:
    """Contrast of every stretch with the drops beside it."""
    return [_pairs_of(curve, cores, i) for i in range(len(cores))]


def _pairs_of(curve: Unfolded, cores: list[Core], i: int) -> list[Pair]:
    before = cores[i - 1].last if i else 0.0
    after = cores[i + 1].first if i + 1 < len(cores) else float(curve.traveled[-1])
    return _measure(curve, cores[i], before, after)


def _measure(curve: Unfolded, core: Core, before: float, after: float) -> list[Pair]:
    """A stretch against the drops on both sides of it, which reach from `before` to it and from it to `after`."""
    total = float(curve.traveled[-1])
    drops = {False: (before, core.first), True: (core.last, after)}
    smaller = min((lower - upper for upper, lower in drops.values() if lower > upper), default=0.0)
    margin = min(max(EDGE * smaller, 2 * _noise_between(curve, core.first, core.last)), smaller / 2)
    own = _mean_speed(curve, max(core.first - margin, 0.0), min(core.last + margin, total))
    found = []
    for is_after, (upper, lower) in drops.items():
        size = lower - upper
        if size <= 0:  # the curve begins or ends here
            continue
        drop = _fastest(curve, upper + EDGE * size, lower - EDGE * size)
        found.append(Pair(drop / max(own, 1e-300), size / significant_size(curve, upper, lower), is_after))
    return found


def significant_size(curve: Unfolded, upper: float, lower: float) -> float:
    """The size from which a drop between these distances is neither noise nor rounding."""
    noise = max(_SIGNIFICANT, _AGAINST * curve.rise) * _noise_between(curve, upper, lower)
    return max(noise, 10 * _RESOLUTION * float(curve.traveled[-1]))


def slow_segments(curve: Unfolded, contrast: float = CONTRAST, *, lenient: bool = False) -> list[Core]:
    """The stretches that are `contrast` times slower than all drops beside them, these being clear of the noise.

    Drops that are lost in the noise cancel first, then neighbors in the order of their contrast. The first stretch
    begins at distance 0 where the curve starts on a plateau, the last ends at the whole distance where the curve ends
    at rest. A `lenient` reading asks for half of the contrast, and for a third of what clears a drop of the noise.
    """
    if curve.still:
        return []
    less, clear = _LENIENT if lenient else (1.0, 1.0)
    total = float(curve.traveled[-1])
    cores = _candidates(curve, less * min(contrast, CONTRAST), 3 * clear)
    measured = pairs(curve, cores)
    while cores:
        every = [(pair, i) for i, found in enumerate(measured) for pair in found]
        lost = next((row for row in every if row[0].clearness < clear), None)
        weakest = lost or min(every, key=lambda row: row[0].contrast, default=None)
        if weakest is None or not (lost or weakest[0].contrast < less * contrast):
            break
        size, at = len(cores), weakest[1]
        cores = _cancel(curve, cores, *weakest, in_noise=lost is not None)
        # Only the neighbors of what has gone are other than they were.
        first, kept = max(at - 2, 0), max(size - at - 3, 0)
        last = max(len(cores) - kept, first)
        fresh = [_pairs_of(curve, cores, i) for i in range(min(first, len(cores)), last)]
        measured = [*measured[:first], *fresh, *measured[size - kept :]] if cores else []
    return cores if cores != [Core(0.0, total)] else []


def _cancel(curve: Unfolded, cores: list[Core], pair: Pair, i: int, *, in_noise: bool) -> list[Core]:
    """Remove a drop or the stretch i beside it, whichever the motion of the two together resembles less."""
    core, total = cores[i], float(curve.traveled[-1])
    other = i + 1 if pair.after else i - 1
    ends_curve = core.last >= total if not pair.after else core.first <= 0
    if not 0 <= other < len(cores):  # the drop is the first or the last of the curve
        if ends_curve and not in_noise:
            return []  # one stretch, one drop, and little between them: the whole curve moves
        grown = Core(core.first, total) if pair.after else Core(0.0, core.last)
        return [*cores[:i], grown, *cores[i + 1 :]]
    merged = Core(min(core.first, cores[other].first), max(core.last, cores[other].last))
    without = [*cores[:i], *cores[i + 1 :]]
    joined = [*cores[: min(i, other)], merged, *cores[max(i, other) + 1 :]]
    if in_noise:
        return joined
    if ends_curve:
        return without  # the first or last stretch of the curve is part of the drop beside it
    # What is left lies between a drop on the far side of the stretch and the other stretch: which is it like?
    bounds = spans(cores, total)
    if pair.after:
        region, far = (bounds[i][0], bounds[other][0]), (cores[i - 1].last if i else 0.0, core.first)
    else:
        region, far = (bounds[other][1], bounds[i][1]), (core.last, cores[i + 1].first if i + 1 < len(cores) else total)
    like_drop = _mean_speed(curve, *region) ** 2 > _fastest(curve, *far) * _mean_speed(curve, *bounds[other])
    return without if like_drop else joined


def _mean_speed(curve: Unfolded, begin: float, end: float) -> float:
    """Over a part of the way; rest at the end of the curve counts as time spent on it."""
    stop = float(curve.time[-1]) if end >= curve.traveled[-1] else crossing(curve, end)
    return (end - begin) / max(stop - crossing(curve, begin), 1e-300)
