"""A noisy curve as a monotone one: turning points, piecewise isotonic regression, and the noise around it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

_BLOCKS = 256  # blocks whose means decide where the curve turns round
_NOISY_POINTS = 1024  # a noisy curve is averaged down to at most this many points
_TURN = 0.1  # a turn back by less than this fraction of the curve's range is not one


@dataclass(frozen=True)
class Unfolded:
    """A curve and the distance its smooth version has traveled: `traveled` never falls, however the curve turns.

    Args:
        time, loss: the points, averaged in blocks where the curve was long and noisy.
        smooth: piecewise isotonic fit of the loss (least squares among functions monotone between turning points).
        traveled: Σ |Δ smooth| up to each point.
        noise: standard deviation of the loss around the fit, near each point.
    """

    time: Float[np.ndarray, " point"]
    loss: Float[np.ndarray, " point"]
    smooth: Float[np.ndarray, " point"]
    traveled: Float[np.ndarray, " point"]
    noise: Float[np.ndarray, " point"]


def _point_noise(loss: np.ndarray) -> float:
    """Noise of single points from third differences, which a smooth curve hardly has (their variance is 20 σ²)."""
    if loss.size < 8:
        return 0.0
    return float(np.median(np.abs(np.diff(loss, 3)))) / (0.6745 * 20**0.5)


def _block_means(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    edges = np.unique(np.linspace(0, values.size, min(count, values.size) + 1).astype(int))
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges), edges


def turning_points(loss: np.ndarray) -> list[int]:
    """Indices at which the curve turns from falling to rising or back, by more than noise and a tenth of its range."""
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


def _local_noise(loss: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise in about 32 stretches, each taking the largest of its own and its neighbors'.

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


def unfold(loss: Float[np.ndarray, " step"], time: Float[np.ndarray, " step"]) -> Unfolded:
    """The curve without its noise. Exact where there is none: a monotone curve is its own fit."""
    smooth, noise, traveled = _piecewise(loss)
    noisy = bool(np.median(noise) > 1e-3 * float(np.ptp(smooth)))
    if noisy and loss.size > 2 * _NOISY_POINTS:
        loss, edges = _block_means(loss, _NOISY_POINTS)
        time = np.add.reduceat(time, edges[:-1]) / np.diff(edges)
        smooth, noise, traveled = _piecewise(loss)
    return Unfolded(time, loss, smooth, traveled, noise)


def _piecewise(loss: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit, noise and distance traveled. The ends of an isotonic fit follow single points: there, two standard
    deviations of noise are taken off."""
    smooth = np.empty_like(loss)
    pieces = [slice(*ends) for ends in pairwise([0, *turning_points(loss), loss.size])]
    for piece in pieces:
        fits = [isotonic_regression(loss[piece], increasing=rises).x for rises in (False, True)]
        smooth[piece] = min(fits, key=lambda fit: float(np.sum((fit - loss[piece]) ** 2)))
    noise = _local_noise(loss, smooth)
    steps = np.zeros_like(loss)
    for piece in pieces:
        fit, ends = smooth[piece], noise[piece][[0, -1]]
        low, high = (1, 0) if fit[0] > fit[-1] else (0, 1)
        middle = (fit[0] + fit[-1]) / 2
        fit = np.clip(fit, min(fit.min() + 2 * ends[low], middle), max(fit.max() - 2 * ends[high], middle))
        smooth[piece] = fit
        steps[piece][1:] = np.abs(np.diff(fit))
    return smooth, noise, np.cumsum(steps)
