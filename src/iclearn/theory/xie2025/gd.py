"""One gradient step on the context's squared error, from any start, with any or the best step size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .law import Law


class GradientStep(NamedTuple):
    """A step size η and the loss of ŷ = w_0·x_q + (η/C) Σ_i (y_i − w_0·x_i) x_i·x_q."""

    step: float
    loss: float


def gd_step(law: Law, start: ArrayLike | None = None, step: float | None = None) -> GradientStep:
    """One-step GD from w_0 = `start` (None: 0): its loss for a given η, or its best η and loss.

    With D = Σ + (w*−w_0)(w*−w_0)ᵀ and S the context's sample covariance, the loss is the parabola
    tr ΛD − 2η tr Λ²D + η² tr(Λ E[SDS] + σ²Λ²/C), where E[SDS] = (1 + 1/C) ΛDΛ + tr(ΛD) Λ/C. At Λ = Σ = I
    without noise η* = C/(C+d+1) for every w_0, with loss (d + ‖w*−w_0‖²)(d+1)/(C+d+1) (xie2025 spec, section
    2).

    >>> round(gd_step(Law.isotropic(dim=10, context_len=10, prior_norm=3)).loss, 6)  # from zero
    9.952381
    """
    offset = law.mean - law.guess(start)
    spread = law.prior + np.outer(offset, offset)
    inputs, context = law.inputs, law.context_len
    turned = inputs @ spread
    total = np.trace(turned)
    square = inputs @ inputs
    linear = np.trace(inputs @ turned)
    sandwich = (1 + 1 / context) * np.trace(inputs @ turned @ inputs) + total * np.trace(square) / context
    quadratic = sandwich + law.noise * np.trace(square) / context
    best = linear / quadratic if step is None else step
    if step is None:
        return GradientStep(float(best), float(total - linear * best))
    return GradientStep(float(best), float(total - 2 * best * linear + best**2 * quadratic))
