"""Least squares and ridge regression on the context, and the Bayes predictor that contains both."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt


def context(prompt: Prompt) -> tuple[Float[Array, "context dim"], Float[Array, "context output"]]:
    """Inputs and labels of the context.

    Args:
        prompt: the prompt, without a batch axis.

    Returns:
        (context, dim) and (context, output); pairs that are masked out are zero rows, which change no estimate here.
    """
    present = prompt.mask[:, None]
    return prompt.x * present, prompt.y * present


def ridge_solution(
    x: Float[Array, "context dim"], y: Float[Array, "context output"], penalty: Float[Array, ""] | float
) -> Float[Array, "dim output"]:
    """argmin_w Σ_n ‖y_n − w·x_n‖² + penalty·‖w‖², for penalty 0 the solution of least norm.

    Through the pseudo-inverse of the rows [x; √penalty·I], so that nothing is squared and 0 needs no case of its own.

    Args:
        x: (context, dim) inputs.
        y: (context, output) labels.
        penalty: of the norm; may be traced.

    Returns:
        (dim, output) w.
    """
    dim = x.shape[1]
    rows = jnp.concatenate([x, jnp.sqrt(jnp.asarray(penalty, x.dtype)) * jnp.eye(dim, dtype=x.dtype)])
    labels = jnp.concatenate([y, jnp.zeros((dim, y.shape[1]), y.dtype)])
    return jnp.linalg.pinv(rows) @ labels


def scalar(value: Array | float) -> Float[Array, ""]:
    """A number, which may be traced, as a float array without axes."""
    return jnp.asarray(value, float)


def refuse_negative(name: str, value: Array) -> None:
    """Refuse negative numbers and NaN; traced numbers have no value yet and pass.

    Args:
        name: what they are, for the message.
        value: the numbers.
    """
    if not isinstance(value, Tracer):
        require(np.all(np.asarray(value) >= 0), f"{name} must not be negative, not {np.min(np.asarray(value)):g}")


class LeastSquares(AbstractModel):
    """Ordinary least squares on the context; of all solutions the one of least norm. With no context it answers 0.

    For an example see `iclearn.predictors`.
    """

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return prompt.query @ ridge_solution(*context(prompt), 0.0)


class Ridge(AbstractModel):
    """Ridge regression: argmin_w Σ_n (y_n − w·x_n)² + penalty·‖w‖² (a sum over the context, not a mean).

    Bayes-optimal for w ~ N(0, s I) and label noise of variance σ² with penalty = σ²/s. For an example see
    `iclearn.predictors`.

    Args:
        penalty: of the norm; may be traced.
    """

    penalty: Float[Array, ""] = eqx.field(converter=scalar)

    def __check_init__(self) -> None:
        refuse_negative("the ridge penalty", self.penalty)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return prompt.query @ ridge_solution(*context(prompt), self.penalty)


class Bayes(AbstractModel):
    """Posterior mean of w·x_q for w ~ N(mean, covariance) per output and labels with noise of variance `noise`.

    w = μ + A·ridge(X A, Y − X μ; σ²) with covariance = A Aᵀ: the substitution w = μ + A u makes the prior of u standard
    normal. It holds for singular covariances, and without noise, where it is, of the tasks in the prior's support that
    fit the context, the most probable one.

    Args:
        mean: (dim) for every output, or (dim, output).
        covariance: (dim, dim), the same for all outputs.
        noise: variance of the label noise, 0 allowed.

    >>> from iclearn.core.prompt import full_prompt
    >>> Bayes(jnp.ones(2), jnp.eye(2), noise=1.0).predict(full_prompt(jnp.eye(2), jnp.zeros((2, 1)), jnp.ones(2)))
    Array([1.], dtype=float64)
    """

    mean: Float[Array, "dim output"]
    factor: Float[Array, "dim dim"]
    noise: Float[Array, ""]

    def __init__(
        self,
        mean: Float[Array, " ..."] | np.ndarray,
        covariance: Float[Array, "dim dim"] | np.ndarray,
        noise: Float[Array, ""] | float = 0.0,
    ) -> None:
        mean, covariance = jnp.asarray(mean, float), jnp.asarray(covariance, float)
        self.mean = as_columns(mean)
        dim = self.mean.shape[0]
        wanted = f"a prior with a mean of dim {dim} needs a ({dim}, {dim}) covariance"
        require(covariance.shape == (dim, dim), f"{wanted}, not {covariance.shape}")
        values, vectors = jnp.linalg.eigh(covariance)
        refuse_negative("eigenvalues of the prior covariance", values + 1e-12 * jnp.abs(values).max())
        self.factor = vectors * jnp.sqrt(jnp.clip(values, 0))
        self.noise = scalar(noise)
        refuse_negative("the noise variance", self.noise)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        centered = ridge_solution(x @ self.factor, y - x @ self.mean, self.noise)
        return prompt.query @ (self.mean + self.factor @ centered)


def as_columns(vector: Float[Array, " ..."]) -> Float[Array, "dim output"]:
    """A task vector (dim) as one column that all outputs share, or columns (dim, output) as they are.

    Args:
        vector: (dim) or (dim, output).

    Returns:
        (dim, 1) or (dim, output).
    """
    require(vector.ndim in (1, 2), f"a task vector must have shape (dim) or (dim, output), not {vector.shape}")
    return vector[:, None] if vector.ndim == 1 else vector
