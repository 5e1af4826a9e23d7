"""The nearest of some candidate predictors to what a model computes, over training: on plateau m, which PCR?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..core.errors import IclearnError
from ..core.trace import Trace
from .reading import covariance_of, effective_matrices, finite, gain_of_run
from .similarity import population_distance


@dataclass(frozen=True)
class NearestPredictor:
    """How far a model is from each candidate at every record; see `nearest_predictor`.

    Args:
        distance: (record, candidate) root mean square difference of the predictions.
        nearest: (record) index of the least.
    """

    distance: Float[np.ndarray, "record candidate"]
    nearest: Int[np.ndarray, " record"]


def nearest_predictor(
    source: Any,
    candidates: Any,
    context_len: int,
    covariance: Any = None,
    *,
    gain: float | None = None,
    noise: float = 0.0,
) -> NearestPredictor:
    """The distance of the model at every record to each candidate, exactly, over all prompts.

    Args:
        source: a Trace of a model linear in the cubic features, or matrices (record, dim, dim).
        candidates: (candidate, dim, dim), each W of a predictor ŷ = β̂ᵀ W x_q with β̂ = (1/N) Σ y x.
        context_len: N.
        covariance: (dim, dim) Λ (default: the Trace's).
        gain: how many times β̂ the model of `source` sees (default: that of a Trace's model for this N, 1 of matrices).
        noise: variance of the noise on the context labels.

    Returns:
        The distances, √E(ŷ_a − ŷ_b)² of `population_distance`, and the nearest candidate.

    >>> over_training = np.array([np.diag([0.9, 0.0]), np.diag([1.0, 0.8])])
    >>> pcr = [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.eye(2)]
    >>> nearest_predictor(over_training, pcr, 31, np.diag([0.6, 0.4])).nearest
    array([1, 2])
    """
    if gain is None and isinstance(source, Trace):
        gain = gain_of_run(source, context_len)
    matrices = effective_matrices(source, gain=gain)
    choices = finite("the candidates", candidates, 3)
    if choices.shape[0] == 0 or choices.shape[1:] != matrices.shape[1:]:
        raise IclearnError(f"candidates {choices.shape} must be matrices of the model's shape {matrices.shape[1:]}")
    cov = covariance_of(source, covariance)
    squared = population_distance(matrices[:, None], choices[None], cov, context_len, noise=noise)
    distance = np.sqrt(np.maximum(squared, 0.0))
    return NearestPredictor(distance, distance.argmin(1))
