"""Bands around mean errors at every position: bootstrap over prompts, and of differences on the same prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, trim_mean

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
    low, high = mean_edges(resampling_shares(rows, count), values, level)
    std, median = values.std(0, ddof=1), np.median(values, 0)
    return Band(values.mean(0), std, low, high, median, trim_mean(values, 0.1, axis=0))


def resampling_shares(rows: np.ndarray, count: int) -> np.ndarray:
    """How often every prompt is in each resample, over the number of prompts: means are then one matrix product.

    Args:
        rows: (trial, prompt) numbers of the prompts of each trial.
        count: of prompts.

    Returns:
        (trial, prompt) the shares.

    >>> resampling_shares(np.array([[0, 0], [1, 0]]), 2).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return np.stack([np.bincount(chosen, minlength=count) for chosen in rows]) / rows.shape[1]


def mean_edges(shares: np.ndarray, values: np.ndarray, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The edges of the bootstrap band of means.

    Args:
        shares: (trial, prompt) of prompts in each resample (`resampling_shares`).
        values: (prompt, column).
        level: of the band.

    Returns:
        (column) the lower and the upper edge; NaN where a value is NaN or infinite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        means = shares @ values
    # the edges are whole numbers of trials where these are round; what floats lose is given back first
    first, last = (int(np.floor(share * len(means) + 1e-9)) for share in ((1 - level) / 2, (1 + level) / 2))
    last = min(last, len(means) - 1)
    ordered = np.partition(means, (first, last), 0)
    return ordered[first], ordered[last]


def median_edges(values: np.ndarray, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The edges of a band of medians: order statistics between which the median lies with at least this chance.

    No law of the values is assumed, and no moments: the number of values below the median is binomial.

    Args:
        values: (prompt, column).
        level: of the band.

    Returns:
        (column) the lower and the upper edge.

    >>> median_edges(np.arange(101.0)[:, None])
    (array([41.]), array([59.]))
    """
    count = len(values)
    below = max(int(binom.ppf((1 - level) / 2, count, 0.5)) - 1, 0)
    ordered = np.partition(values, (below, count - 1 - below), 0)
    return ordered[below], ordered[count - 1 - below]


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
