"""How good answers are: Pearson, Spearman and squared error, with intervals from resampled pairs.

Arrays have pairs on the last axis; with a leading axis of draws (of examples, guesses and noise) a measure is the mean
over draws. A resample takes draws and, for all of them, the same pairs, so that differences between conditions are
paired.
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
    """A measure of arrays and its percentile interval over resampled draws and pairs.

    Args:
        measure: of the arrays, over their last axis.
        arrays: (pair,) or (draw, pair).
        resamples: how many. Those in which the measure is undefined are left out.
        seed: the same seed resamples the same draws and pairs.

    Returns:
        The measure, a mean over draws, and the range that holds 95 % of the resamples. NaN where it is undefined.

    >>> score = np.arange(50.0)
    >>> bootstrap(mse, score + 1, score)
    Interval(value=1.0, low=1.0, high=1.0)
    """
    tables = [np.atleast_2d(array) for array in arrays]
    draws, size = tables[0].shape
    random = generator(seed, "bootstrap", size)
    rows = random.integers(0, size, (resamples, 1, size))
    chosen = random.integers(0, draws, (resamples, draws, 1))
    value = float(np.mean(np.asarray(measure(*tables))))
    again = np.asarray(measure(*(table[chosen, rows] for table in tables))).mean(-1)
    again = again[np.isfinite(again)]
    if not np.isfinite(value) or not again.size:
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(again, [0.025, 0.975])
    return Interval(value, float(low), float(high))


def combination(
    guess: np.ndarray, unaided: np.ndarray, fit_guess: np.ndarray, fit_unaided: np.ndarray, fit_score: np.ndarray
) -> np.ndarray:
    """The best linear combination of a guess and an unaided answer, fitted on other pairs: what a perfect user of the
    guess would reach.

    Args:
        guess: (draw, pair).
        unaided: (draw, pair).
        fit_guess: (draw, other pair).
        fit_unaided: (draw, other pair).
        fit_score: their scores, (other pair,).

    Returns:
        Answers (draw, pair), cut to the scale.

    >>> one, two = np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 1.0, 4.0]])
    >>> combination(one, two, one, two, (one + two)[0] / 2).round(6).tolist()
    [[1.5, 1.5, 3.5]]
    """

    def design(*columns: np.ndarray) -> np.ndarray:
        return np.stack([np.ones_like(columns[0]), *columns], axis=-1)

    weights = [
        np.linalg.lstsq(design(g, a), fit_score, rcond=None)[0] for g, a in zip(fit_guess, fit_unaided, strict=True)
    ]
    answers = np.einsum("spk,sk->sp", design(guess, unaided), np.stack(weights))
    return np.clip(answers, SCALE[0], SCALE[-1])
