"""A noisy curve as a monotone one: turning points, piecewise isotonic regression, and the noise around it.

A noisy curve is looked at in several resolutions: means over longer blocks have less noise and lose short plateaus.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

_BLOCKS = 256  # blocks whose means decide where the curve turns round
_FINEST, _COARSEST = 2048, 32  # a noisy curve is averaged down to at most and at least this many points
_CLEAN = 1e-4  # of the curve's range: with less noise than this all points are looked at, and no averages
_TURN = 0.1  # a turn back by less than this fraction of the curve's range is not one
_FIRM = 4  # a level that as many points support is not the work of one


@dataclass(frozen=True)
class Unfolded:
    """A curve and the distance its smooth version has traveled: `traveled` never falls, however the curve turns.

    Args:
        time, loss: the points, averaged in blocks where the curve was noisy; the logarithm of time where `log`.
        smooth: piecewise isotonic fit of the loss (least squares among functions monotone between turning points).
        traveled: Σ |Δ smooth| up to each point.
        noise: standard deviation of the loss around the fit, near each point.
        memory: how many neighboring deviations from the fit say the same thing (1 for white noise).
        rise: the largest move of the loss against the direction of the fit, in units of the noise there.
        log: whether `time` is logarithmic.
    """

    time: Float[np.ndarray, " point"]
    loss: Float[np.ndarray, " point"]
    smooth: Float[np.ndarray, " point"]
    traveled: Float[np.ndarray, " point"]
    noise: Float[np.ndarray, " point"]
    memory: float
    rise: float
    log: bool

    @property
    def still(self) -> bool:
        """Whether the fit moves no more than noise or rounding could make it."""
        reach = float(self.traveled[-1])
        return reach <= max(4 * float(np.median(self.noise)), 1e-14 * float(np.abs(self.loss).max()))

    def clock(self, time: float) -> float:
        """A time of this curve in the units in which it was given."""
        return float(np.exp(time)) if self.log else time


def _point_noise(loss: np.ndarray) -> float:
    """Noise of single points from third differences, which a smooth curve hardly has (their variance is 20 σ²)."""
    if loss.size < 8:
        return 0.0
    return float(np.median(np.abs(np.diff(loss, 3)))) / (0.6745 * 20**0.5)


def _equal_blocks(size: int, count: int) -> np.ndarray:
    """Where `count` blocks of equally many points begin, and the end."""
    return np.unique(np.linspace(0, size, min(count, size) + 1).astype(int))


def _block_means(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    edges = _equal_blocks(values.size, count)
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges), edges


def _climb(loss: np.ndarray) -> np.ndarray:
    """How far a falling curve is above the lowest value that it has reached."""
    return loss - np.minimum.accumulate(loss)


def turning_points(loss: np.ndarray) -> list[int]:
    """Indices at which the curve turns from falling to rising or back, by more than noise and a tenth of its range.

    More than two turns, or turns by less than thrice what the curve moves to and fro between them, are an oscillation
    or noise: then there are none.
    """
    means, edges = _block_means(loss, _BLOCKS)
    least = max(_TURN * float(np.ptp(means)), 8 * _point_noise(means))
    turns: list[int] = []
    high = low = 0
    direction = 0
    for i, value in enumerate(means):
        high = i if value > means[high] else high
        low = i if value < means[low] else low
        if direction >= 0 and means[high] - value > least:  # was rising, or undecided, and has fallen
            if direction > 0:
                turns.append(high)
            direction, low = -1, i
        elif direction <= 0 and value - means[low] > least:
            if direction < 0:
                turns.append(low)
            direction, high = 1, i
        if direction < 0:
            high = low
        elif direction > 0:
            low = high
    if not turns:
        return []
    parts = [means[begin : end + 1] for begin, end in pairwise([0, *turns, means.size - 1])]
    back = max(float(_climb(part if part[0] > part[-1] else -part).max()) for part in parts)
    if len(turns) > 2 or min(abs(float(part[0] - part[-1])) for part in parts) < 3 * back:
        return []
    return [int((edges[i] + edges[i + 1]) // 2) for i in turns]


def _correlation_time(residual: np.ndarray) -> float:
    """How many neighboring residuals say the same thing: 1 + 2 Σ of their autocorrelations while these are clear."""
    power = float(residual @ residual)
    total = 1.0
    for lag in range(1, min(64, residual.size // 4)):
        correlation = float(residual[lag:] @ residual[:-lag]) / power if power > 0 else 0.0
        if correlation < 0.1:
            break
        total += 2 * correlation
    return total


def _rounding_noise(loss: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    """Noise of a curve that has next to none, in about 32 stretches, each taking the largest of its neighbors' and own.

    From residuals; or, where the curve is so steep that the fit follows single points, from third differences, but then
    no more than twice the residuals or the noise elsewhere: a curve without noise must not get any. Correlated
    residuals move the fit as fewer, larger independent ones would: all is raised by the root of their correlation time.
    """
    residual = loss - smooth
    squares, edges = _block_means(residual**2, max(1, min(32, residual.size // 16)))
    padded = np.pad(np.sqrt(squares), 1, mode="edge")
    local = np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])
    steep = np.array([_point_noise(loss[slice(*ends)]) for ends in pairwise(edges.tolist())])
    local = np.maximum(local, np.minimum(steep, np.maximum(2 * local, np.median(local))))
    return _correlation_time(residual) ** 0.5 * np.repeat(local, np.diff(edges))


def _block_noise(loss: np.ndarray, smooth: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Standard deviation of each of these means of `counts` points, from the residuals in about 32 stretches.

    Three neighboring stretches are taken together; the degrees of freedom are the points less the levels of the fit.
    Where the curve is so steep that the fit follows single points, the larger noise of those beside it is taken.
    """
    edges = _equal_blocks(loss.size, max(1, min(32, loss.size // 16)))
    repeated = np.concatenate([[0.0], np.diff(smooth) == 0])
    columns = (counts * (loss - smooth) ** 2, repeated, np.ones(loss.size))
    sums = [np.pad(np.add.reduceat(values, edges[:-1]), 1, mode="edge") for values in columns]
    power, freedom, size = (part[:-2] + part[1:-1] + part[2:] for part in sums)
    known = np.flatnonzero(freedom >= size / 4)
    if not known.size:
        known = np.array([int(np.argmax(freedom))])
    single = np.sqrt(power[known] / np.maximum(freedom[known], 1.0))
    places = np.arange(power.size)
    after = np.clip(np.searchsorted(known, places), 0, known.size - 1)
    before = np.clip(np.searchsorted(known, places, side="right") - 1, 0, known.size - 1)
    return np.repeat(np.maximum(single[before], single[after]), np.diff(edges)) / np.sqrt(counts)


def resolutions(loss: Float[np.ndarray, " step"], time: Float[np.ndarray, " step"], *, log: bool) -> list[Unfolded]:
    """The curve without its noise, from the finest resolution to the coarsest; a curve without noise has only one.

    `time` is logarithmic where `log`; blocks then last equally long, and else hold equally many points.
    """
    whole = unfold(loss, time, log=log)
    if float(np.median(whole.noise)) <= _CLEAN * float(np.ptp(whole.smooth)):
        return [whole]
    found = []
    count = min(loss.size, _FINEST)
    while count >= min(loss.size, _COARSEST):
        edges = _equal_blocks(loss.size, count)
        if log and count < loss.size:
            cuts = np.searchsorted(time, np.linspace(time[0], time[-1], count + 1)[1:-1])
            edges = np.unique(np.concatenate([[0], cuts, [time.size]]))
        counts = np.diff(edges).astype(float)
        level, when = (np.add.reduceat(values, edges[:-1]) / counts for values in (loss, time))
        found.append(unfold(level, when, counts, log=log))
        count //= 2
    return found


def unfold(loss: np.ndarray, time: np.ndarray, counts: np.ndarray | None = None, *, log: bool = False) -> Unfolded:
    """The curve without its noise. Exact where there is none: a monotone curve is its own fit.

    `counts`: of how many points each value is the mean. Without them the curve is taken to have no noise but rounding.
    """
    smooth = np.empty_like(loss)
    pieces = [slice(*ends) for ends in pairwise([0, *turning_points(loss), loss.size])]
    for piece in pieces:
        weights = None if counts is None else counts[piece]
        fits = [isotonic_regression(loss[piece], weights=weights, increasing=rises).x for rises in (False, True)]
        smooth[piece] = min(fits, key=lambda fit: float(np.sum((fit - loss[piece]) ** 2)))
    noise = _rounding_noise(loss, smooth) if counts is None else _block_noise(loss, smooth, counts)
    memory = 1.0 if counts is None else _correlation_time(loss - smooth)
    steps, rise = np.zeros_like(loss), 0.0
    for piece in pieces:
        falls = bool(smooth[piece][0] > smooth[piece][-1])
        if counts is not None:
            climb = _climb(loss[piece] if falls else -loss[piece])
            rise = max(rise, float(np.max(climb / np.where(noise[piece] > 0, noise[piece], np.inf))))
        smooth[piece] = _trimmed(smooth[piece], *noise[piece][[0, -1] if falls else [-1, 0]], firm=counts is not None)
        steps[piece][1:] = np.abs(np.diff(smooth[piece]))
    return Unfolded(time, loss, smooth, np.cumsum(steps), noise, memory, rise, log)


def _trimmed(fit: np.ndarray, upper: float, lower: float, *, firm: bool) -> np.ndarray:
    """The ends of an isotonic fit follow single points: there, two standard deviations of noise are taken off.

    Where `firm`, no more is taken off than down to a level that several points support.
    """
    middle = (fit[0] + fit[-1]) / 2
    most, least = max(fit.max() - 2 * upper, middle), min(fit.min() + 2 * lower, middle)
    if firm:
        levels, sizes = np.unique(fit, return_counts=True)
        supported = levels[sizes >= _FIRM]
        most, least = max(most, supported.max(initial=-np.inf)), min(least, supported.min(initial=np.inf))
    return np.clip(fit, least, most)
