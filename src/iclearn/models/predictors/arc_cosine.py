"""Gaussian process regression with the kernel of wide ReLU networks."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import refuse_negative, scalar


class ArcCosine(AbstractModel):
    """Gaussian process regression with the arc-cosine kernel ‖x‖‖x'‖(sin θ + (π − θ) cos θ)/π, θ the angle of x and x'.

    It is the Bayes predictor of two-layer ReLU networks √(2/h) Σ v_k max(w_k·x, 0) with standard normal weights as
    h → ∞. Directions of the kernel matrix that are rounding are left out.

    Args:
        noise: variance of the label noise; may be traced.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.array([[1.0, 0.0]]), jnp.ones((1, 1)), jnp.array([3.0, 0.0]))
    >>> eqx.filter_jit(ArcCosine().predict)(prompt)
    Array([3.], dtype=float64)
    """

    noise: Float[Array, ""] = eqx.field(converter=scalar, default=0.0)

    def __check_init__(self) -> None:
        refuse_negative("the noise variance", self.noise)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y, query = (part.astype(jnp.float64) for part in (prompt.x, prompt.y, prompt.query))
        present = prompt.mask & jnp.any(x != 0, -1)
        x, y = x * present[:, None], y * present[:, None]
        values, vectors = jnp.linalg.eigh(jax.vmap(lambda a: arc_cosine(x, a))(x))
        kept = values > 10 * x.shape[0] * jnp.finfo(jnp.float64).eps * jnp.max(values, initial=0.0)
        gains = jnp.where(kept, 1 / (jnp.where(kept, values, 1.0) + self.noise), 0.0)
        weights = (arc_cosine(x, query) @ vectors) * gains
        return (weights @ (vectors.T @ y)).astype(prompt.query.dtype)


def arc_cosine(x: Float[Array, "context dim"], point: Float[Array, " dim"]) -> Float[Array, " context"]:
    """The arc-cosine kernel of first order between many inputs and one.

    Args:
        x: (context, dim) inputs.
        point: (dim) the other one.

    Returns:
        (context) ‖x‖‖x'‖(sin θ + (π − θ) cos θ)/π; ‖x‖² for x' = x, 0 for an input 0.

    >>> arc_cosine(jnp.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]), jnp.array([1.0, 0.0])).round(6).tolist()
    [1.0, 0.63662, 0.0]
    """
    sizes = jnp.sqrt(jnp.sum(x**2, -1) * jnp.sum(point**2))
    inner = x @ point
    # the angle from both halves of the triangle: arccos loses half of the digits near 0 and π
    unit = x / jnp.where(sizes > 0, jnp.sqrt(jnp.sum(x**2, -1)), 1.0)[:, None]
    other = point / jnp.where(jnp.any(point != 0), jnp.sqrt(jnp.sum(point**2)), 1.0)
    apart, along = jnp.sqrt(jnp.sum((unit - other) ** 2, -1)), jnp.sqrt(jnp.sum((unit + other) ** 2, -1))
    angle = 2 * jnp.arctan2(apart, along)
    return (sizes * jnp.sin(angle) + (jnp.pi - angle) * inner) / jnp.pi
