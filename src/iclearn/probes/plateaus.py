"""Plateaus of a loss curve, found without knowing what made it and without anything to tune.

A plateau is a stretch in which the loss moves at least `CONTRAST` times more slowly than in the drops on both sides
of it (on one side for the stretch at the start of the curve). Slowness is relative to the curve's own drops, so the
answer does not change when loss or time is rescaled, and a curve that only ever slows down (exponentials and their
sums, power laws) has no plateau. The level at which a curve comes to rest is its floor, not a plateau. Time may be
linear or logarithmic: a plateau of the one need not be one of the other.

A noisy curve is read in several resolutions, and the reading that finds most counts: a drop must be 8 standard
deviations of the noise, and twice the largest move in the other direction, so that none is likely to find too many.
Where a reading that asks for less finds more, the curve does not tell, and `Staircase.doubt` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ..core.checks import literals_checked
from ..core.errors import IclearnError
from ..core.trace import Trace
from .curves import Unfolded, resolutions
from .reading import loss_curve
from .segments import CONTRAST, EDGE, Core, crossing, pairs, significant_size, slow_segments, spans

LATE = 0.2  # of the whole time: a curve that has been at rest for less than this is unfinished
LEAST = 8  # points of a curve
_SWINGS = 0.3  # of the curve's range: slow swings that may hide anything
_MOST_KNOWN = 4096  # staircases are kept: claims and drawings of a figure ask for the same ones again and again


@dataclass(frozen=True)
class Plateau:
    """A stretch of slow loss.

    Args:
        start, end: times at which the curve comes within a tenth of the neighboring drop, and leaves again.
        height: median loss over the middle half of the stretch.
        uncertainty: of the height: its standard error by the noise, plus half of what the loss still drifts there.
        contrast: how many times faster the loss moves in the slower of the neighboring drops.
    """

    start: float
    end: float
    height: float
    uncertainty: float
    contrast: float

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Drop:
    """A fast stretch. `time`: half of it is done; `width`: time from a tenth to nine tenths; `size`: loss lost, below
    0 where a curve that fell rises again."""

    time: float
    width: float
    size: float


@dataclass(frozen=True)
class Staircase:
    """What `find_plateaus` found; iterates over its plateaus.

    Args:
        plateaus: in the order of time.
        drops: in the order of time, the last unfinished one included where the curve ends in it.
        floor: the stretch in which the curve comes to rest (None where it does not, or rests above the minimum).
        unfinished: the curve still moves at its end, has moved in the last fifth of its time, or ends on a plateau
            above the minimum that was given.
        sentence: how the curve ends, in words.
        doubt: what the curve does not tell, in words; empty where nothing is in doubt. The rest is then the reading
            that asks for most, and may miss plateaus.
    """

    plateaus: tuple[Plateau, ...]
    drops: tuple[Drop, ...]
    floor: Plateau | None
    unfinished: bool
    sentence: str
    doubt: str = ""

    def __iter__(self) -> Iterator[Plateau]:
        return iter(self.plateaus)

    def __len__(self) -> int:
        return len(self.plateaus)

    def __getitem__(self, index: int) -> Plateau:
        return self.plateaus[index]

    @property
    def heights(self) -> np.ndarray:
        return np.array([p.height for p in self.plateaus])

    @property
    def drop_times(self) -> np.ndarray:
        return np.array([d.time for d in self.drops])


_known: dict[tuple[Any, ...], Staircase] = {}


@literals_checked
def find_plateaus(
    loss: Any,
    *,
    time: Any = None,
    minimum: float | None = None,
    scale: Literal["linear", "log"] = "linear",
    contrast: float = CONTRAST,
) -> Staircase:
    """Plateaus, drops and floor of a loss curve (an array or a Trace). A curve that only rises is refused.

    Args:
        loss: the curve, 8 to 10⁵ or more points, spaced as they come.
        time: of each point, increasing (default: a Trace's own, or 0, 1, …).
        minimum: the least loss that could be reached, where it is known (default: a Trace's own): a curve that rests
            higher than this ends on a plateau and is unfinished.
        scale: "linear", or "log" to look for what is slow and fast in the logarithm of time (a point at time 0 is
            left out). Times are given and returned as they are in both.
        contrast: how many times slower than the drops beside it a plateau is; at least 10, and more finds no more.

    >>> t = np.linspace(0, 100, 2001)
    >>> stairs = 0.5 / (1 + np.exp(3 * (t - 20))) + 0.5 / (1 + np.exp(3 * (t - 70)))
    >>> [(round(p.start), round(p.end), round(p.height, 2)) for p in find_plateaus(stairs, time=t)]
    [(0, 19, 1.0), (21, 69, 0.5)]
    >>> len(find_plateaus(np.exp(-t), time=t))
    0
    >>> find_plateaus(0.5 / (1 + np.exp((t - 30) / 3)) + 0.5 / (1 + np.exp((t - 65) / 3)), time=t).doubt
    'from 36.59 to 58.41, near 0.5, it is 8.9 times slower than in the drop beside it, not 10 times'
    """
    if minimum is None and isinstance(loss, Trace) and "loss_minimum" in loss.data:
        minimum = float(loss.data["loss_minimum"])
    if minimum is not None and not np.isfinite(minimum):
        raise IclearnError(f"the minimum must be a finite number, not {minimum}")
    if not contrast >= CONTRAST:
        raise IclearnError(f"the contrast must be at least {CONTRAST:g}, not {contrast}")
    values, times = loss_curve(loss, time)
    if scale == "log":
        if times[0] < 0:
            raise IclearnError(f"logarithmic time begins after 0; the first of these times is {times[0]:g}")
        values, times = values[times > 0], times[times > 0]
    if times.size < LEAST:
        after = " after time 0" if scale == "log" else ""
        raise IclearnError(f"plateaus are read off at least {LEAST} points{after}, not {times.size}")
    values, times = np.ascontiguousarray(values), np.ascontiguousarray(times)
    key = (*(hashlib.sha1(array.tobytes()).digest() for array in (values, times)), minimum, scale, contrast)
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = _found(values, times, minimum, scale, contrast)
    return found


@dataclass(frozen=True)
class _Reading:
    """The slow segments of a curve at one resolution."""

    curve: Unfolded
    cores: list[Core]

    @property
    def count(self) -> int:
        """Of plateaus: the stretch in which the curve comes to rest is none."""
        return sum(core.last < self.curve.traveled[-1] for core in self.cores)


def _best(curves: list[Unfolded], contrast: float, *, lenient: bool = False) -> _Reading:
    """The reading that finds most plateaus; of several, the one in the finest resolution."""
    readings = [_Reading(curve, slow_segments(curve, contrast, lenient=lenient)) for curve in curves]
    return max(readings, key=lambda reading: reading.count)


def _found(loss: np.ndarray, time: np.ndarray, minimum: float | None, scale: str, contrast: float) -> Staircase:
    """The staircase of a curve."""
    curves = resolutions(loss, np.log(time) if scale == "log" else time, log=scale == "log")
    strict, lenient = _best(curves, contrast), _best(curves, contrast, lenient=True)
    curve, rise = strict.curve, float(strict.curve.smooth[-1] - strict.curve.smooth[0])
    rises = rise > 0 and bool((np.diff(curve.smooth) >= 0).all())
    if rises and not curve.still and rise > significant_size(curve, 0.0, float(curve.traveled[-1])):
        ends = f"{curve.smooth[0]:.4g} to {curve.smooth[-1]:.4g}"
        raise IclearnError(f"this loss curve rises, from {ends}, and has no plateaus: give one that falls")
    if curve.still or rises:  # a rise that noise can make
        rest = _stretch(curve, 0.0, float(curve.traveled[-1]), np.inf)
        found = _at_rest(curve, [rest], [], minimum)
    else:
        found = _describe(strict, minimum)
    doubt = _doubt(found, curves[-1], strict, lenient, contrast)
    if not doubt and scale == "linear":
        doubt = _other_time(found, loss, time, contrast)
    return replace(found, doubt=doubt)


def _doubt(found: Staircase, coarsest: Unfolded, strict: _Reading, lenient: _Reading, contrast: float) -> str:
    """What the curve does not tell, in words."""
    if lenient.count > strict.count:
        return _unclear(lenient, contrast)
    swing = coarsest.rise * float(np.median(coarsest.noise))
    if not len(found) and swing > _SWINGS * float(np.ptp(strict.curve.loss)):
        return f"it moves up and down by {swing:.2g}, which hides what else it does"
    return ""


def _other_time(found: Staircase, loss: np.ndarray, time: np.ndarray, contrast: float) -> str:
    """Says so where a curve without plateaus between its drops has some in logarithmic time."""
    if any(plateau.start > time[0] for plateau in found):
        return ""
    after = time > 0
    if not after.any() or time[-1] < 100 * time[after][0]:
        return ""
    reading = _best(resolutions(loss[after], np.log(time[after]), log=True), contrast)
    between = sum(core.first > 0 and core.last < reading.curve.traveled[-1] for core in reading.cores)
    return f'in logarithmic time (scale="log") it has {between} plateaus between its drops' if between else ""


def _unclear(reading: _Reading, contrast: float) -> str:
    """The stretch of a lenient reading that is least like a plateau, in words."""
    curve, bounds = reading.curve, spans(reading.cores, float(reading.curve.traveled[-1]))
    rows = [(pair, span) for span, beside in zip(bounds, pairs(curve, reading.cores), strict=True) for pair in beside]
    pair, span = min(rows, key=lambda row: min(row[0].contrast / contrast, row[0].clearness))
    stretch = _stretch(curve, *span, pair.contrast)
    words = f"from {stretch.start:.4g} to {stretch.end:.4g}, near {stretch.height:.3g}, it"
    if pair.clearness < 1:
        return (
            f"{words} may be on a plateau: the drop beside it has {pair.clearness:.2g} of the size that noise can hide"
        )
    return f"{words} is {pair.contrast:.2g} times slower than in the drop beside it, not {contrast:g} times"


def _stretch(curve: Unfolded, begin: float, end: float, contrast: float) -> Plateau:
    start = float(curve.time[0]) if begin <= 0 else crossing(curve, begin)
    stop = float(curve.time[-1]) if end >= curve.traveled[-1] else crossing(curve, end)
    quarter = (stop - start) / 4
    inside = (curve.time >= start + quarter) & (curve.time <= stop - quarter)
    if not inside.any():
        inside[int(np.argmin(np.abs(curve.time - (start + stop) / 2)))] = True
    drift = float(np.ptp(curve.smooth[inside])) / 2
    sampling = 1.2533 * _error_of_mean(curve, inside)  # of a median
    height = float(np.median(curve.loss[inside]))
    return Plateau(curve.clock(start), curve.clock(stop), height, drift + sampling, contrast)


def _error_of_mean(curve: Unfolded, inside: np.ndarray) -> float:
    """Standard error of the mean loss of these points, which say the same thing `memory` at a time."""
    return float(np.mean(curve.noise[inside])) * (curve.memory / max(float(np.count_nonzero(inside)), 1.0)) ** 0.5


def _describe(reading: _Reading, minimum: float | None) -> Staircase:
    curve, cores = reading.curve, reading.cores
    total = float(curve.traveled[-1])
    found = []
    for span, beside in zip(spans(cores, total), pairs(curve, cores), strict=True):
        contrast = min((pair.contrast for pair in beside), default=np.inf)
        found.append(_stretch(curve, *span, contrast))
    sentence = "still moving at the end"
    at_rest = bool(cores) and cores[-1].last >= total
    if at_rest and _moving(curve, LATE / 2 * float(curve.time[-1] - curve.time[0])):
        rest = found.pop()
        at_rest = False
        if not _moving(curve, float(curve.time[-1] - crossing(curve, spans(cores, total)[-1][0])) / 2):
            sentence = f"at rest since {rest.start:.6g}, for less than a fifth of the whole time"
    marks = [(0.0, 0.0), *[(c.first, c.last) for c in cores], (total, total)]
    drops = []
    for (_, upper), (lower, _) in pairwise(marks):
        size = lower - upper
        if size <= 0:
            continue
        times = [curve.clock(crossing(curve, upper + share * size)) for share in (EDGE, 0.5, 1 - EDGE)]
        loss = np.interp([upper, lower], curve.traveled, curve.smooth)
        drops.append(Drop(times[1], times[2] - times[0], float(loss[0] - loss[1])))
    if at_rest:
        return _at_rest(curve, found, drops, minimum)
    return Staircase(tuple(found), tuple(drops), None, True, sentence)


def _moving(curve: Unfolded, window: float) -> bool:
    """At the speed of its last two windows, would the curve go a tenth of its whole way in as long again?"""
    span = float(curve.time[-1] - curve.time[0])
    after = curve.time >= curve.time[-1] - window
    before = (curve.time >= curve.time[-1] - 2 * window) & ~after
    if not (before.any() and after.any()):
        return False
    moved = abs(float(curve.loss[before].mean() - curve.loss[after].mean()))
    error = float(np.hypot(_error_of_mean(curve, before), _error_of_mean(curve, after)))
    return moved > EDGE * window / span * float(curve.traveled[-1]) + 3 * error


def _at_rest(curve: Unfolded, stretches: list[Plateau], drops: list[Drop], minimum: float | None) -> Staircase:
    """The last stretch is the floor, or a plateau above the minimum."""
    rest = stretches[-1]
    # A curve that is still settling has less left to go than twice what it went in the second half of its rest.
    clock = np.exp(curve.time) if curve.log else curve.time
    late = clock >= (rest.start + rest.end) / 2
    drift = abs(float(curve.smooth[late][0] - curve.smooth[-1]))
    noise = _error_of_mean(curve, late)
    last = float(np.mean(curve.loss[late])) if noise > drift else float(curve.smooth[-1])
    slack = 2 * drift + 4 * noise + 1e-9 * (float(np.ptp(curve.smooth)) + abs(last))
    if minimum is not None and last > minimum + slack:
        words = f"stopped on a plateau at {rest.height:.6g}, above the minimum {minimum:.6g}"
        return Staircase(tuple(stretches), tuple(drops), None, True, words)
    return Staircase(tuple(stretches[:-1]), tuple(drops), rest, False, f"came to rest at {rest.height:.6g}")
