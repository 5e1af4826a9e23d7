"""Shift identities of li2024: changed weights, data and target, each in terms of the others."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .bounds import spectral_norm
from .softmax_loss import gradient, prediction


def weight_shift_target(
    data: Float[Array, "word dim"],
    target: Float[Array, " word"],
    weights: Float[Array, " dim"],
    new_weights: Float[Array, " dim"],
) -> Float[Array, " word"]:
    """b̃ = b + f(Ax) − f(Ax'): the residual f(Ax') − b after the shift is f(Ax) − b̃ before it."""
    return target + prediction(data, weights) - prediction(data, new_weights)


def data_shift_target(
    data: Float[Array, "word dim"],
    new_data: Float[Array, "word dim"],
    target: Float[Array, " word"],
    weights: Float[Array, " dim"],
) -> Float[Array, " word"]:
    """b̃ = b + f(Ax) − f(A'x): the residual f(A'x) − b after the shift is f(Ax) − b̃ before it."""
    return target + prediction(data, weights) - prediction(new_data, weights)


def data_for_weight_shift(
    data: Float[Array, "word dim"], weights: Float[Array, " dim"], change: Float[Array, " dim"]
) -> Float[Array, "word dim"]:
    """A' = A(I + Δx xᵀ/‖x‖²), with A'x = A(x + Δx): a weight shift IS a data shift, for every x ≠ 0.

    At x = 0 no data shift moves anything, and the result is not finite.
    """
    return data + jnp.outer(data @ change, weights / (weights @ weights))


class WeightShift(NamedTuple):
    """Δx with A(x+Δx) nearest to A'x up to a constant, and the distance that is left."""

    change: Float[Array, " dim"]
    unreachable: Float[Array, ""]


def weight_for_data_shift(
    data: Float[Array, "word dim"], new_data: Float[Array, "word dim"], weights: Float[Array, " dim"]
) -> WeightShift:
    """The weight shift that does what a data shift does: one exists iff (A'−A)x ∈ range(A) + span(𝟏).

    `change` is the smallest least-squares solution; the identity f(A(x+Δx)) = f(A'x) holds iff `unreachable`
    = 0 (to rounding). Softmax does not see a constant, hence the span of 𝟏.
    """
    centered = data - data.mean(0)
    wanted = (new_data - data) @ weights
    wanted = wanted - wanted.mean()
    change = jnp.linalg.pinv(centered) @ wanted
    return WeightShift(change, jnp.linalg.norm(centered @ change - wanted))


def gd_weights(
    data: Float[Array, "word dim"],
    target: Float[Array, " word"],
    weights: Float[Array, " dim"],
    lr: float | Float[Array, ""],
) -> Float[Array, " dim"]:
    """x − η∇L(x): one gradient step of softmax regression."""
    return weights - lr * gradient(data, target, weights)


def gd_shift_bound(
    data: Float[Array, "word dim"],
    target: Float[Array, " word"],
    weights: Float[Array, " dim"],
    lr: float | Float[Array, ""],
) -> Float[Array, ""]:
    """‖b̃ − b‖ ≤ (ηR²/4)‖f(Ax) − b‖ for one gradient step, R = ‖A‖: ½ for its length, ½ for its effect."""
    return lr * spectral_norm(data) ** 2 / 4 * jnp.linalg.norm(prediction(data, weights) - target)
