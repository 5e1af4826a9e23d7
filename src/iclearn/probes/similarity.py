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
from ..core.prompt import Batch, Prompt
from ..models.base import AbstractFeatureModel
from ..models.features import attention_scale
from ..tasks.expectations import wishart_sandwich
from .reading import covariance_of, finite


@dataclass(frozen=True)
class Similarity:
    """Two models over a set of prompts; every number has its standard error over prompts.

    Args:
        prediction: root mean square of ŷ_a − ŷ_b.
        sensitivity: root mean square of ‖∂ŷ_a/∂x_q − ∂ŷ_b/∂x_q‖.
        cosine: mean over prompts of the cosine of the two sensitivities (NaN where one of them is zero everywhere).
        num_prompts: how many prompts there were.
    """

    prediction: float
    prediction_error: float
    sensitivity: float
    sensitivity_error: float
    cosine: float
    cosine_error: float
    num_prompts: int


def _answers(model: AbstractModel, prompt: Prompt) -> tuple[Array, Array]:
    def at(query: Array) -> Array:
        return model.predict(Prompt(prompt.x, prompt.y, query, prompt.mask))

    return at(prompt.query), jax.jacrev(at)(prompt.query)


@eqx.filter_jit
def _per_prompt(a: AbstractModel, b: AbstractModel, batch: Batch) -> tuple[Array, Array, Array]:
    """Squared differences of predictions and sensitivities, and cosines, prompt by prompt."""

    def one(prompt: Prompt) -> tuple[Array, Array, Array]:
        (y_a, s_a), (y_b, s_b) = _answers(a, prompt), _answers(b, prompt)
        norm = jnp.sqrt(jnp.sum(s_a**2) * jnp.sum(s_b**2))
        cosine = jnp.where(norm > 0, jnp.sum(s_a * s_b) / jnp.where(norm > 0, norm, 1.0), jnp.nan)
        return jnp.sum((y_a - y_b) ** 2), jnp.sum((s_a - s_b) ** 2), cosine

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
    """Distance between two models over the prompts of a batch (weighted as the batch weighs them)."""
    return _summary(_per_prompt(model_a, model_b, batch), batch)


def compare_all(models: Sequence[AbstractModel], reference: AbstractModel, batch: Batch) -> list[Similarity]:
    """`compare` of each of several models of one shape with the same other one, in one program."""
    arrays, rest = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *arrays)
    found = [np.asarray(values) for values in _per_model(stacked, rest[0], reference, batch)]
    return [_summary(tuple(values[i] for values in found), batch) for i in range(len(models))]


@eqx.filter_jit
def _per_model(
    stacked: AbstractModel, rest: AbstractModel, reference: AbstractModel, batch: Batch
) -> tuple[Array, ...]:
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
    """W with ŷ = β̂ᵀ W x_q, β̂ = (1/N) Σ y x, of a model with one output (blocks that must be zero taken as zero)."""
    coefficients = np.asarray(model.reduced().cubic_coefficients())  # type: ignore[attr-defined]
    features = model.feature_map
    if features is None:
        raise IclearnError("a softmax model is not linear in the cubic features: compare it over prompts instead")
    if coefficients.shape[0] != 1:
        raise IclearnError(f"model_matrix reads models with one output, not {coefficients.shape[0]}")
    gain = float(context_len * attention_scale(features.normalize, float(context_len)))
    return gain * coefficients[0, :, :, 0].T


def beta_moment(covariance: Any, context_len: int, *, noise: float = 0.0) -> Float[np.ndarray, "dim dim"]:
    """E[β̂β̂ᵀ] = Λ² + (Λ + tr Λ) Λ/N + σ²Λ/N for task vectors w ~ N(0, I) and label noise of variance σ²."""
    if context_len < 1 or noise < 0:
        raise IclearnError(f"context_len must be at least 1 and noise not negative, not {context_len} and {noise}")
    cov = covariance_of(None, covariance)
    moment = wishart_sandwich(jnp.eye(cov.shape[0]), jnp.asarray(cov), float(context_len))
    return np.asarray(moment) + noise * cov / context_len


def population_distance(
    matrix_a: Any, matrix_b: Any, covariance: Any, context_len: int, *, noise: float = 0.0
) -> Float[np.ndarray, " *record"]:
    """E(ŷ_a − ŷ_b)² = tr(Δᵀ E[β̂β̂ᵀ] Δ Λ), exactly, over all prompts; leading axes of the matrices broadcast.

    Args:
        matrix_a, matrix_b: (…, dim, dim) with ŷ = β̂ᵀ W x_q, β̂ = (1/N) Σ y x.
        covariance: Λ of inputs and query.
        context_len: N.
        noise: variance of the noise on the context labels.
    """
    difference = finite("a matrix", matrix_a) - finite("a matrix", matrix_b)
    moment = beta_moment(covariance, context_len, noise=noise)
    return np.einsum("...ij,ik,...kl,lj->...", difference, moment, difference, np.asarray(covariance), optimize=True)


def population_sensitivity(
    matrix_a: Any, matrix_b: Any, covariance: Any, context_len: int, *, noise: float = 0.0
) -> tuple[Float[np.ndarray, " *record"], Float[np.ndarray, " *record"]]:
    """E‖Wᵀ_aβ̂ − Wᵀ_bβ̂‖² and the cosine E[s_a·s_b]/√(E‖s_a‖² E‖s_b‖²) of the sensitivities s = Wᵀβ̂."""
    a, b = finite("a matrix", matrix_a), finite("a matrix", matrix_b)
    moment = beta_moment(covariance, context_len, noise=noise)

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.einsum("...ij,ik,...kj->...", left, moment, right)

    scale = np.sqrt(product(a, a) * product(b, b))
    cosine = np.where(scale > 0, product(a, b) / np.where(scale > 0, scale, 1.0), np.nan)
    return np.asarray(product(a - b, a - b)), cosine
