"""Plateaus of a loss curve, found without knowing what made it and without anything to tune.

A plateau is a stretch in which the loss moves at least `CONTRAST` times more slowly than in the drops on both sides
of it (on one side for the stretch at the start of the curve). Slowness is relative to the curve's own drops, so the
answer does not change when loss or time is rescaled, and a curve that only ever slows down (exponentials and their
sums, power laws) has no plateau. The level at which a curve comes to rest is its floor, not a plateau.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.trace import Trace
from .curves import Unfolded, unfold
from .reading import loss_curve
from .segments import EDGE, Core, crossing, pairs, slow_segments, spans


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
    """A fast stretch. `time`: half of it is done; `width`: time from a tenth to nine tenths; `size`: loss lost."""

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
        unfinished: the curve still moves at its end, or ends on a plateau above the minimum that was given.
        sentence: how the curve ends, in words.
    """

    plateaus: tuple[Plateau, ...]
    drops: tuple[Drop, ...]
    floor: Plateau | None
    unfinished: bool
    sentence: str

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


def find_plateaus(loss: Any, *, time: Any = None, minimum: float | None = None) -> Staircase:
    """Plateaus, drops and floor of a loss curve (an array or a Trace).

    Args:
        loss: the curve, 8 to 10⁵ or more points, spaced as they come.
        time: of each point, increasing (default: a Trace's own, or 0, 1, …).
        minimum: the least loss that could be reached, where it is known (default: a Trace's own): a curve that rests
            higher than this ends on a plateau and is unfinished.

    >>> t = np.linspace(0, 100, 2001)
    >>> stairs = 0.5 / (1 + np.exp(3 * (t - 20))) + 0.5 / (1 + np.exp(3 * (t - 70)))
    >>> [(round(p.start), round(p.end), round(p.height, 2)) for p in find_plateaus(stairs, time=t)]
    [(0, 19, 1.0), (21, 69, 0.5)]
    >>> len(find_plateaus(np.exp(-t), time=t))
    0
    """
    if minimum is None and isinstance(loss, Trace) and "loss_minimum" in loss.data:
        minimum = float(loss.data["loss_minimum"])
    if minimum is not None and not np.isfinite(minimum):
        raise IclearnError(f"the minimum must be a finite number, not {minimum}")
    values, times = loss_curve(loss, time)
    return _found(values.tobytes(), times.tobytes(), minimum)


@functools.lru_cache(maxsize=128)
def _found(values: bytes, times: bytes, minimum: float | None) -> Staircase:
    """The staircase of a curve: claims and drawings of one figure ask for the same one again and again."""
    curve = unfold(np.frombuffer(values), np.frombuffer(times))
    reach = float(curve.traveled[-1])
    if reach <= max(4 * float(np.median(curve.noise)), 1e-14 * float(np.abs(curve.loss).max())):
        return _ending(curve, [_stretch(curve, 0.0, reach, np.inf)], [], minimum, at_rest=True)
    return _describe(curve, slow_segments(curve), minimum)


def _stretch(curve: Unfolded, begin: float, end: float, contrast: float) -> Plateau:
    start = float(curve.time[0]) if begin <= 0 else crossing(curve, begin)
    stop = float(curve.time[-1]) if end >= curve.traveled[-1] else crossing(curve, end)
    quarter = (stop - start) / 4
    inside = (curve.time >= start + quarter) & (curve.time <= stop - quarter)
    if not inside.any():
        inside[int(np.argmin(np.abs(curve.time - (start + stop) / 2)))] = True
    drift = float(np.ptp(curve.smooth[inside])) / 2
    sampling = 1.2533 * float(np.mean(curve.noise[inside])) / float(inside.sum()) ** 0.5  # of a median
    return Plateau(start, stop, float(np.median(curve.loss[inside])), drift + sampling, contrast)


def _describe(curve: Unfolded, cores: list[Core], minimum: float | None) -> Staircase:
    total = float(curve.traveled[-1])
    contrasts = pairs(curve, cores)
    found = []
    for i, span in enumerate(spans(cores, total)):
        contrast = min((p.contrast for p in contrasts if p.stretch == i), default=np.inf)
        found.append(_stretch(curve, *span, contrast))
    at_rest = bool(cores) and cores[-1].last >= total
    if at_rest and _moving(curve):
        found.pop()
        at_rest = False
    marks = [(0.0, 0.0), *[(c.first, c.last) for c in cores], (total, total)]
    drops = []
    for (_, upper), (lower, _) in pairwise(marks):
        size = lower - upper
        if size <= 0:
            continue
        times = [crossing(curve, upper + share * size) for share in (EDGE, 0.5, 1 - EDGE)]
        loss = np.interp([upper, lower], curve.traveled, curve.smooth)
        drops.append(Drop(times[1], times[2] - times[0], float(loss[0] - loss[1])))
    return _ending(curve, found, drops, minimum, at_rest=at_rest)


def _moving(curve: Unfolded) -> bool:
    """At the speed of its last two tenths, would the curve go a tenth of its whole way in as long again?"""
    start, end = float(curve.time[0]), float(curve.time[-1])
    marks = np.searchsorted(curve.time, [end - 0.2 * (end - start), end - 0.1 * (end - start)])
    before, after = np.arange(marks[0], marks[1]), np.arange(marks[1], curve.time.size)
    if before.size == 0 or after.size == 0:
        return False
    moved = abs(float(curve.loss[before].mean() - curve.loss[after].mean()))
    error = float(np.hypot(*(curve.noise[part].mean() / part.size**0.5 for part in (before, after))))
    return moved > EDGE**2 * float(curve.traveled[-1]) + 3 * error


def _ending(
    curve: Unfolded, stretches: list[Plateau], drops: list[Drop], minimum: float | None, *, at_rest: bool
) -> Staircase:
    """Floor, plateau above the minimum, or still moving."""
    if not at_rest:
        return Staircase(tuple(stretches), tuple(drops), None, True, "still moving at the end")
    rest = stretches[-1]
    # A curve that is still settling has less left to go than twice what it went in the second half of its rest.
    late = curve.time >= (rest.start + rest.end) / 2
    drift = abs(float(curve.smooth[late][0] - curve.smooth[-1]))
    noise = float(np.mean(curve.noise[late])) / float(late.sum()) ** 0.5
    last = float(np.mean(curve.loss[late])) if noise > drift else float(curve.smooth[-1])
    slack = 2 * drift + 4 * noise + 1e-9 * (float(np.ptp(curve.smooth)) + abs(last))
    if minimum is not None and last > minimum + slack:
        words = f"stopped on a plateau at {rest.height:.6g}, above the minimum {minimum:.6g}"
        return Staircase(tuple(stretches), tuple(drops), None, True, words)
    return Staircase(tuple(stretches[:-1]), tuple(drops), rest, False, f"came to rest at {rest.height:.6g}")
