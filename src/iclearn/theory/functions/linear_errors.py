"""Errors of predictors that are linear in the labels: labels integrated out, inputs sampled (Rao–Blackwell)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import full_prompt

Inputs = Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A mean over inputs and its standard error.

    Args:
        mean: the mean.
        error: its standard error.
    """

    mean: float
    error: float

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        """The mean of independent values."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def standard_inputs(generator: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """(draw, pair, dim) inputs N(0, I)."""
    return generator.standard_normal(shape)


def conditional_error(
    matrix: np.ndarray,
    x: np.ndarray,
    query: np.ndarray | None = None,
    prior: np.ndarray | None = None,
    noise: float = 0.0,
) -> float:
    """The excess error of ŷ = q·A y given the inputs X of the context, divided by d.

    tr(Λ_q (AX − I) S_w (AX − I)ᵀ) + σ² tr(Λ_q A Aᵀ), over d.

    Args:
        matrix: (dim, context) A, which may depend on X.
        x: (context, dim) X.
        query: (dim, dim) Λ_q = E q qᵀ (None: I).
        prior: (dim, dim) S_w = E w wᵀ (None: I).
        noise: σ².

    Returns:
        The error.

    >>> conditional_error(np.zeros((2, 3)), np.ones((3, 2)))  # answers 0
    1.0
    """
    dim = x.shape[1]
    query = np.eye(dim) if query is None else query
    prior = np.eye(dim) if prior is None else prior
    gap = matrix @ x - np.eye(dim)
    total = np.trace(query @ gap @ prior @ gap.T) + noise * np.trace(query @ matrix @ matrix.T)
    return float(total) / dim


@eqx.filter_jit
def _matrices(model: AbstractModel, x: Float[Array, "draw context dim"]) -> Float[Array, "draw dim context"]:
    def one(inputs: Array) -> Array:
        def slope(labels: Array) -> Array:
            return model.sensitivity(full_prompt(inputs, labels[:, None], jnp.zeros(inputs.shape[1])))[0]

        return jax.jacfwd(slope)(jnp.zeros(inputs.shape[0]))

    return jax.lax.map(one, x)


def model_error(
    model: AbstractModel, context: int, dim: int, *, query: np.ndarray | None = None, prior: np.ndarray | None = None,
    noise: float = 0.0, inputs: Inputs = standard_inputs, draws: int = 200, seed: int = 0,
) -> Estimate:  # fmt: skip
    """The excess error of any predictor q·A(X)y, whose A is read off by differentiating it, over d.

    Args:
        model: linear in the query and in the labels: least squares, ridge, gradient descent, Newton, averaging.
        context: pairs before the query.
        dim: d.
        query: (dim, dim) Λ_q (None: I).
        prior: (dim, dim) S_w (None: I).
        noise: σ².
        inputs: sampler of the inputs of contexts.
        draws: how many contexts.
        seed: of the sampler.

    Returns:
        The mean over contexts and its standard error.

    >>> from iclearn.models.predictors import LeastSquares
    >>> found = model_error(LeastSquares(), 2, 4, draws=5)
    >>> round(found.mean, 12), found.error < 1e-12
    (0.5, True)
    """
    x = inputs(np.random.default_rng(seed), (draws, context, dim))
    matrices = np.asarray(_matrices(model, jnp.asarray(x)))
    return Estimate.of(
        np.array([conditional_error(a, b, query, prior, noise) for a, b in zip(matrices, x, strict=True)])
    )


def ridge_error(
    context: int, dim: int, *, penalty: float, noise: float = 0.0, query: np.ndarray | None = None,
    prior: np.ndarray | None = None, inputs: Inputs = standard_inputs, draws: int = 2000, seed: int = 0,
) -> Estimate:  # fmt: skip
    """The excess error of ridge regression, of least squares for penalty 0, over d: as `model_error`, much faster.

    Bayes for w ~ N(0, τ²I) has penalty σ²/τ²; its error is (σ²/d) E tr(XᵀX + σ²/τ²·I)⁻¹.

    Args:
        context: pairs before the query.
        dim: d.
        penalty: λ of Σ(y − w·x)² + λ‖w‖².
        noise: σ².
        query: (dim, dim) Λ_q (None: I).
        prior: (dim, dim) S_w (None: I).
        inputs: sampler of the inputs of contexts.
        draws: how many contexts.
        seed: of the sampler.

    Returns:
        The mean over contexts and its standard error.

    >>> round(ridge_error(0, 5, penalty=0.25, noise=0.25, draws=2).mean, 12)
    1.0
    """
    require(penalty >= 0, f"the ridge penalty must not be negative, not {penalty}")
    x = inputs(np.random.default_rng(seed), (draws, context, dim))
    values, right = np.zeros((draws, dim)), np.broadcast_to(np.eye(dim), (draws, dim, dim))
    if context:
        _, singular, right = np.linalg.svd(x, full_matrices=True)  # X = U diag(s) Vᵀ, all d rows of Vᵀ
        values[:, : singular.shape[1]] = singular
    small = 10 * max(context, dim) * np.finfo(float).eps * values.max(1, keepdims=True)
    used = values > small
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(used, values**2 / (values**2 + penalty), 0.0)  # AX = V diag(kept) Vᵀ
        spread = np.where(used, kept / (values**2 + penalty), 0.0)  # AAᵀ = V diag(spread) Vᵀ
    query = np.eye(dim) if query is None else query
    prior = np.eye(dim) if prior is None else prior
    turned = [np.einsum("nij,jk,nlk->nil", right, matrix, right, optimize=True) for matrix in (query, prior)]
    bias = np.einsum("nij,ni,nj,nij->n", turned[0], kept - 1, kept - 1, turned[1], optimize=True)
    variance = noise * np.einsum("nii,ni->n", turned[0], spread)
    return Estimate.of((bias + variance) / dim)
