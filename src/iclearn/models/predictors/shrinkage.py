"""Least squares and ridge regression on the context, and the Bayes predictor that contains both."""

from __future__ import annotations

import equinox as eqx
import jax
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


def kept_directions(
    x: Float[Array, "context dim"],
) -> tuple[Float[Array, "context rank"], Float[Array, " rank"], Float[Array, "rank dim"]]:
    """The singular value decomposition of the context's inputs without what is rounding.

    Singular values up to 10·max(context, dim)·eps times the largest are taken for 0: inputs in a subspace have rank
    deficiencies only up to rounding.

    Args:
        x: (context, dim) inputs.

    Returns:
        Left vectors, (rank) 1/s and right vectors, all of them 0 where a direction is left out: X⁺ = Vᵀ diag(1/s) Uᵀ.
    """
    left, sizes, right = jnp.linalg.svd(x, full_matrices=False)
    kept = sizes > 10 * max(x.shape) * jnp.finfo(x.dtype).eps * jnp.max(sizes, initial=0)
    inverse = jnp.where(kept, 1 / jnp.where(kept, sizes, 1), 0)
    return left * kept, inverse, right * kept[:, None]


def grams_before(
    x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
) -> tuple[Float[Array, "tokens dim dim"], Float[Array, "tokens dim output"]]:
    """XᵀX and Xᵀy over the tokens before each token of a sequence.

    Args:
        x: (tokens, dim) inputs.
        y: (tokens, output) labels.

    Returns:
        (tokens, dim, dim) and (tokens, dim, output); zero for the first token.
    """
    rows = jnp.concatenate([x, y], -1)
    sums = jnp.cumsum(jnp.einsum("ti,tj->tij", x, rows)[:-1], 0)
    both = jnp.concatenate([jnp.zeros((1, *sums.shape[1:]), x.dtype), sums])
    return both[..., : x.shape[1]], both[..., x.shape[1] :]


def ridge_prefixes(
    x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"], penalty: Float[Array, ""]
) -> Float[Array, "tokens dim output"]:
    """`ridge_solution` of the tokens before each token of a sequence, in double precision and in one pass.

    With a penalty from running sums of XᵀX, one Cholesky factor for each prefix; without one by pseudo-inverses.

    Args:
        x: (tokens, dim) inputs.
        y: (tokens, output) labels.
        penalty: of the norm; may be traced.

    Returns:
        (tokens, dim, output) w; zero for the first token.
    """
    x, y, penalty = (jnp.asarray(part, jnp.float64) for part in (x, y, penalty))

    def solved() -> Array:
        gram, cross = grams_before(x, y)
        factor = jnp.linalg.cholesky(gram + penalty * jnp.eye(x.shape[1]))
        half = jax.scipy.linalg.solve_triangular(factor, cross, lower=True)
        return jax.scipy.linalg.solve_triangular(jnp.swapaxes(factor, -1, -2), half, lower=False)

    def limit() -> Array:
        seen = jnp.tril(jnp.ones((x.shape[0], x.shape[0])), -1)[..., None]
        return jax.vmap(lambda keep: ridge_solution(x * keep, y * keep, 0.0))(seen)

    return jax.lax.cond(penalty > 0, solved, limit)


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

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        return jnp.einsum("td,tdo->to", x, ridge_prefixes(x, y, self.penalty)).astype(x.dtype)


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

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        inputs = x.astype(jnp.float64)
        bent, known = inputs @ self.factor, inputs @ self.mean
        centered = ridge_prefixes(bent, y - known, self.noise)
        return (known + jnp.einsum("td,tdo->to", bent, centered)).astype(x.dtype)


def as_columns(vector: Float[Array, " ..."]) -> Float[Array, "dim output"]:
    """A task vector (dim) as one column that all outputs share, or columns (dim, output) as they are.

    Args:
        vector: (dim) or (dim, output).

    Returns:
        (dim, 1) or (dim, output).
    """
    require(vector.ndim in (1, 2), f"a task vector must have shape (dim) or (dim, output), not {vector.shape}")
    return vector[:, None] if vector.ndim == 1 else vector
