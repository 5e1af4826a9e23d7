"""Softmax regression of li2024: loss, gradient and Hessian in closed form.

Every function takes one document A (n words in d dimensions), target b and weights x; the caller vmaps. f = softmax(Ax)
and c = f − b throughout.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core import jax_settings as jax_settings  # float64, whatever was imported first

Data = Float[Array, "word dim"]
Target = Float[Array, " word"]
Weights = Float[Array, " dim"]


def prediction(data: Data, weights: Weights) -> Float[Array, " word"]:
    """The model of softmax regression: f = ⟨exp(Ax), 1⟩⁻¹ exp(Ax).

    Args:
        data: (word, dim) A.
        weights: (dim) x.

    Returns:
        (word) f, which is positive and sums to one.

    >>> prediction(jnp.zeros((4, 2)), jnp.ones(2)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return jax.nn.softmax(data @ weights)


def loss(data: Data, target: Target, weights: Weights) -> Float[Array, ""]:
    """The loss of softmax regression: L = ½‖f − b‖².

    Args:
        data: (word, dim) A.
        target: (word) b.
        weights: (dim) x.

    Returns:
        L.

    >>> float(loss(jnp.zeros((2, 1)), jnp.array([1.0, 0.0]), jnp.zeros(1)))
    0.25
    """
    return 0.5 * jnp.sum((prediction(data, weights) - target) ** 2)


def softmax_jacobian(probabilities: Float[Array, " word"]) -> Float[Array, "word word"]:
    """The derivative of softmax in its logits: D = diag f − ffᵀ; ‖D‖ ≤ ½ and D𝟏 = 0.

    Args:
        probabilities: (word) f.

    Returns:
        (word, word) D.

    >>> softmax_jacobian(jnp.array([0.5, 0.5])).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    return jnp.diag(probabilities) - jnp.outer(probabilities, probabilities)


def gradient(data: Data, target: Target, weights: Weights) -> Float[Array, " dim"]:
    """The gradient of the loss: ∇L = AᵀDc, D of `softmax_jacobian`.

    At x = 0 and centered columns of A it is −Aᵀb/n.

    Args:
        data, target, weights: see `loss`.

    Returns:
        (dim) ∇L.

    >>> a, b = jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0])
    >>> float(gradient(a, b, jnp.zeros(1))[0])
    -0.5
    """
    f = prediction(data, weights)
    c = f - target
    return data.T @ (f * c - f * (f @ c))  # Dc without the n × n matrix


def logit_hessian(probabilities: Float[Array, " word"], target: Target) -> Float[Array, "word word"]:
    """The Hessian of L in the logits: D² + N, N = diag(f∘c) − (f∘c)fᵀ − f(f∘c)ᵀ − (f·c)(diag f − 2ffᵀ).

    By the product rule on Dc: D² is the derivative of c, N that of D.

    Args:
        probabilities: (word) f.
        target: (word) b.

    Returns:
        (word, word) D² + N.

    >>> logit_hessian(jnp.array([0.5, 0.5]), jnp.array([0.5, 0.5])).tolist()  # at c = 0 it is D²
    [[0.125, -0.125], [-0.125, 0.125]]
    """
    f, c = probabilities, probabilities - target
    jacobian = softmax_jacobian(f)
    fc = f * c
    curved = jnp.diag(fc) - jnp.outer(fc, f) - jnp.outer(f, fc)
    return jacobian @ jacobian + curved - (f @ c) * (jnp.diag(f) - 2 * jnp.outer(f, f))


def hessian(data: Data, target: Target, weights: Weights) -> Float[Array, "dim dim"]:
    """The Hessian of the loss: ∇²L = Aᵀ(D² + N)A, D² + N of `logit_hessian`.

    Args:
        data, target, weights: see `loss`.

    Returns:
        (dim, dim) ∇²L.

    >>> hessian(jnp.array([[1.0], [-1.0]]), jnp.array([0.5, 0.5]), jnp.zeros(1)).tolist()
    [[0.5]]
    """
    return data.T @ logit_hessian(prediction(data, weights), target) @ data
