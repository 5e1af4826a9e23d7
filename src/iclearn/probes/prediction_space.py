"""Predictors compared by their predictions: the difference Δ of raventos2023, and the joint PCA of carroll2025."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.checks import check_int
from ..core.errors import IclearnError
from .reading import finite


@dataclass(frozen=True)
class PredictionDistance:
    """Δ between two predictors; see `prediction_distance`.

    Args:
        mean: over sequences and prefixes.
        standard_error: of it, from the spread over sequences (infinite for one).
        prefixes: (prefix) the mean over sequences for each prefix.
    """

    mean: float
    standard_error: float
    prefixes: Float[np.ndarray, " prefix"]


def prediction_distance(first: Any, second: Any, dim: int) -> PredictionDistance:
    """Δ(a, b): the mean squared difference of two predictors' answers to the same sequences, divided by dim.

    Args:
        first: (sequence, prefix) the answers of one.
        second: (sequence, prefix) those of the other; labels without noise make it the error of raventos2023.
        dim: the dimension of the inputs.

    Returns:
        The mean, its standard error, and the mean at each prefix.

    >>> found = prediction_distance([[1.0, 2.0], [1.0, 4.0]], np.zeros((2, 2)), dim=2)
    >>> found.mean, found.prefixes.tolist()
    (2.75, [0.5, 5.0])
    """
    check_int("the dimension", dim, 1)
    a, b = finite("the first answers", first, 2), finite("the second answers", second, 2)
    if a.shape != b.shape or not a.size:
        raise IclearnError(f"answers {a.shape} and {b.shape} must be of the same sequences, and of at least one")
    squares = (a - b) ** 2 / dim
    rows = squares.mean(1)
    error = float(rows.std(ddof=1) / len(rows) ** 0.5) if len(rows) > 1 else float("inf")
    return PredictionDistance(float(rows.mean()), error, squares.mean(0))


@dataclass(frozen=True)
class JointPca:
    """The principal components of the predictions of many runs together; see `joint_pca`.

    Args:
        mean: (feature) of all predictions.
        axes: (component, feature) orthonormal, the largest variance first; the sign makes the largest entry positive.
        share: (component) of the variance.
        scores: for each run (record, component).
    """

    mean: Float[np.ndarray, " feature"]
    axes: Float[np.ndarray, "component feature"]
    share: Float[np.ndarray, " component"]
    scores: tuple[Float[np.ndarray, "_ component"], ...]

    def project(self, points: Any) -> Float[np.ndarray, "*batch component"]:
        """Other predictions in the same plane, e.g. those of ridge regression.

        Args:
            points: (…, feature) predictions on the same sequences.

        Returns:
            (…, component) their coordinates.
        """
        return (np.asarray(points, float) - self.mean) @ self.axes.T


def joint_pca(runs: Sequence[Any], components: int = 2) -> JointPca:
    """One PCA of the predictions of all checkpoints of all runs (the joint trajectory PCA of carroll2025).

    Args:
        runs: for each run (record, feature) its predictions, features being prefixes of the same sequences.
        components: how many to keep.

    Returns:
        Components, their shares of the variance, and each run's coordinates.

    >>> line = np.outer([0.0, 1.0, 2.0], [3.0, 4.0])
    >>> found = joint_pca([line, line[:2]], components=1)
    >>> found.share.round(6).tolist(), found.scores[0][:, 0].round(6).tolist()
    ([1.0], [-4.0, 1.0, 6.0])
    """
    parts = [finite("the predictions of a run", run, 2) for run in runs]
    if not parts or len({part.shape[1] for part in parts}) != 1:
        raise IclearnError("a joint PCA needs runs with predictions on the same sequences")
    rows = np.concatenate(parts)
    check_int("the number of components", components, 1)
    if components > min(rows.shape):
        raise IclearnError(f"{rows.shape[0]} records of {rows.shape[1]} predictions have no {components} components")
    mean = rows.mean(0)
    _, sizes, axes = np.linalg.svd(rows - mean, full_matrices=False)
    total = float((sizes**2).sum())
    if total == 0:
        raise IclearnError("all predictions are the same: there is nothing to find components of")
    axes = axes[:components]
    axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], 1))
    scores = (rows - mean) @ axes.T
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return JointPca(mean, axes, sizes[:components] ** 2 / total, tuple(np.split(scores, cuts)))


def interpolated_tasks(first: Any, second: Any, alpha: Any) -> Float[np.ndarray, "*batch point dim"]:
    """Tasks on the way from one task to another, at the mean of their norms (raventos2023).

    w_α = ½(‖w₁‖ + ‖w₂‖) (α w₁ + (1 − α) w₂)/‖α w₁ + (1 − α) w₂‖.

    Args:
        first: (…, dim) w₁.
        second: (…, dim) w₂.
        alpha: (point) the places: 0 has the direction of the second task and 1 that of the first.

    Returns:
        (…, point, dim) the tasks. Where the mixture is zero there is no direction, and that is refused.

    >>> interpolated_tasks([1.0, 0.0], [0.0, 3.0], [0.0, 0.5]).round(3).tolist()
    [[0.0, 2.0], [0.632, 1.897]]
    """
    one, two = (np.asarray(w, float)[..., None, :] for w in (first, second))
    places = np.asarray(alpha, float)[:, None]
    mixed = places * one + (1 - places) * two
    norms = np.linalg.norm(mixed, axis=-1, keepdims=True)
    if not (norms > 0).all():
        raise IclearnError("two tasks are opposite: the path between them passes zero and has no direction there")
    radius = (np.linalg.norm(one, axis=-1, keepdims=True) + np.linalg.norm(two, axis=-1, keepdims=True)) / 2
    return radius * mixed / norms
