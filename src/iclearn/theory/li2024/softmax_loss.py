"""Softmax regression of li2024: loss, gradient and Hessian in closed form.

Every function takes ONE document A (n words × d), target b and weights x; the caller vmaps. f = softmax(Ax),
c = f − b.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core import jax_settings as jax_settings  # float64, whatever was imported first


def prediction(data: Float[Array, "word dim"], weights: Float[Array, " dim"]) -> Float[Array, " word"]:
    """f = ⟨exp(Ax), 1⟩⁻¹ exp(Ax) (li2024)."""
    return jax.nn.softmax(data @ weights)


def loss(
    data: Float[Array, "word dim"], target: Float[Array, " word"], weights: Float[Array, " dim"]
) -> Float[Array, ""]:
    """L = ½‖f − b‖² (li2024)."""
    return 0.5 * jnp.sum((prediction(data, weights) - target) ** 2)


def softmax_jacobian(probabilities: Float[Array, " word"]) -> Float[Array, "word word"]:
    """D = diag f − ffᵀ, the derivative of softmax in its logits; ‖D‖ ≤ ½ and D𝟏 = 0."""
    return jnp.diag(probabilities) - jnp.outer(probabilities, probabilities)


def gradient(
    data: Float[Array, "word dim"], target: Float[Array, " word"], weights: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """∇L = AᵀDc.

    At x = 0 and centered columns of A it is −Aᵀb/n, the step layer A of the experiment can take.

    >>> a, b = jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 0.0])
    >>> float(gradient(a, b, jnp.zeros(1))[0])
    -0.5
    """
    f = prediction(data, weights)
    c = f - target
    return data.T @ (f * c - f * (f @ c))  # Dc without the n × n matrix


def logit_hessian(probabilities: Float[Array, " word"], target: Float[Array, " word"]) -> Float[Array, "word word"]:
    """D² + N, the Hessian of L in the logits: N = diag(f∘c) − (f∘c)fᵀ − f(f∘c)ᵀ − (f·c)(diag f − 2ffᵀ)."""
    f, c = probabilities, probabilities - target
    jacobian = softmax_jacobian(f)
    fc = f * c
    curved = jnp.diag(fc) - jnp.outer(fc, f) - jnp.outer(f, fc)
    return jacobian @ jacobian + curved - (f @ c) * (jnp.diag(f) - 2 * jnp.outer(f, f))


def hessian(
    data: Float[Array, "word dim"], target: Float[Array, " word"], weights: Float[Array, " dim"]
) -> Float[Array, "dim dim"]:
    """∇²L = Aᵀ(D² + N)A."""
    return data.T @ logit_hessian(prediction(data, weights), target) @ data
