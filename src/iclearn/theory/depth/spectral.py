"""Spectral filters: what an algorithm with scalar steps leaves of the error, as a function of an eigenvalue of S.

For Σ = Σ_w = I (or Σ_w = Σ⁻¹ after whitening) the error of L layers with A_l = a_l I, B_l = b_l I is x_q·(ρ_L(S) w),

    t_0 = ρ_0 = 1,  ρ_{l+1} = ρ_l (1 − a_l s t_l²),  t_{l+1} = t_l (1 − γ_l s t_l²),  γ_l = a_l b_l,

so the population loss is E tr ρ_L(S)². ρ_L has degree L for gradient descent (γ = 0) and (3^L − 1)/2 for GD++; the
last γ never matters. With noise σ² on the context's labels E tr (ρ² + (σ²/N) s g²) with g = (1 − ρ)/s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tasks.wishart_spectrum import spectral_quadrature

MOST_NODES = 60


def gdpp_residual(s: Any, steps: Sequence[float], curvature: Sequence[float] = ()) -> Any:
    """ρ_L(s) of gradient descent and GD++.

    Args:
        s: eigenvalues, any shape.
        steps: a_1, …, a_L.
        curvature: γ_1, …; missing ones are 0.

    Returns:
        ρ_L at each eigenvalue.

    >>> float(gdpp_residual(2.0, [0.25, 0.1]))
    0.4
    """
    return 1 - s * gdpp_gain(s, steps, curvature)


def gdpp_gain(s: Any, steps: Sequence[float], curvature: Sequence[float] = ()) -> Any:
    """g_L(s) = (1 − ρ_L(s))/s, the filter by which the prediction is x_qᵀ g_L(S) β; see `gdpp_residual`."""
    gamma = [*curvature, *[0.0] * (len(steps) - len(curvature))]
    gain, scale = 0.0 * s, 1.0 + 0.0 * s
    for a, g in zip(steps, gamma, strict=True):
        gain = gain + a * scale**2 * (1 - s * gain)
        scale = scale * (1 - g * s * scale**2)
    return gain


def newton_residual(s: Any, start: Any, steps: int) -> Any:
    """ρ(s) = (1 − α s²)^{2^k}: iterative Newton M ← 2M − MSM from M = α S after k steps.

    Args:
        s: eigenvalues of the matrix that is inverted.
        start: α; fu2024's is 1/‖S Sᵀ‖_F of that matrix.
        steps: k.

    Returns:
        ρ at each eigenvalue.

    >>> float(newton_residual(2.0, 0.2, 1))
    0.03999999999999998
    """
    return (1 - start * s**2) ** (2**steps)


def ridge_residual(s: Any, penalty: float) -> Any:
    """ρ(s) = λ/(s + λ) of ridge regression on (1/N) Σ."""
    return penalty / (s + penalty)


def filter_loss(
    residual: Callable[[np.ndarray], np.ndarray],
    dim: int,
    context_len: int,
    *,
    noise: float = 0.0,
    nodes: int = MOST_NODES,
) -> float:
    """E tr (ρ(S)² + (σ²/N) S g(S)²) over the spectrum of S.

    Exact for polynomials ρ of degree < nodes; for other smooth ρ the error falls exponentially with the nodes.

    Args:
        residual: ρ.
        dim: d.
        context_len: N.
        noise: σ².
        nodes: of the quadrature.

    Returns:
        The population loss.

    >>> round(filter_loss(lambda s: 1 - s / 1.3, 5, 20), 7)
    1.1538462
    """
    s, weights = spectral_quadrature(dim, context_len, nodes)
    left = residual(s)
    return float(weights @ (left**2 + noise / context_len * (1 - left) ** 2 / s))


def nodes_needed(layers: int, *, curvature: bool) -> int:
    """How many nodes make the loss of L layers exact: L + 1 for gradient descent, (3^L + 1)/2 for GD++."""
    return (3**layers + 1) // 2 if curvature else layers + 1


def second_layer_loss(moments: Sequence[Any], a1: float, a2: float, gamma: float) -> float:
    """The loss of two layers of GD++ as a polynomial of the moments m_0, …, m_8.

    ρ_2 = 1 − (a_1+a_2) s + a_2 (a_1+2γ) s² − a_2 γ (2a_1+γ) s³ + a_1 a_2 γ² s⁴.

    Args:
        moments: m_0, …, m_8.
        a1: a_1.
        a2: a_2.
        gamma: γ_1.

    Returns:
        Σ_ij c_i c_j m_{i+j}.
    """
    c = [1.0, -(a1 + a2), a2 * (a1 + 2 * gamma), -a2 * gamma * (2 * a1 + gamma), a1 * a2 * gamma**2]
    return float(sum(c[i] * c[j] * moments[i + j] for i in range(5) for j in range(5)))
