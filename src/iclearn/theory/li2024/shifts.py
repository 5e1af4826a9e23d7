"""Shift identities of li2024: changed weights, data and target, each in terms of the others."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .bounds import Number, spectral_norm
from .softmax_loss import Data, Target, Weights, gradient, prediction


def weight_shift_target(data: Data, target: Target, weights: Weights, new_weights: Weights) -> Float[Array, " word"]:
    """The target that makes up for a shift of the weights x → x': b̃ = b + f(Ax) − f(Ax').

    The residual f(Ax') − b after the shift is f(Ax) − b̃ before it: what the paper's first theorem is about.

    Args:
        data: (word, dim) A.
        target: (word) b.
        weights: (dim) x.
        new_weights: (dim) x'.

    Returns:
        (word) b̃.

    >>> a, b = jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0])
    >>> weight_shift_target(a, b, jnp.zeros(1), jnp.zeros(1)).tolist()  # nothing moved
    [1.0, 0.0]
    """
    return target + prediction(data, weights) - prediction(data, new_weights)


def data_shift_target(data: Data, new_data: Data, target: Target, weights: Weights) -> Float[Array, " word"]:
    """The target that makes up for a shift of the data A → A': b̃ = b + f(Ax) − f(A'x).

    The residual f(A'x) − b after the shift is f(Ax) − b̃ before it: what the paper's second theorem is about.

    Args:
        data: (word, dim) A.
        new_data: (word, dim) A'.
        target: (word) b.
        weights: (dim) x.

    Returns:
        (word) b̃.

    >>> a, b = jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0])
    >>> data_shift_target(a, a + 3, b, jnp.ones(1)).round(6).tolist()  # softmax does not see a constant
    [1.0, 0.0]
    """
    return target + prediction(data, weights) - prediction(new_data, weights)


def data_for_weight_shift(data: Data, weights: Weights, change: Weights) -> Data:
    """The data shift that does what a weight shift does, for every x ≠ 0: A' = A(I + Δx xᵀ/‖x‖²).

    Then A'x = A(x + Δx). At x = 0 no data shift moves anything, and the result is not finite.

    Args:
        data: (word, dim) A.
        weights: (dim) x.
        change: (dim) Δx.

    Returns:
        (word, dim) A'.

    >>> data_for_weight_shift(jnp.array([[1.0], [-1.0]]), jnp.array([2.0]), jnp.array([1.0])).tolist()
    [[1.5], [-1.5]]
    """
    return data + jnp.outer(data @ change, weights / (weights @ weights))


class WeightShift(NamedTuple):
    """A weight shift in place of a data shift; see `weight_for_data_shift`.

    Args:
        change: (dim) Δx with A(x+Δx) nearest to A'x up to a constant.
        unreachable: the distance that is left.
    """

    change: Float[Array, " dim"]
    unreachable: Float[Array, ""]


def weight_for_data_shift(data: Data, new_data: Data, weights: Weights) -> WeightShift:
    """The weight shift that does what a data shift does: one exists iff (A'−A)x ∈ range(A) + span(𝟏).

    The span of 𝟏 because softmax does not see a constant.

    Args:
        data: (word, dim) A.
        new_data: (word, dim) A'.
        weights: (dim) x.

    Returns:
        The smallest least-squares solution Δx, and what it leaves: f(A(x+Δx)) = f(A'x) iff that is 0 (to rounding).

    >>> a = jnp.array([[1.0], [-1.0]])
    >>> shift = weight_for_data_shift(a, 2 * a, jnp.array([3.0]))
    >>> round(float(shift.change[0]), 6), bool(shift.unreachable < 1e-6)
    (3.0, True)
    """
    centered = data - data.mean(0)
    wanted = (new_data - data) @ weights
    wanted = wanted - wanted.mean()
    change = jnp.linalg.pinv(centered) @ wanted
    return WeightShift(change, jnp.linalg.norm(centered @ change - wanted))


def gd_weights(data: Data, target: Target, weights: Weights, lr: Number) -> Weights:
    """One gradient step of softmax regression: x − η∇L(x).

    Args:
        data, target, weights: see `loss`.
        lr: η.

    Returns:
        (dim) the new weights.

    >>> gd_weights(jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0]), jnp.zeros(1), 2.0).tolist()
    [1.0]
    """
    return weights - lr * gradient(data, target, weights)


def gd_shift_bound(data: Data, target: Target, weights: Weights, lr: Number) -> Float[Array, ""]:
    """A bound on the shift of the target by one gradient step: ‖b̃ − b‖ ≤ (ηR²/4)‖f(Ax) − b‖, R = ‖A‖.

    One factor R/2 bounds the length η‖AᵀDc‖ of the step (‖D‖ ≤ ½), the other its effect (`weight_shift_bound`).

    Args:
        data, target, weights: see `loss`.
        lr: η.

    Returns:
        The bound.

    >>> round(float(gd_shift_bound(jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0]), jnp.zeros(1), 2.0)), 6)
    0.707107
    """
    return lr * spectral_norm(data) ** 2 / 4 * jnp.linalg.norm(prediction(data, weights) - target)
