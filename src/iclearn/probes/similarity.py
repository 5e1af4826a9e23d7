"""How far two models are from each other: in what they predict, and in how their answer depends on the query.

Any two Models over any prompts, with standard errors; and exactly, over all prompts of a Gaussian task, for models that
are linear in the cubic features (ŷ = β̂ᵀ W x_q).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.prompt import Batch
from ..models.base import AbstractFeatureModel
from ..models.features import attention_scale
from ..tasks.expectations import wishart_sandwich
from .reading import covariance_of, finite


@dataclass(frozen=True)
class Similarity:
    """How far two models are apart over a set of prompts; see `compare`.

    Args:
        prediction: root mean square of ŷ_a − ŷ_b.
        sensitivity: root mean square of ‖∂ŷ_a/∂x_q − ∂ŷ_b/∂x_q‖.
        cosine: mean over prompts of the cosine of the two sensitivities (NaN where one of them is zero everywhere).
        prediction_error, sensitivity_error, cosine_error: their standard errors over prompts.
        num_prompts: how many prompts there were.
    """

    prediction: float
    prediction_error: float
    sensitivity: float
    sensitivity_error: float
    cosine: float
    cosine_error: float
    num_prompts: int


def differences(model_a: AbstractModel, model_b: AbstractModel, prompt: Any) -> dict[str, Array]:
    """How two models differ on one prompt, of whatever kind they read.

    Args:
        model_a, model_b: two models that read this kind of prompt.
        prompt: one prompt, without a batch axis.

    Returns:
        ``prediction``: ‖ŷ_a − ŷ_b‖; and for each row of the sensitivities (an output, or a word of a document)
        ``sensitivity``: the norm of the difference; ``dot``: the inner product; ``norm_a``, ``norm_b``: the norms.
    """
    s_a, s_b = model_a.sensitivity(prompt), model_b.sensitivity(prompt)
    return {
        "prediction": jnp.linalg.norm(model_a.predict(prompt) - model_b.predict(prompt)),
        "sensitivity": jnp.linalg.norm(s_a - s_b, axis=-1),
        "dot": jnp.sum(s_a * s_b, -1),
        "norm_a": jnp.linalg.norm(s_a, axis=-1),
        "norm_b": jnp.linalg.norm(s_b, axis=-1),
    }


@eqx.filter_jit
def _per_prompt(a: AbstractModel, b: AbstractModel, batch: Batch) -> tuple[Array, Array, Array]:
    """Squared differences of predictions and sensitivities, and cosines, prompt by prompt."""

    def one(prompt: Any) -> tuple[Array, Array, Array]:
        found = differences(a, b, prompt)
        norm = jnp.sqrt(jnp.sum(found["norm_a"] ** 2) * jnp.sum(found["norm_b"] ** 2))
        cosine = jnp.where(norm > 0, jnp.sum(found["dot"]) / jnp.where(norm > 0, norm, 1.0), jnp.nan)
        return found["prediction"] ** 2, jnp.sum(found["sensitivity"] ** 2), cosine

    return jax.vmap(one)(batch.prompt)


def _mean(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean and its standard error, prompts without a value left out."""
    kept = np.isfinite(values) & (weight > 0)
    if not kept.any():
        return np.nan, np.nan
    values, weight = values[kept], weight[kept] / weight[kept].sum()
    mean = float(weight @ values)
    if values.size == 1:
        return mean, np.nan
    return mean, float(np.sqrt(np.sum(weight**2 * (values - mean) ** 2) * values.size / (values.size - 1)))


def _root(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    mean, error = _mean(values, weight)
    return mean**0.5, error / (2 * mean**0.5) if mean > 0 else 0.0


def compare(model_a: AbstractModel, model_b: AbstractModel, batch: Batch) -> Similarity:
    """The distance between two models over the prompts of a batch, in prediction and in sensitivity to the query.

    Args:
        model_a, model_b: any two models.
        batch: prompts, weighted as the batch weighs them.

    Returns:
        The distances, with standard errors over prompts.

    >>> from iclearn.core.prompt import Prompt
    >>> from iclearn.models.predictors import LeastSquares
    >>> prompt = Prompt(jnp.ones((2, 3, 1)), jnp.ones((2, 3, 1)), jnp.ones((2, 1)), jnp.ones((2, 3), bool))
    >>> batch = Batch(prompt, jnp.ones((2, 1)), jnp.full(2, 0.5))
    >>> compare(LeastSquares(), LeastSquares(), batch).prediction
    0.0
    """
    return _summary(_per_prompt(model_a, model_b, batch), batch)


def compare_all(models: Sequence[AbstractModel], reference: AbstractModel, batch: Batch) -> list[Similarity]:
    """`compare` of each of several models of one shape with the same other one, in one program."""
    arrays, rest = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *arrays)
    found = [np.asarray(values) for values in _per_model(stacked, rest[0], reference, batch)]
    return [_summary(tuple(values[i] for values in found), batch) for i in range(len(models))]


@eqx.filter_jit
def _per_model(stacked: Any, rest: Any, reference: AbstractModel, batch: Batch) -> tuple[Array, ...]:
    return jax.lax.map(lambda arrays: _per_prompt(eqx.combine(arrays, rest), reference, batch), stacked)


