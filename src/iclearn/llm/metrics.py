"""How good answers are: Pearson, Spearman and squared error, with intervals from resampled pairs.

Arrays have pairs on the last axis; with a leading axis of seeds a measure is the mean over seeds, and a resample takes
the same pairs for every seed, so that differences between conditions are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from .prompts import SCALE
from .streams import generator

RESAMPLES = 1000


def pearson(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Correlation over the last axis; NaN where one side is constant.

    >>> float(pearson(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])))
    1.0
    """
    a = a - a.mean(-1, keepdims=True)
    b = b - b.mean(-1, keepdims=True)
    size = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    # constants leave rounding errors, not zeros
    flat = size <= 1e-12 * a.shape[-1]
    return np.where(flat, np.nan, (a * b).sum(-1) / np.where(flat, 1.0, size))


def spearman(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Correlation of the ranks; ties share their mean rank."""
    return pearson(rankdata(a, axis=-1), rankdata(b, axis=-1))


def mse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a - b) ** 2).mean(-1)


def slope(answer: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Least-squares slope of the answer on the guess: 1 copies it, 0 ignores it; NaN for a constant guess."""
    centered = guess - guess.mean(-1, keepdims=True)
    spread = (centered * centered).sum(-1)
    flat = spread <= 1e-12 * guess.shape[-1]
    return np.where(flat, np.nan, (centered * answer).sum(-1) / np.where(flat, 1.0, spread))


def copy_rate(mark: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Share of answers whose likeliest mark is the guess rounded to the scale."""
    return (mark == np.clip(np.floor(guess + 0.5), SCALE[0], SCALE[-1])).mean(-1)


def partial(answer: np.ndarray, score: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Correlation of answer and score with the guess held fixed: what the answer knows beyond its guess."""
    rest_answer = answer - slope(answer, guess)[..., None] * (guess - guess.mean(-1, keepdims=True))
    rest_score = score - slope(score, guess)[..., None] * (guess - guess.mean(-1, keepdims=True))
    return pearson(rest_answer, rest_score)


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pearson": pearson,
    "spearman": spearman,
    "mse": mse,
}


@dataclass(frozen=True)
class Interval:
    """A measure and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """+1 or −1 when the whole interval lies on one side of zero, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def rounded(self, digits: int = 3) -> list[float]:
        return [round(x, digits) + 0.0 for x in (self.value, self.low, self.high)]  # + 0.0: no minus zero


def bootstrap(
    measure: Callable[..., np.ndarray], *arrays: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """A measure of arrays (all with pairs last) and its percentile interval over resampled pairs.

    The same seed resamples the same pairs. Resamples in which the measure is undefined are left out.
    """
    size = arrays[0].shape[-1]
    rows = generator(seed, "bootstrap", size).integers(0, size, (resamples, size))

    def mean_over_seeds(values: np.ndarray, keep: int) -> np.ndarray:
        return values.mean(axis=tuple(range(values.ndim - keep))) if values.ndim > keep else values

    found = float(mean_over_seeds(np.asarray(measure(*arrays)), 0))
    again = mean_over_seeds(np.asarray(measure(*(array[..., rows] for array in arrays))), 1)
    again = again[np.isfinite(again)]
    if not np.isfinite(found) or not again.size:
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(again, [0.025, 0.975])
    return Interval(found, float(low), float(high))
