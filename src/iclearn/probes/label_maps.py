"""Errors of predictors that are linear in the labels, with tasks, queries and noise integrated out.

Such a predictor answers q·A(X)y. Given the inputs X its mean squared error over w, q and noise is a trace, so that only
X is left to average over: the same mean with a fraction of the spread.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import require
from ..core.model import AbstractModel
from ..core.prompt import Prompt


def label_map(model: AbstractModel, prompt: Prompt) -> Float[Array, "dim context"]:
    """A(X) of a model that answers q·A(X)y, from its answers to one-hot labels.

    Args:
        model: linear in the labels and in the query, with every output answered by itself.
        prompt: a prompt, whose labels and query are not read.

    Returns:
        (dim, context) A; columns of pairs that are not there are 0.
    """
    basis = Prompt(prompt.x, jnp.eye(prompt.x.shape[0], dtype=prompt.x.dtype), prompt.query, prompt.mask)
    return model.sensitivity(basis).T * prompt.mask


def conditional_error(
    label_map: Float[Array, "dim context"],
    x: Float[Array, "context dim"],
    noise: Float[Array, ""] | float = 0.0,
    prior: Float[Array, "dim dim"] | None = None,
    query: Float[Array, "dim dim"] | None = None,
) -> Float[Array, ""]:
    """tr(Λ(AX − I)S(AX − I)ᵀ) + σ² tr(Λ A Aᵀ): the error of q·Ay against w·q given X, over w, q and noise.

    Args:
        label_map: (dim, context) A.
        x: (context, dim) X.
        noise: σ², of the labels.
        prior: (dim, dim) S = E wwᵀ (None: I).
        query: (dim, dim) Λ = E qqᵀ (None: I).

    Returns:
        () the error, not divided by dim.

    >>> float(conditional_error(jnp.zeros((3, 2)), jnp.ones((2, 3))))  # the zero predictor
    3.0
    """
    dim = x.shape[1]
    left = label_map @ x - jnp.eye(dim)
    through = left if prior is None else left @ prior
    total = through @ left.T + noise * label_map @ label_map.T
    return jnp.trace(total if query is None else query @ total)


class LinearErrors(eqx.Module):
    """Mean errors of a predictor at every position, over the inputs alone.

    Args:
        mean: (token) the mean over sequences.
        stderr: (token) its standard error.
    """

    mean: Float[Array, " token"]
    stderr: Float[Array, " token"]


def linear_errors(
    model: AbstractModel,
    x: Float[Array, "sequence token dim"] | np.ndarray,
    noise: float = 0.0,
    *,
    prior: Float[Array, "dim dim"] | np.ndarray | None = None,
    query: Float[Array, "dim dim"] | np.ndarray | None = None,
) -> LinearErrors:
    """The error of a predictor at every position, divided by dim, against labels without noise; Rao–Blackwellized.

    Args:
        model: linear in the labels and in the query; others are refused.
        x: (sequence, token, dim) inputs; the last token of each is never read.
        noise: σ² of the labels.
        prior: (dim, dim) E wwᵀ (None: I).
        query: (dim, dim) E qqᵀ (None: I).

    Returns:
        Means and standard errors, for 0, 1, … pairs.

    >>> from iclearn.models.predictors import LeastSquares
    >>> linear_errors(LeastSquares(), np.random.default_rng(0).normal(size=(4, 6, 5))).mean.round(6)
    Array([1. , 0.8, 0.6, 0.4, 0.2, 0. ], dtype=float64)
    """
    inputs = jnp.asarray(x, jnp.float64)
    prior, query = (None if part is None else jnp.asarray(part, float) for part in (prior, query))
    _require_linear(model, inputs[0])
    return _linear_errors(model, inputs, jnp.asarray(noise, float), prior, query)


@eqx.filter_jit
def _linear_errors(
    model: AbstractModel, x: Array, noise: Array, prior: Array | None, query: Array | None
) -> LinearErrors:
    sequences, tokens, dim = x.shape

    def one(inputs: Array, length: Array) -> Array:
        there = jnp.arange(tokens - 1) < length
        prompt = Prompt(inputs[:-1], jnp.zeros((tokens - 1, 1)), jnp.zeros(dim), there)
        found = label_map(model, prompt)
        return conditional_error(found, inputs[:-1] * there[:, None], noise, prior, query) / dim

    errors = jax.vmap(lambda inputs: jax.vmap(lambda n: one(inputs, n))(jnp.arange(tokens)))(x)
    return LinearErrors(errors.mean(0), errors.std(0, ddof=1) / sequences**0.5)


def _require_linear(model: AbstractModel, x: Array) -> None:
    """Refuse a model whose answer to drawn labels and a drawn query is not q·A(X)y."""
    rng = np.random.default_rng(0)
    inputs = x[:-1]
    labels, asked = (jnp.asarray(rng.normal(size=size)) for size in ((inputs.shape[0], 1), inputs.shape[1]))
    prompt = Prompt(inputs, labels, asked, jnp.ones(inputs.shape[0], bool))
    answer, linear = _both(model, prompt)
    scale = 1 + float(jnp.abs(answer).max())
    name = type(model).__name__
    close = float(jnp.abs(answer - linear).max()) <= 1e-8 * scale
    require(close, f"{name} is not linear in labels and query: {float(answer[0]):.6g} is not {float(linear[0]):.6g}")


@eqx.filter_jit
def _both(model: AbstractModel, prompt: Prompt) -> tuple[Array, Array]:
    return model.predict(prompt), prompt.query @ (label_map(model, prompt) @ prompt.y)