def _summary(per_prompt: tuple[Array, ...], batch: Batch) -> Similarity:
    predictions, sensitivities, cosines = map(np.asarray, per_prompt)
    if not (np.isfinite(predictions).all() and np.isfinite(sensitivities).all()):
        raise IclearnError("a model predicted NaN or infinity: its weights have diverged")
    weight = np.asarray(batch.weight, float)
    return Similarity(
        *_root(predictions, weight),
        *_root(sensitivities, weight),
        *_mean(cosines, weight),
        num_prompts=int((weight > 0).sum()),
    )


def model_matrix(model: AbstractFeatureModel, context_len: int) -> Float[np.ndarray, "dim dim"]:
    """The matrix W with ŷ = β̂ᵀ W x_q, β̂ = (1/N) Σ y x, of a model (blocks that must be zero are taken as zero).

    Args:
        model: linear in the cubic features, with one output.
        context_len: N.

    Returns:
        (dim, dim) W.

    >>> from iclearn import Attention
    >>> weights = {"value": np.full((1, 1, 3), 2.0), "kq": np.ones((1, 2, 3))}
    >>> model_matrix(Attention("merged", num_heads=1, normalize="context").rebuild(2, weights), 31).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    coefficients = np.asarray(model.reduced().cubic_coefficients())  # type: ignore[attr-defined]
    features = model.feature_map
    if features is None:
        raise IclearnError("a softmax model is not linear in the cubic features: compare it over prompts instead")
    if coefficients.shape[0] != 1:
        raise IclearnError(f"model_matrix reads models with one output, not {coefficients.shape[0]}")
    gain = float(context_len * attention_scale(features.normalize, float(context_len)))
    return gain * coefficients[0, :, :, 0].T


def beta_moment(covariance: Any, context_len: int, *, noise: float = 0.0) -> Float[np.ndarray, "dim dim"]:
    """E[β̂β̂ᵀ] = Λ² + (Λ + tr Λ) Λ/N + σ²Λ/N for task vectors w ~ N(0, I) and label noise of variance σ².

    Args:
        covariance: (dim, dim) Λ.
        context_len: N.
        noise: σ².

    Returns:
        (dim, dim) the expectation.

    >>> beta_moment(np.eye(2), 4).tolist()
    [[1.75, 0.0], [0.0, 1.75]]
    """
    if context_len < 1 or noise < 0:
        raise IclearnError(f"context_len must be at least 1 and noise not negative, not {context_len} and {noise}")
    cov = covariance_of(None, covariance)
    moment = wishart_sandwich(jnp.eye(cov.shape[0]), jnp.asarray(cov), float(context_len))
    return np.asarray(moment) + noise * cov / context_len


def population_distance(
    matrix_a: Any, matrix_b: Any, covariance: Any, context_len: int, *, noise: float = 0.0
) -> Float[np.ndarray, " *record"]:
    """The mean squared difference of two predictions, exactly, over all prompts: E(ŷ_a − ŷ_b)² = tr(Δᵀ E[β̂β̂ᵀ] Δ Λ).

    Δ = W_a − W_b, and E[β̂β̂ᵀ] is `beta_moment`.

    Args:
        matrix_a, matrix_b: (…, dim, dim) W with ŷ = β̂ᵀ W x_q, β̂ = (1/N) Σ y x; leading axes broadcast.
        covariance: (dim, dim) Λ of inputs and query.
        context_len: N.
        noise: variance of the noise on the context labels.

    Returns:
        (…) the mean squared difference.

    >>> float(population_distance(np.eye(2), np.zeros((2, 2)), np.eye(2), 4))
    3.5
    """
    difference = finite("a matrix", matrix_a) - finite("a matrix", matrix_b)
    moment = beta_moment(covariance, context_len, noise=noise)
    return np.einsum("...ij,ik,...kl,lj->...", difference, moment, difference, np.asarray(covariance), optimize=True)


def population_sensitivity(
    matrix_a: Any, matrix_b: Any, covariance: Any, context_len: int, *, noise: float = 0.0
) -> tuple[Float[np.ndarray, " *record"], Float[np.ndarray, " *record"]]:
    """How far apart the sensitivities s = ∂ŷ/∂x_q = Wᵀβ̂ of two predictions are, exactly, over all prompts.

    Args:
        matrix_a, matrix_b, covariance, context_len, noise: see `population_distance`.

    Returns:
        (…) E‖s_a − s_b‖², and (…) the cosine E[s_a·s_b]/√(E‖s_a‖² E‖s_b‖²), NaN where one of them is zero.

    >>> [float(part) for part in population_sensitivity(np.eye(2), 2 * np.eye(2), np.eye(2), 4)]
    [3.5, 1.0]
    """
    a, b = finite("a matrix", matrix_a), finite("a matrix", matrix_b)
    moment = beta_moment(covariance, context_len, noise=noise)

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("...ij,ik,...kj->...", left, moment, right))

    scale = np.sqrt(product(a, a) * product(b, b))
    cosine = np.where(scale > 0, product(a, b) / np.where(scale > 0, scale, 1.0), np.nan)
    return np.asarray(product(a - b, a - b)), cosine
