"""The population loss of zhang2025's reduced models, and the checked inputs every other file starts from.

Time is t/τ with τ dθ/dt = −½ ∂L/∂θ throughout: one step of gradient descent with rate lr advances it by 2·lr. `gain`
(g in the formulas) is the factor on β̂ = (1/N) Σ y_n x_n that the model sees: 1 in the paper
(``normalize="context"``), N for sums over tokens (``"none"``, the public code), N/(N+1) for ``"tokens"``. The loss
depends on g and W only through gW, so losses at fixed points do not depend on g; weights, rates and times do.

`noise` is the variance σ² of the noise on the context labels, 0 in the paper. It adds σ²Λ/N to E[β̂β̂ᵀ] and nothing else,
since the target has no noise: every result holds with tr Λ + σ² in place of the tr Λ that is divided by N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import as_numbers
from ...core.errors import IclearnError

Spectrum = Sequence[Any] | np.ndarray  # what is in it is checked by `spectrum`
Matrix = Float[Array, "dim dim"] | np.ndarray
Size = float | np.integer  # of the context; infinite where that makes sense
Number = Size | Float[Array, ""]


def spectrum(eigenvalues: Spectrum) -> np.ndarray:
    """The eigenvalues, checked and sorted: λ_1 ≥ … ≥ λ_D.

    Args:
        eigenvalues: (dim) positive numbers in any order; anything else is refused with `IclearnError`.

    Returns:
        (dim) a new array in decreasing order.

    >>> spectrum([0.1, 0.4]).tolist()
    [0.4, 0.1]
    """
    values = as_numbers("eigenvalues", eigenvalues)
    if values.ndim != 1 or len(values) == 0:
        raise IclearnError(f"eigenvalues must be a list of numbers, not an array of shape {values.shape}")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise IclearnError(f"eigenvalues must be positive, not {values.tolist()}")
    return np.sort(values)[::-1].copy()


def spectra(eigenvalues: Spectrum, runs: int) -> np.ndarray:
    """One spectrum for each run (run, dim): `eigenvalues` are those of all runs (dim), or a row for each (run, dim)."""
    rows, back = np.unique(np.atleast_2d(np.asarray(eigenvalues, float)), axis=0, return_inverse=True)
    values = np.stack([spectrum(row) for row in rows])[back.reshape(-1)]
    if len(values) not in (1, runs):
        raise IclearnError(f"{len(values)} spectra were given for {runs} runs: give one, or one for each run")
    return np.broadcast_to(values, (runs, values.shape[1]))


def check_sizes(context_len: Size, gain: float = 1.0, noise: float = 0.0) -> None:
    """Refuse a context length below 1 (infinite is allowed), a gain that is not positive and finite, negative noise."""
    if not context_len >= 1:
        raise IclearnError(f"context_len must be at least 1, not {context_len}")
    if not (gain > 0 and np.isfinite(gain)):
        raise IclearnError(f"gain must be positive and finite, not {gain}")
    if not 0 <= noise < np.inf:
        raise IclearnError(f"noise, a variance, must be finite and not negative, not {noise}")


def columns(basis: np.ndarray | Array | None, dim: int) -> np.ndarray:
    """Eigenvectors as columns (dim, dim): the given ones, or the axes."""
    return np.eye(dim) if basis is None else np.asarray(basis, float)


def eigenpairs(covariance: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of Λ, the largest first.

    Args:
        covariance: (dim, dim) Λ.

    Returns:
        The eigenvalues (dim) in decreasing order, and the eigenvectors (dim, dim) as columns in the same order: the
        `basis` of the other functions.

    >>> values, vectors = eigenpairs(np.diag([1.0, 2.0]))
    >>> values.tolist(), np.abs(vectors).tolist()
    ([2.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    """
    values, vectors = np.linalg.eigh(np.asarray(covariance, float))
    return spectrum(values), vectors[:, ::-1].copy()


def gain_of(normalize: str, context_len: Size) -> float:
    """The gain g of a model's `normalize` setting: how many times β̂ = (1/N) Σ y_n x_n the model sees.

    Args:
        normalize: ``context`` (1/N, the paper), ``none`` (sums over tokens, the public code) or ``tokens`` (1/(N+1)).
        context_len: N, the number of context pairs.

    Returns:
        1, N or N/(N+1).

    >>> gain_of("context", 31), gain_of("none", 31)
    (1.0, 31.0)
    """
    gains = {"context": 1.0, "none": float(context_len), "tokens": context_len / (context_len + 1)}
    if normalize not in gains:
        raise IclearnError(f"normalize must be one of {', '.join(gains)}, not {normalize!r}")
    return gains[normalize]


