"""How fast depth helps: Newton's iteration on sampled spectra, and layers that are looped beyond their depth."""

from __future__ import annotations

import numpy as np

from .spectral import gdpp_residual, newton_residual


def sample_spectra(dim: int, context_len: int, count: int, seed: int = 0) -> np.ndarray:
    """Eigenvalues of S for `count` prompts, from Bartlett's triangle: d(d+1)/2 numbers a prompt, whatever N is.

    Args:
        dim: d.
        context_len: N ≥ d.
        count: how many prompts.
        seed: of the draws.

    Returns:
        (count, dim) the eigenvalues.

    >>> sample_spectra(3, 10, 4).shape
    (4, 3)
    """
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.normal(size=(count, dim, dim)), -1)
    lower[:, range(dim), range(dim)] = np.sqrt(rng.chisquare(context_len - np.arange(dim), size=(count, dim)))
    return np.linalg.eigvalsh(lower @ lower.swapaxes(1, 2) / context_len)


def newton_losses(spectra: np.ndarray, steps: int) -> np.ndarray:
    """Mean of tr ρ² of iterative Newton as fu2024 starts it, α = 1/‖S Sᵀ‖_F, after 0, …, `steps` steps.

    Args:
        spectra: (prompt, dim) eigenvalues; their scale does not matter.
        steps: k.

    Returns:
        (steps + 1) the losses.
    """
    start = 1 / np.sqrt(np.sum(spectra**4, -1, keepdims=True))
    return np.array([np.mean(np.sum(newton_residual(spectra, start, k) ** 2, -1)) for k in range(steps + 1)])


def looped_losses(spectra: np.ndarray, step: float, curvature: float, loops: int) -> np.ndarray:
    """tr ρ² of each prompt for one layer that is looped.

    Args:
        spectra: (prompt, dim) eigenvalues.
        step: η.
        curvature: γ; 0 for gradient descent.
        loops: how many times the layer is applied.

    Returns:
        (prompt) the losses: of many loops take the median, for a mean is ruled by the rarest spectra.
    """
    with np.errstate(all="ignore"):
        left = gdpp_residual(spectra, [step] * loops, [curvature] * loops)
        return np.sum(left**2, -1)


def loop_exponent(step: float, curvature: float) -> float:
    """The power with which the loss of a looped GD++ layer falls: loss ~ loops^{−η/γ}.

    The inputs shrink as t² S ~ 1/(2γl), so each loop takes off only η/(2γl) of the error.

    Args:
        step: η.
        curvature: γ.

    Returns:
        η/γ.
    """
    return step / curvature
