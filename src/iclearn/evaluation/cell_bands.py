"""Errors, differences and distances with their bands: means where they exist, medians where not."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from ..core.errors import MissingClosedForm
from ..probes.bootstrap_bands import mean_edges, median_edges, resampling_shares
from ..tasks.function_class import FunctionClass
from ..tasks.prompt_shifts import Shift
from ..theory.functions import linear_law

LIGHT_TAILS = 4.0  # degrees of freedom up to which squared labels have no variance


def mean_exists(task: FunctionClass, shift: Shift | None, inverts: bool, points: int) -> Bool[np.ndarray, " position"]:
    """At which positions the mean of the squared errors of a predictor exists.

    With noise on labels or inputs, least squares without a penalty has none while the number of pairs is within one of
    the dimensions that inputs fill. Under inputs of Student's law with up to 4 degrees of freedom squared labels have
    no variance, so that means over prompts, where they exist at all, do not settle: medians for every predictor.

    Args:
        task: the class of functions.
        shift: of its prompts.
        inverts: whether the predictor solves without a penalty.
        points: of a prompt.

    Returns:
        (position) where it exists.

    >>> mean_exists(FunctionClass(dim=3, noise=1.0), None, True, 6).tolist()
    [True, True, False, False, False, True]
    """
    found = np.ones(points, bool)
    name = "" if shift is None else shift.name
    if name == "input_tails" and shift is not None and shift.size <= LIGHT_TAILS:
        return ~found
    noisy = task.noise > 0
    if shift is not None and name in ("noise", "input_noise"):
        noisy = shift.size > 0
    if inverts and (noisy or name == "noisyLR"):
        found[np.abs(np.arange(points) - filled_dimensions(task, shift)) <= 1] = False
    return found


def filled_dimensions(task: FunctionClass, shift: Shift | None) -> int:
    """How many dimensions the inputs of the context fill under a shift."""
    name = "" if shift is None else shift.name
    return {"half_subspace": task.dim // 2, "orthogonal_line": task.dim - 1}.get(name, task.dim)


def references_differ(task: FunctionClass, shift: Shift | None) -> bool:
    """Whether Bayes that knows the shift and Bayes that does not give different answers.

    Args:
        task: the class of functions.
        shift: of its prompts.

    Returns:
        Whether the law of labels given the inputs changes; False where a reference is no closed form. Without noise
        the scale of the prior has no effect.
    """
    try:
        own, other = linear_law(task), linear_law(task, shift)
    except MissingClosedForm:
        return False
    if not np.allclose(own.mean, other.mean):
        return True
    return not np.allclose(own.covariance * other.noise, other.covariance * own.noise)


@dataclass
class Resampler:
    """Bands over columns, from the same resamples of prompts for all of them.

    Args:
        trials: resamples.
        level: of the bands.
        seed: of the resampling.
    """

    trials: int
    level: float
    seed: int
    _shares: dict[int, np.ndarray] = field(default_factory=dict)

    def shares(self, count: int) -> np.ndarray:
        """(trial, prompt) of so many prompts."""
        if count not in self._shares:
            rows = np.random.default_rng(self.seed).integers(0, count, (self.trials, count))
            self._shares[count] = resampling_shares(rows, count)
        return self._shares[count]

    def summary(
        self, values: Float[np.ndarray, "prompt column"], mean: Bool[np.ndarray, " column"]
    ) -> dict[str, Float[np.ndarray, " column"]]:
        """What prompts say about columns of values.

        Args:
            values: (prompt, column); a column with a NaN is NaN.
            mean: (column) whether its mean exists; else the median is taken.

        Returns:
            ``value``, ``low`` and ``high`` of the mean or median, and ``mean``, ``median`` and ``std``.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            means, medians, std = values.mean(0), np.median(values, 0), values.std(0, ddof=1)
        low, high = mean_edges(self.shares(len(values)), values, self.level)
        if not mean.all():
            edges = median_edges(values[:, ~mean], self.level)
            low[~mean], high[~mean] = edges
        bad = ~np.isfinite(values).all(0)
        found = {"value": np.where(mean, means, medians), "low": low, "high": high}
        found |= {"mean": means, "median": medians, "std": std}
        return {name: np.where(bad, np.nan, column) for name, column in found.items()}