def inflation(eigenvalues: Spectrum, context_len: Size, *, noise: float = 0.0) -> np.ndarray:
    """The ratio of E[β̂β̂ᵀ] to Λ² along each eigenvector: a_d = 1 + (1 + (tr Λ + σ²)/λ_d)/N.

    Λ̂ = (1/N) Σ x_n x_nᵀ is the covariance of a prompt's context. Finite contexts enter every result of the paper
    through these numbers only; the product λ_d a_d is the eigenvalue of Λ + (Λ + tr(Λ) I)/N in (11).

    Args:
        eigenvalues: (dim) of Λ, in any order.
        context_len: N; may be infinite.
        noise: σ², the variance of the noise on the context labels.

    Returns:
        (dim) a_d in decreasing order of the eigenvalues.

    >>> inflation([0.75, 0.25], 10).round(4).tolist()
    [1.2333, 1.5]
    """
    check_sizes(context_len, noise=noise)
    values = spectrum(eigenvalues)
    return 1 + (1 + (values.sum() + noise) / values) / context_len


def second_moment(covariance: Matrix, context_len: Number, noise: Number = 0.0) -> Float[Array, "dim dim"]:
    """E[β̂β̂ᵀ] = E[Λ̂²] + σ²Λ/N = Λ² + (Λ + (tr Λ + σ²) I)Λ/N for task vectors w ~ N(0, I).

    By Isserlis' theorem: the N² products of two context inputs have mean ΛΛ, and the N of an input with itself
    have (Λ + tr(Λ) I)Λ more.

    Args:
        covariance: (dim, dim) Λ.
        context_len: N.
        noise: σ², the variance of the noise on the context labels.

    Returns:
        (dim, dim) the expectation.

    >>> second_moment(np.eye(2), 4).tolist()
    [[1.75, 0.0], [0.0, 1.75]]
    """
    covariance = jnp.asarray(covariance)
    own = jnp.trace(covariance) + noise
    return covariance @ covariance * (1 + 1 / context_len) + own * covariance / context_len


def population_loss(
    effective: Float[Array, "*time dim dim"] | np.ndarray,
    covariance: Matrix,
    context_len: Number,
    *,
    gain: Number = 1.0,
    noise: Number = 0.0,
) -> Float[Array, "*time"]:
    """The expected squared error of ŷ = g β̂ᵀ W x_q over all prompts.

    L(W) = tr Λ − 2 g tr(WᵀΛ²) + g² tr(Wᵀ E[β̂β̂ᵀ] W Λ), from E[y_q β̂ x_qᵀ] = Λ² and `second_moment`.

    Args:
        effective: (…, dim, dim) W, with any leading axes.
        covariance: (dim, dim) Λ.
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `second_moment`.

    Returns:
        (…) the loss for each W.

    >>> float(population_loss(jnp.zeros((2, 2)), jnp.diag(jnp.array([0.75, 0.25])), 31))
    1.0
    """
    covariance = jnp.asarray(covariance)
    seen = gain * jnp.asarray(effective)
    linear = jnp.einsum("...ij,ij->...", seen, covariance @ covariance)
    moment = second_moment(covariance, context_len, noise)
    quadratic = jnp.einsum("...ij,ik,...kl,lj->...", seen, moment, seen, covariance)
    return jnp.trace(covariance) - 2 * linear + quadratic


def force(
    effective: Matrix, covariance: Matrix, context_len: Number, gain: Number, noise: Number = 0.0
) -> Float[Array, "dim dim"]:
    """The matrix that drives every weight: F = −½ ∂L/∂W = g Λ² − g² E[β̂β̂ᵀ] W Λ.

    Args:
        effective: (dim, dim) W.
        covariance, context_len, gain, noise: see `population_loss`.

    Returns:
        (dim, dim) F; at the optimum it is zero.

    >>> force(np.zeros((1, 1)), np.eye(1) / 2, 31, 2.0).tolist()  # g λ²
    [[0.5]]
    """
    covariance = jnp.asarray(covariance)
    moment = second_moment(covariance, context_len, noise)
    return gain * covariance @ covariance - gain**2 * moment @ jnp.asarray(effective) @ covariance
