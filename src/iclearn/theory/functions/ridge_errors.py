"""The error of ridge regression and least squares: labels integrated out, inputs sampled (Rao–Blackwell).

`probes.linear_errors` reads the same off any predictor that is linear in the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.checks import require

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


def ridge_error(
    context: int, dim: int, *, penalty: float, noise: float = 0.0, query: np.ndarray | None = None,
    prior: np.ndarray | None = None, inputs: Inputs = standard_inputs, draws: int = 2000, seed: int = 0,
) -> Estimate:  # fmt: skip
    """The excess error of ridge regression, of least squares for penalty 0, divided by d.

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
