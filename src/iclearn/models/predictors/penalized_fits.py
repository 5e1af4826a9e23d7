"""Least squares with an absolute-value penalty: Lasso, Huber's estimator, least absolute deviations.

Huber's loss is the least of ½(r − e)² + δ|e| over e. With P the projector off the columns of X his estimator is
w = X⁺(y − e), e = argmin ½‖P(y − e)‖² + δ‖e‖₁: a Lasso in e. As δ → 0 it is least absolute deviations. Where X has full
row rank P is 0 and both are the interpolator of least norm.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .penalized_path import penalized_minimizer
from .shrinkage import context, kept_directions, refuse_negative, scalar

GAP = 1e-12  # duality gap of Lasso, relative to mean y²
MAX_SWEEPS = 2000
NOTHING = 1e-12  # residuals up to this part of the labels are rounding


def lasso_gap(
    x: Float[Array, "context dim"], y: Float[Array, " context"], w: Float[Array, " dim"], penalty: Array | float
) -> Float[Array, ""]:
    """The duality gap of (1/2)‖y − Xw‖² + λ‖w‖₁: how far from the least value w is at most.

    Args:
        x: (context, dim) inputs.
        y: (context) labels.
        w: (dim) the estimate.
        penalty: λ.

    Returns:
        () the gap, not negative but for rounding.

    >>> float(lasso_gap(jnp.eye(1), jnp.array([3.0]), jnp.array([2.0]), 1.0)), float(
    ...     lasso_gap(jnp.eye(1), jnp.array([3.0]), jnp.zeros(1), 1.0)
    ... )
    (0.0, 2.0)
    """
    residual = y - x @ w
    pull = jnp.max(jnp.abs(x.T @ residual), initial=0.0)
    shrink = jnp.minimum(1.0, penalty / jnp.where(pull > 0, pull, 1.0))
    dual = shrink * residual
    return 0.5 * jnp.sum((residual - dual) ** 2) + penalty * jnp.sum(jnp.abs(w)) - jnp.dot(dual, x @ w)


def lasso_solution(
    x: Float[Array, "context dim"], y: Float[Array, " context"], penalty: Array | float, gap: float
) -> Float[Array, " dim"]:
    """argmin_w (1/2)‖y − Xw‖² + λ‖w‖₁.

    By its path (`penalized_minimizer`); where ties leave a gap, sweeps of coordinate descent close it.

    Args:
        x: (context, dim) inputs.
        y: (context) labels.
        penalty: λ; may be traced.
        gap: the duality gap to reach, relative to ‖y‖².

    Returns:
        (dim) w.
    """
    gram, cross = x.T @ x, x.T @ y
    scale = jnp.diag(gram)
    enough = gap * jnp.sum(y**2)

    def sweep(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        w, count = carry

        def move(j: Array, w: Array) -> Array:
            pull = cross[j] - gram[j] @ w + scale[j] * w[j]
            size = jnp.maximum(jnp.abs(pull) - penalty, 0.0)
            return w.at[j].set(jnp.where(scale[j] > 0, jnp.sign(pull) * size / jnp.where(scale[j] > 0, scale[j], 1), 0))

        return jax.lax.fori_loop(0, w.shape[0], move, w), count + 1

    def unfinished(carry: tuple[Array, Array]) -> Array:
        w, count = carry
        return (lasso_gap(x, y, w, penalty) > enough) & (count < MAX_SWEEPS)

    found = penalized_minimizer(gram, cross, penalty)
    found = jnp.where(jnp.all(jnp.isfinite(found)), found, 0.0)
    return jax.lax.while_loop(unfinished, sweep, (found, jnp.zeros((), int)))[0]


class Lasso(AbstractModel):
    """Lasso without an intercept: argmin (1/2n) Σ (y_i − w·x_i)² + α‖w‖₁, n the pairs of the prompt; exact.

    garg2022 ran scikit-learn at its default tolerance, whose answers for small α are far from the minimizer.

    Args:
        penalty: α; may be traced.
        gap: duality gap to reach, relative to mean y².

    >>> from iclearn.core.prompt import full_prompt
    >>> eqx.filter_jit(Lasso(0.5).predict)(full_prompt(2 * jnp.eye(2), jnp.array([[3.0], [0.5]]), jnp.ones(2)))
    Array([1.25], dtype=float64)
    """

    penalty: Float[Array, ""] = eqx.field(converter=scalar)
    gap: float = eqx.field(static=True, default=GAP, kw_only=True)

    def __check_init__(self) -> None:
        refuse_negative("the Lasso penalty", self.penalty)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        total = self.penalty * jnp.maximum(prompt.num_context(), 1)
        w = jax.vmap(lambda labels: lasso_solution(x, labels, total, self.gap), 1, 1)(y)
        return (prompt.query @ w).astype(prompt.query.dtype)


def robust_solution(
    x: Float[Array, "context dim"], y: Float[Array, " context"], threshold: Array | float
) -> Float[Array, " dim"]:
    """argmin_w Σ ρ_δ(y_i − w·x_i) with Huber's ρ_δ(r) = r²/2 up to |r| = δ and δ|r| − δ²/2 beyond; of least norm.

    Args:
        x: (context, dim) inputs; rows of zeros, with a label 0, are pairs that are not there.
        y: (context) labels.
        threshold: δ; 0 gives the limit of least absolute deviations. May be traced.

    Returns:
        (dim) w.
    """
    left, inverse, right = kept_directions(x)
    present = jnp.any(x != 0, 1)
    off = jnp.diag(present.astype(x.dtype)) - left @ left.T  # left has zero columns where nothing is kept
    free = present.sum() > (inverse > 0).sum()
    off = jnp.where(free, off, 0.0)
    pulled = off @ y
    rounding = jnp.max(jnp.abs(pulled), initial=0.0) <= NOTHING * jnp.max(jnp.abs(y), initial=0.0)
    cut = penalized_minimizer(off, jnp.where(rounding, 0.0, pulled), threshold)
    return right.T @ (inverse * (left.T @ (y - cut)))


class Huber(AbstractModel):
    """Huber's estimator without an intercept: argmin Σ ρ_δ(y_i − w·x_i); exact, of least norm where it is not unique.

    Args:
        threshold: δ, above 0; may be traced. It is in the units of the labels.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((4, 1)), jnp.array([[0.0], [0.0], [0.0], [9.0]]), jnp.ones(1))
    >>> [round(float(eqx.filter_jit(Huber(delta).predict)(prompt)[0]), 6) for delta in (0.6, 0.3)]
    [0.2, 0.1]
    """

    threshold: Float[Array, ""] = eqx.field(converter=scalar, default=1.345)

    def __check_init__(self) -> None:
        refuse_negative("Huber's threshold", self.threshold)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return _robust(prompt, self.threshold)


class LeastAbsolute(AbstractModel):
    """Least absolute deviations without an intercept: argmin Σ |y_i − w·x_i|, as the limit of `Huber` for δ → 0; exact.

    While the context can be fitted exactly it is `LeastSquares`.
    """

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return _robust(prompt, 0.0)


def _robust(prompt: Prompt, threshold: Array | float) -> Float[Array, " output"]:
    x, y = (part.astype(jnp.float64) for part in context(prompt))
    w = jax.vmap(lambda labels: robust_solution(x, labels, threshold), 1, 1)(y)
    return (prompt.query @ w).astype(prompt.query.dtype)
