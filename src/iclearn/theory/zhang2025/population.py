"""The population loss of zhang2025's reduced models, and the checked inputs every other file starts from.

Time is t/τ with τ dθ/dt = −½ ∂L/∂θ throughout: one step of gradient descent with rate lr advances it by
2·lr. `gain` is the factor on β̂ that the model sees: 1 in the paper (``normalize="context"``), N for sums
over tokens (``"none"``, the public code), N/(N+1) for ``"tokens"``. With W → gain·W nothing else changes in
the loss, so losses do not depend on it; weights, rates and times do.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.errors import IclearnError

Spectrum = Sequence[float] | np.ndarray
Matrix = Float[Array, "dim dim"] | np.ndarray


def spectrum(eigenvalues: Spectrum) -> np.ndarray:
    """The eigenvalues checked and in decreasing order, λ_1 ≥ … ≥ λ_D."""
    values = np.asarray(eigenvalues, float)
    if values.ndim != 1 or len(values) == 0:
        raise IclearnError(f"eigenvalues must be a list of numbers, not an array of shape {values.shape}")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise IclearnError(f"eigenvalues must be positive, not {values.tolist()}")
    return np.sort(values)[::-1].copy()


def spectra(eigenvalues: Spectrum, runs: int) -> np.ndarray:
    """One spectrum for each run (run, dim): `eigenvalues` are those of all runs, or a row for each."""
    rows, back = np.unique(np.atleast_2d(np.asarray(eigenvalues, float)), axis=0, return_inverse=True)
    values = np.stack([spectrum(row) for row in rows])[back.reshape(-1)]
    if len(values) not in (1, runs):
        raise IclearnError(f"{len(values)} spectra were given for {runs} runs: give one, or one for each run")
    return np.broadcast_to(values, (runs, values.shape[1]))


def check_sizes(context_len: float, gain: float = 1.0) -> None:
    """Refuse a context length below 1 (infinite is allowed) or a gain that is not positive and finite."""
    if not context_len >= 1:
        raise IclearnError(f"context_len must be at least 1, not {context_len}")
    if not (gain > 0 and np.isfinite(gain)):
        raise IclearnError(f"gain must be positive and finite, not {gain}")


def eigenpairs(covariance: np.ndarray | Array) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in decreasing order, and eigenvectors as columns (the `basis` of the other functions)."""
    values, vectors = np.linalg.eigh(np.asarray(covariance, float))
    return spectrum(values), vectors[:, ::-1].copy()


def gain_of(normalize: str, context_len: int) -> float:
    """The gain of a model's `normalize` setting.

    >>> gain_of("context", 31), gain_of("none", 31)
    (1.0, 31.0)
    """
    gains = {"context": 1.0, "none": float(context_len), "tokens": context_len / (context_len + 1)}
    if normalize not in gains:
        raise IclearnError(f"normalize must be one of {', '.join(gains)}, not {normalize!r}")
    return gains[normalize]


def inflation(eigenvalues: Spectrum, context_len: float) -> np.ndarray:
    """a_d = 1 + (1 + tr Λ/λ_d)/N: how much larger E[Λ̂²] is than Λ² in the direction of e_d.

    Finite contexts enter every result of the paper through these numbers only.
    """
    check_sizes(context_len)
    values = spectrum(eigenvalues)
    return 1 + (1 + values.sum() / values) / context_len


def second_moment(covariance: Matrix, context_len: float) -> Float[Array, "dim dim"]:
    """E[β̂β̂ᵀ] = E[Λ̂²] = Λ² + (Λ + tr(Λ) I)Λ/N for w ~ N(0, I) and no noise."""
    covariance = jnp.asarray(covariance)
    return covariance @ covariance * (1 + 1 / context_len) + jnp.trace(covariance) * covariance / context_len


def population_loss(
    effective: Float[Array, "*time dim dim"] | np.ndarray,
    covariance: Matrix,
    context_len: float,
    *,
    gain: float = 1.0,
) -> Float[Array, "*time"]:
    """L(W) = tr Λ − 2 g tr(WᵀΛ²) + g² tr(Wᵀ E[Λ̂²] W Λ), the expected squared error of g β̂ᵀ W x_q.

    Args:
        effective: W, with any leading axes.

    >>> float(population_loss(jnp.zeros((2, 2)), jnp.diag(jnp.array([0.75, 0.25])), 31))
    1.0
    """
    covariance = jnp.asarray(covariance)
    seen = gain * jnp.asarray(effective)
    linear = jnp.einsum("...ij,ij->...", seen, covariance @ covariance)
    moment = second_moment(covariance, context_len)
    quadratic = jnp.einsum("...ij,ik,...kl,lj->...", seen, moment, seen, covariance)
    return jnp.trace(covariance) - 2 * linear + quadratic


def force(effective: Matrix, covariance: Matrix, context_len: float, gain: float) -> Float[Array, "dim dim"]:
    """−½ ∂L/∂W = g Λ² − g² E[Λ̂²] W Λ, the matrix that drives every weight."""
    covariance = jnp.asarray(covariance)
    moment = second_moment(covariance, context_len)
    return gain * covariance @ covariance - gain**2 * moment @ jnp.asarray(effective) @ covariance
