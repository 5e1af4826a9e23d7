"""Which step of an algorithm a layer of a model is like: cosines of their errors (Fu et al. 2024), two ways.

Over sequences: the errors ŷ − y at every prefix, a cosine for each sequence, its mean over sequences. For spectral
filters: E tr(ρ₁ ρ₂)/√(E tr ρ₁² · E tr ρ₂²), the same cosine over all task vectors and queries at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from ..core.errors import IclearnError
from ..core.model import AbstractModel


@dataclass(frozen=True)
class StepMatch:
    """Cosines of layers with steps; see `match_steps`.

    Args:
        cosine: (layer, step) the cosines.
        best: (layer) index of the step with the largest.
    """

    cosine: Float[np.ndarray, "layer step"]
    best: Int[np.ndarray, " layer"]

    @property
    def largest(self) -> Float[np.ndarray, " layer"]:
        """(layer) the cosine with the best step."""
        return self.cosine[np.arange(len(self.best)), self.best]


def prefix_errors(
    models: Sequence[AbstractModel], x: Any, y: Any, truth: Any = None
) -> Float[np.ndarray, "model sequence token"]:
    """The errors ŷ − y of models at every prefix of sequences.

    Args:
        models: those to compare: layers read out, or an algorithm after different numbers of steps.
        x: (sequence, token, dim) inputs.
        y: (sequence, token) labels as shown.
        truth: (sequence, token) labels to be predicted (None: those shown).

    Returns:
        (model, sequence, token) the errors; of token n from the n tokens before it.

    >>> from iclearn.models.predictors import LeastSquares
    >>> x = np.ones((1, 3, 1))
    >>> abs(prefix_errors([LeastSquares()], x, 2 * x[..., 0])).round(6)
    array([[[2., 0., 0.]]])
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 3 or y.shape != x.shape[:2]:
        raise IclearnError(f"x {x.shape} must be (sequence, token, dim) and y {y.shape} (sequence, token)")
    goal = y if truth is None else np.asarray(truth, float)
    return np.stack([np.asarray(_answers(model, x, y[..., None]))[..., 0] - goal for model in models])


@eqx.filter_jit
def _answers(model: AbstractModel, x: Any, y: Any) -> Any:
    return jax.vmap(model.predict_prefixes)(x, y)


def match_steps(layers: Any, steps: Any) -> StepMatch:
    """The cosines of the errors of layers with those of the steps of an algorithm, sequence by sequence.

    Args:
        layers: (layer, sequence, token) errors, such as `prefix_errors` gives.
        steps: (step, sequence, token) errors on the same sequences.

    Returns:
        Mean over sequences of the cosine for every pair, and the best step of each layer.

    >>> errors = np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    >>> match_steps(errors, errors[::-1]).best
    array([1, 0])
    """
    first, second = (np.asarray(v, float) for v in (layers, steps))
    if first.ndim != 3 or first.shape[1:] != second.shape[1:]:
        raise IclearnError(f"errors {first.shape} and {second.shape} must be (…, sequence, token) on the same tokens")
    for what, errors in (("a layer", first), ("a step", second)):
        if not np.isfinite(errors).all():
            raise IclearnError(f"the errors of {what} hold NaN or infinity: a model has diverged")
    unit_first, unit_second = (
        e / np.maximum(np.linalg.norm(e, axis=-1, keepdims=True), 1e-300) for e in (first, second)
    )
    cosine = np.einsum("lst,kst->lk", unit_first, unit_second) / first.shape[1]
    return StepMatch(cosine, cosine.argmax(1))


def match_filters(layers: Any, steps: Any) -> StepMatch:
    """The cosines of spectral filters over sampled spectra: E tr(ρ₁ρ₂)/√(E tr ρ₁² · E tr ρ₂²).

    Args:
        layers: (layer, prompt, dim) ρ of each layer at the eigenvalues of each prompt.
        steps: (step, prompt, dim) ρ of each step at the same eigenvalues.

    Returns:
        The cosine for every pair, and the best step of each layer.

    >>> s = np.array([[0.5, 1.0]])
    >>> found = match_filters([1 - s], [1 - 0.5 * s, (1 - s) ** 2])
    >>> found.best, found.largest
    (array([1]), array([1.]))
    """
    first, second = (np.asarray(v, float) for v in (layers, steps))
    if first.ndim != 3 or first.shape[1:] != second.shape[1:]:
        raise IclearnError(f"filters {first.shape} and {second.shape} must be (…, prompt, dim) on the same spectra")
    size = [np.sqrt(np.sum(rho**2, (1, 2))) for rho in (first, second)]
    if not all(np.isfinite(v).all() and (v > 0).all() for v in size):
        raise IclearnError("a filter is zero everywhere, NaN or infinite: it has no direction to compare")
    cosine = np.einsum("lpd,kpd->lk", first, second) / np.outer(*size)
    return StepMatch(cosine, cosine.argmax(1))
