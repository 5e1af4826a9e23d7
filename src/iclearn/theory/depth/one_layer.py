"""The best single layer in closed form: preconditioned gradient descent (Ahn et al. 2023, Theorem 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...core.checks import check_int, literals_checked, require

Prior = Literal["identity", "inverse"]


class OneLayer(NamedTuple):
    """The optimum of one layer in the eigenbasis of Σ.

    Args:
        loss: the population loss there.
        preconditioner: (dim) eigenvalues of A, in the order of those of Σ.
    """

    loss: float
    preconditioner: np.ndarray


@literals_checked
def one_layer(
    eigenvalues: Sequence[float], context_len: int, prior: Prior = "identity", noise: float = 0.0
) -> OneLayer:
    """The global optimum of one layer for Gaussian inputs: R = I − A S, loss tr(Σ R Σ_w Rᵀ) + (σ²/N) tr(Σ A S Aᵀ).

    With E S² = ((N+1)/N) Σ² + (tr Σ/N) Σ each eigenvalue of A solves one equation. Σ_w = I: a = 1/((N+1)λ/N + tr Σ/N +
    σ²/N) (zhang2025, eq. 11, for σ = 0); Σ_w = Σ⁻¹: A = N/(N+d+1+σ²) Σ⁻¹, and loss d(d+1)/(N+d+1) for σ = 0.

    Args:
        eigenvalues: of Σ.
        context_len: N.
        prior: Σ_w = I or Σ⁻¹.
        noise: σ² on the context's labels.

    Returns:
        The loss and the eigenvalues of A.

    >>> round(one_layer([1, 1, 0.25, 0.0625, 1], 20).loss, 8), round(one_layer([2, 1], 5, "inverse").loss, 8)
    (0.68175638, 0.75)
    """
    check_int("context_len", context_len, 1)
    lam, n = np.asarray(eigenvalues, float), float(context_len)
    weight = np.ones_like(lam) if prior == "identity" else 1 / lam
    # (E[S Σ_w S])_ii = λ_i² w_i + (λ_i² w_i + λ_i Σ_k λ_k w_k)/N, and (σ²/N) λ_i of the noise
    second = lam**2 * weight * (1 + 1 / n) + lam * np.sum(lam * weight) / n + noise * lam / n
    a = lam * weight / second
    return OneLayer(float(np.sum(lam * (weight - 2 * a * lam * weight + a**2 * second))), a)


class UniformStep(NamedTuple):
    """The best gradient step for uniform inputs (von Oswald et al. 2023).

    Args:
        step: η*, of the mean over the context.
        loss: ½ E (ŷ − y)² there.
    """

    step: float
    loss: float


def uniform_step(dim: int, context_len: int, input_range: float = 1.0) -> UniformStep:
    """One gradient step for x ~ U(−r/2, r/2)^d, w ~ N(0, I): η* = E tr S/E tr S², with the factor ½ of the public code.

    E tr S = d r²/12 and E tr S² = r⁴ ((d/80 + d(d−1)/144)/N + (N−1) d/(144 N)).

    Args:
        dim: d.
        context_len: N.
        input_range: r.

    Returns:
        The step and the loss.

    >>> best = uniform_step(10, 10)
    >>> round(best.step, 6), round(best.loss, 7)
    (6.060606, 0.206229)
    """
    first, second = _uniform_moments(dim, context_len, input_range)
    return UniformStep(first / second, 0.5 * input_range**2 / 12 * (dim - first**2 / second))


def uniform_loss(dim: int, context_len: int, step: float, input_range: float = 1.0) -> float:
    """½ E (ŷ − y)² of a gradient step of any size on uniform inputs of any range; see `uniform_step`.

    Args:
        dim: d.
        context_len: N.
        step: η.
        input_range: r.

    Returns:
        The loss.

    >>> round(uniform_loss(10, 10, uniform_step(10, 10).step, 2.0), 5)
    8.40067
    """
    first, second = _uniform_moments(dim, context_len, input_range)
    return 0.5 * input_range**2 / 12 * (dim - 2 * step * first + step**2 * second)


def _uniform_moments(dim: int, context_len: int, input_range: float) -> tuple[float, float]:
    check_int("dim", dim, 1)
    check_int("context_len", context_len, 1)
    require(input_range > 0, f"input_range must be positive, not {input_range}")
    apart = dim / 80 + dim * (dim - 1) / 144
    second = apart / context_len + (context_len - 1) * dim / (144 * context_len)
    return dim * input_range**2 / 12, second * input_range**4
