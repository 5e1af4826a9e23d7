"""One gradient step on the context's squared error, from any start, with any or the best step size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .law import Law, product


class GradientStep(NamedTuple):
    """One gradient step, ŷ = w_0·x_q + (η/C) Σ_i (y_i − w_0·x_i) x_i·x_q; see `gd_step`.

    Args:
        step: η.
        loss: E(ŷ − y_q)².
    """

    step: float
    loss: float


def gd_step(law: Law, start: ArrayLike | None = None, step: float | None = None) -> GradientStep:
    """One step of gradient descent on the context's squared error: its loss for a given η, or its best η and loss.

    The prediction is off by (w−w_0)·(I − ηS)x_q − (η/C) Σ_i ε_i x_i·x_q, with S = (1/C) Σ x_i x_iᵀ and noise ε_i. With
    D = E(w−w_0)(w−w_0)ᵀ = Σ + (w*−w_0)(w*−w_0)ᵀ its mean square is the parabola
    tr ΛD − 2η tr Λ²D + η² tr(Λ E[SDS] + σ²Λ²/C), where E[SDS] = (1 + 1/C) ΛDΛ + tr(ΛD) Λ/C by Isserlis' theorem. At
    Λ = Σ = I without noise η* = C/(C+d+1) for every w_0, with loss (d + ‖w*−w_0‖²)(d+1)/(C+d+1).

    Args:
        law: of the task.
        start: (dim) w_0 (None: 0).
        step: η (None: the best).

    Returns:
        η and the loss.

    >>> round(gd_step(Law.isotropic(dim=10, context_len=10, prior_norm=3)).loss, 6)  # from zero
    9.952381
    """
    offset = law.mean - law.guess(start)
    spread = law.prior + np.outer(offset, offset)
    inputs, context = law.inputs, law.context_len
    turned = product(inputs, spread)
    total = np.trace(turned)
    square = product(inputs, inputs)
    again = product(inputs, turned)
    linear = np.trace(again)
    sandwich = (1 + 1 / context) * np.trace(product(again, inputs)) + total * np.trace(square) / context
    quadratic = sandwich + law.noise * np.trace(square) / context
    best = linear / quadratic if step is None else step
    if step is None:
        return GradientStep(float(best), float(total - linear * best))
    return GradientStep(float(best), float(total - 2 * best * linear + best**2 * quadratic))
