"""How far above an optimum Adam comes to rest when every step sees a fresh batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def adam_floor(lr: float, batch_size: int, deviations: ArrayLike) -> float:
    """Mean loss above the optimum at which Adam with a constant learning rate comes to rest: lr/(4√B) Σ_i σ_i.

    σ_i is the standard deviation over prompts of ∂ℓ/∂θ_i at the optimum. Derivation, to first order in lr: at rest
    the gradient of a batch is Hθ + noise of covariance C/B, and the mean gradient is small beside the noise, so Adam
    divides entry i by σ_i/√B: a step is −lr·P(Hθ + noise) with P = diag(√B/σ_i). (Its average over past gradients
    does not change the result to this order.) The stationary covariance S of θ obeys PHS + SHP = (lr/B)·PCP. Times
    P⁻¹ from the left, the trace is 2 tr(HS) = (lr/B)·tr(CP) = (lr/√B) Σ σ_i, and the mean excess is ½ tr(HS).
    Directions that leave the function as it is carry neither gradient nor noise, so H may be singular.

    Args:
        lr: the learning rate.
        batch_size: B, fresh prompts a step.
        deviations: σ_i of every trained weight.

    >>> round(adam_floor(1e-3, 400, [2.0, 4.0]), 9)
    7.5e-05
    """
    return float(lr / (4 * np.sqrt(batch_size)) * np.sum(np.asarray(deviations, float)))
