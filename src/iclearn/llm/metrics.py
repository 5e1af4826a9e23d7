"""How good answers are: Pearson, Spearman and squared error, with intervals from resampled pairs.

Arrays have pairs on the last axis; with a leading axis of seeds a measure is the mean over seeds, and a resample takes
the same pairs for every seed, so that differences between conditions are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from .extra import generator
from .prompts import SCALE

RESAMPLES = 1000
Measure = np.ndarray | np.floating  # an array, or one number for arrays of one axis


def pearson(a: np.ndarray, b: np.ndarray) -> Measure:
    """Correlation over the last axis; NaN where one side is constant.

    Args:
        a: (…, pair).
        b: (…, pair).

    >>> float(pearson(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])))
    1.0
    """
    a = a - a.mean(-1, keepdims=True)
    b = b - b.mean(-1, keepdims=True)
    size = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    # constants leave rounding errors, not zeros
    flat = size <= 1e-12 * a.shape[-1]
    return np.where(flat, np.nan, (a * b).sum(-1) / np.where(flat, 1.0, size))


def spearman(a: np.ndarray, b: np.ndarray) -> Measure:
    """Correlation of the ranks over the last axis; ties share their mean rank. Arguments as of `pearson`.

    >>> float(spearman(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0, 4.0])))
    1.0
    """
    return pearson(rankdata(a, axis=-1), rankdata(b, axis=-1))


def mse(a: np.ndarray, b: np.ndarray) -> Measure:
    """Mean squared difference over the last axis. Arguments as of `pearson`.

    >>> float(mse(np.array([0.0, 1.0]), np.array([0.0, 3.0])))
    2.0
    """
    return ((a - b) ** 2).mean(-1)


def slope(answer: np.ndarray, guess: np.ndarray) -> Measure:
    """Least-squares slope of the answer on the guess: 1 copies it, 0 ignores it; NaN for a constant guess.

    Args:
        answer: (…, pair).
        guess: (…, pair).

    >>> float(slope(np.array([1.0, 1.5, 2.0]), np.array([0.0, 1.0, 2.0])))
    0.5
    """
    centered = guess - guess.mean(-1, keepdims=True)
    spread = (centered * centered).sum(-1)
    flat = spread <= 1e-12 * guess.shape[-1]
    return np.where(flat, np.nan, (centered * answer).sum(-1) / np.where(flat, 1.0, spread))


def copy_rate(mark: np.ndarray, guess: np.ndarray) -> Measure:
    """Share of answers whose likeliest mark is the guess rounded to the scale.

    Args:
        mark: likeliest marks, (…, pair).
        guess: (…, pair).

    >>> float(copy_rate(np.array([3.0, 1.0]), np.array([2.6, 4.0])))
    0.5
    """
    return (mark == np.clip(np.floor(guess + 0.5), SCALE[0], SCALE[-1])).mean(-1)


def partial(answer: np.ndarray, score: np.ndarray, guess: np.ndarray) -> Measure:
    """Correlation of answer and score with the guess held fixed: what the answer knows beyond its guess.

    It is the correlation of what is left of both after a linear fit on the guess.

    Args:
        answer: (…, pair).
        score: (…, pair).
        guess: (…, pair).

    >>> rest, guess = np.array([1.0, -1.0, -1.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> float(partial(guess + rest, 2 * guess - rest, guess))
    -1.0
    """
    centered = guess - guess.mean(-1, keepdims=True)
    return pearson(*(values - np.asarray(slope(values, guess))[..., None] * centered for values in (answer, score)))


METRICS: dict[str, Callable[..., Measure]] = {"pearson": pearson, "spearman": spearman, "mse": mse}


@dataclass(frozen=True)
class Interval:
    """A measure and its 95 % bootstrap interval.

    Args:
        value: the measure.
        low: end of the interval.
        high: end of the interval.

    >>> Interval(0.12, 0.03, 0.2).sign, Interval(0.1234, -0.1, 0.3).rounded()
    (1, [0.123, -0.1, 0.3])
    """

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """+1 or −1 when the whole interval lies on one side of zero, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def rounded(self, digits: int = 3) -> list[float]:
        """Value, low and high to this many digits."""
        return [round(x, digits) + 0.0 for x in (self.value, self.low, self.high)]  # + 0.0: no minus zero


def bootstrap(
    measure: Callable[..., Measure], *arrays: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """A measure of arrays and its percentile interval over resampled pairs.

    Args:
        measure: of the arrays, over their last axis.
        arrays: (pair,) or (seed, pair).
        resamples: how many. Those in which the measure is undefined are left out.
        seed: the same seed resamples the same pairs.

    Returns:
        The measure, a mean over seeds, and the range that holds 95 % of the resamples. NaN where it is undefined.

    >>> score = np.arange(50.0)
    >>> bootstrap(mse, score + 1, score)
    Interval(value=1.0, low=1.0, high=1.0)
    """
    size = arrays[0].shape[-1]
    rows = generator(seed, "bootstrap", size).integers(0, size, (resamples, size))

    def mean_over_seeds(values: np.ndarray, keep: int) -> Measure:
        return values.mean(axis=tuple(range(values.ndim - keep))) if values.ndim > keep else values

    value = float(mean_over_seeds(np.asarray(measure(*arrays)), 0))
    again = mean_over_seeds(np.asarray(measure(*(array[..., rows] for array in arrays))), 1)
    again = np.asarray(again)[np.isfinite(again)]
    if not np.isfinite(value) or not again.size:
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(again, [0.025, 0.975])
    return Interval(value, float(low), float(high))
