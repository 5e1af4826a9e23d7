"""Bands around mean errors at every position: bootstrap over prompts, and of differences on the same prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import trim_mean

from ..core.checks import as_numbers, check_int, require


@dataclass(frozen=True)
class Band:
    """What prompts say about a mean, position by position.

    Args:
        mean: (position) over prompts.
        std: (position) standard deviation over prompts (n − 1).
        low: (position) lower edge of the band of the mean.
        high: (position) its upper edge.
        median: (position) over prompts.
        trimmed: (position) mean without the lowest and the highest tenth.
    """

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    median: np.ndarray
    trimmed: np.ndarray

    def excludes(self, value: float) -> np.ndarray:
        """(position) whether a value lies outside of the band."""
        return (value < self.low) | (value > self.high)


def bootstrap_band(
    values: np.ndarray, *, trials: int = 1000, level: float = 0.9, seed: int = 0, rows: np.ndarray | None = None
) -> Band:
    """The mean of values over prompts with a bootstrap band, as in Garg et al. 2022.

    `trials` times as many prompts as there are, drawn with replacement; their means are sorted position by position,
    and the band goes from trial ⌊(1 − level)/2 · trials⌋ to trial ⌊(1 + level)/2 · trials⌋.

    Means of least squares with noise do not exist where about as many pairs as dimensions are seen: `Band.median` and
    `Band.trimmed` do.

    Args:
        values: (prompt, position) squared errors, say.
        trials: resamples.
        level: of the band.
        seed: of the resampling.
        rows: (trial, prompt) numbers of the prompts of each trial (None: drawn).

    Returns:
        The band.

    >>> band = bootstrap_band(np.arange(100.0)[:, None], trials=200)
    >>> bool(band.low[0] < band.mean[0] == 49.5 < band.high[0])
    True
    """
    values = as_numbers("values", values, 2)
    count = len(values)
    require(count > 1, f"a bootstrap needs at least two prompts, not {count}")
    require(0 < level < 1, f"the level of a band is between 0 and 1, not {level}")
    if rows is None:
        check_int("trials", trials, 2)
        rows = np.random.default_rng(seed).integers(0, count, (trials, count))
    means = np.sort(np.stack([values[chosen].mean(0) for chosen in rows]), 0)
    # the edges are whole numbers of trials where these are round; what floats lose is given back first
    first, last = (int(np.floor(share * len(means) + 1e-9)) for share in ((1 - level) / 2, (1 + level) / 2))
    std, median = values.std(0, ddof=1), np.median(values, 0)
    low, high = means[first], means[min(last, len(means) - 1)]
    return Band(values.mean(0), std, low, high, median, trim_mean(values, 0.1, axis=0))


def paired_band(
    first: np.ndarray, second: np.ndarray, *, trials: int = 1000, level: float = 0.9, seed: int = 0
) -> Band:
    """The band of the difference of two predictors on the same prompts, which is far narrower than two bands.

    Args:
        first: (prompt, position) errors of one.
        second: (prompt, position) errors of the other, on the same prompts.
        trials: resamples.
        level: of the band.
        seed: of the resampling.

    Returns:
        The band of first − second.

    >>> errors = np.random.default_rng(0).standard_normal((50, 3)) ** 2
    >>> paired_band(errors + 1, errors).excludes(0.0).tolist()
    [True, True, True]
    """
    first, second = as_numbers("first", first, 2), as_numbers("second", second, 2)
    require(first.shape == second.shape, f"paired errors have one shape, not {first.shape} and {second.shape}")
    return bootstrap_band(first - second, trials=trials, level=level, seed=seed)
